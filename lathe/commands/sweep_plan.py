"""`lathe sweep --dry-run`: the points, those without numbers and why, and about how long all of them take."""

from collections import Counter
from itertools import islice

from lathe.commands.terminal import console, print_json, table
from lathe.sweeps.dry_run import COUNTED, Planned, estimate, planned
from lathe.sweeps.execution import Running
from lathe.sweeps.measurement import OK
from lathe.sweeps.specification import Sweep
from lathe.sweeps.tables import point_columns, values_of_point

SHOWN = 1000
"""Points that are printed."""
WIDTH = 200


def print_plan(found: Sweep, running: Running, check: bool, as_json: bool) -> None:
    """Print all that is known without measuring every point."""
    points = list(islice(planned(found), COUNTED))
    expected = estimate(found, running, check)
    if as_json:
        print_json(
            {
                "points": found.count,
                "looked_at": len(points),
                "rows": [_dict(each) for each in points],
                "estimated_seconds": expected.seconds,
                "processes": expected.processes,
                "machines_to_build": expected.machines,
                "without_estimate": list(expected.unknown),
            }
        )
        return
    names = point_columns(found)
    lines = [values_of_point(each.point) for each in points[:SHOWN]]
    rows = [
        (each.place, *(line.get(name, "") for name in names), each.status if each.status == OK else each.reason)
        for each, line in zip(points, lines, strict=False)
    ]
    out = console(WIDTH)
    out.print(table("", ["point", *names, "what of it"], rows, left=0), soft_wrap=True)
    if len(points) > SHOWN:
        out.print(f"... and {len(points) - SHOWN} more of these")
    told = ", ".join(f"{count} {status}" for status, count in Counter(each.status for each in points).items())
    out.print(f"\n{len(points)} points looked at: {told}; the grid has {found.count}", soft_wrap=True)
    if found.search is not None:
        out.print(f"Optuna chooses {min(found.search.points, found.count)} of them.")
    if expected.seconds is not None:
        out.print(
            f"About {_time(expected.seconds)} on {expected.processes} processes, by measuring {expected.measured} of "
            "them now.", soft_wrap=True,
        )  # fmt: skip
    for reason in expected.unknown:
        out.print(f"Not in the estimate: {reason}", soft_wrap=True)
    if expected.machines and found.hardware is not None:
        each = "seconds, by Yosys" if found.hardware.device is None else "minutes, to be placed and routed"
        out.print(f"Beside that the hardware of {expected.machines} machines takes {each}, each.", soft_wrap=True)


def _dict(each: Planned) -> dict[str, object]:
    return {"point": each.place, **values_of_point(each.point), "status": each.status, "reason": each.reason}


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
