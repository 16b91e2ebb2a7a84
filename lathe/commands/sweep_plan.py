"""`lathe sweep --dry-run`: the points, why some have no metrics, and an estimate of the time."""

from collections import Counter
from itertools import islice

from lathe.commands.terminal import console, print_json, table
from lathe.sweeps.dry_run import MOST_EXAMINED, Planned, estimate, planned_points
from lathe.sweeps.execution import ExecutionOptions
from lathe.sweeps.measurement import OK
from lathe.sweeps.specification import Sweep
from lathe.sweeps.tables import point_columns, values_of_point

SHOWN = 1000
"""Points that are printed, at most."""
WIDTH = 200


def print_plan(spec: Sweep, running: ExecutionOptions, check: bool, as_json: bool) -> None:
    """Print the points and an estimate of the time, measuring only a few of them."""
    points = list(islice(planned_points(spec), MOST_EXAMINED))
    expected = estimate(spec, running, check)
    if as_json:
        print_json(
            {
                "points": spec.count,
                "looked_at": len(points),
                "rows": [_dict(each) for each in points],
                "estimated_seconds": expected.seconds,
                "processes": expected.processes,
                "machines_to_build": expected.machines,
                "without_estimate": list(expected.unknown),
            }
        )
        return
    names = point_columns(spec)
    lines = [values_of_point(each.point) for each in points[:SHOWN]]
    rows = [
        (each.index, *(line.get(name, "") for name in names), each.status if each.status == OK else each.reason)
        for each, line in zip(points, lines, strict=False)
    ]
    out = console(WIDTH)
    out.print(table("", ["point", *names, "status"], rows, left=0), soft_wrap=True)
    if len(points) > SHOWN:
        out.print(f"... and {len(points) - SHOWN} more of these")
    summary = ", ".join(f"{count} {status}" for status, count in Counter(each.status for each in points).items())
    out.print(f"\n{len(points)} points checked: {summary}; the grid has {spec.count}", soft_wrap=True)
    if spec.search is not None:
        out.print(f"Optuna chooses {min(spec.search.points, spec.count)} of them.")
    if expected.seconds is not None:
        out.print(
            f"About {_time(expected.seconds)} on {expected.processes} processes, estimated from {expected.measured} "
            "points measured now.", soft_wrap=True,
        )  # fmt: skip
    for reason in expected.unknown:
        out.print(f"Not in the estimate: {reason}", soft_wrap=True)
    if expected.machines and spec.hardware is not None:
        each = "seconds, by Yosys" if spec.hardware.device is None else "minutes, for place and route"
        out.print(f"In addition, the hardware of each of {expected.machines} machines takes {each}.", soft_wrap=True)


def _dict(each: Planned) -> dict[str, object]:
    return {"point": each.index, **values_of_point(each.point), "status": each.status, "reason": each.reason}


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
