"""Dry run of a sweep: the points that it would measure, and an estimate of its time."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from lathe.configs import LatheError
from lathe.sweeps.execution import ExecutionOptions, available_cores, measured_points, options_of
from lathe.sweeps.hardware import built_as, is_known
from lathe.sweeps.machines import machine_of
from lathe.sweeps.measurement import INVALID, LATE, LOST, OK, UNMAPPABLE, Options, family_of
from lathe.sweeps.specification import Point, Sweep
from lathe.sweeps.workloads import make

FORBIDDEN = "left out"
MOST_EXAMINED = 100_000
"""The maximum number of points that are examined."""


@dataclass(frozen=True)
class Planned:
    """A point of a dry run: it would be measured (status ok), or has a status and a reason why not."""

    index: int
    point: Point
    status: str
    reason: str = ""


def planned_points(sweep: Sweep) -> Iterator[Planned]:
    """All points of a grid or a sample, including group that violate a constraint; of a search, group of its grid."""
    indices = range(sweep.count) if sweep.sample is None else sweep.sample.indices(sweep.count)
    for index in indices:
        point = sweep.point(index)
        broken = sweep.broken(point)
        if broken is not None:
            yield Planned(index, point, FORBIDDEN, f"The machine violates the constraint {broken!r}.")
            continue
        try:
            machine_of(point)
        except LatheError as error:
            yield Planned(index, point, INVALID, str(error))
            continue
        try:
            make(point.workload, point.parameters)
        except LatheError as error:
            yield Planned(index, point, UNMAPPABLE, str(error))
            continue
        yield Planned(index, point, OK)


@dataclass(frozen=True)
class Estimate:
    """The ``seconds`` that a sweep would take on ``processes``, from ``measured`` points; None if none was measured.

    Not included: synthesis for the ``machines`` whose hardware metrics are not cached (seconds to minutes each), and
    points of workloads whose first point was lost; ``unknown`` has the reasons.
    """

    seconds: float | None
    processes: int
    measured: int
    machines: int = 0
    unknown: tuple[str, ...] = ()


def estimate(sweep: Sweep, running: ExecutionOptions, check: bool) -> Estimate:
    """Estimate the time of a sweep: measure the first point of each workload, and assume its time for all others.

    Points are measured as in the sweep, in a subprocess with the same timeout and retries; one that times out counts as
    the timeout. If points share programs, the first is measured twice: its second time, without compilation, is assumed
    for points whose program is shared.
    """
    options = replace(options_of(sweep, check), hardware=None)
    points: dict[str, list[Planned]] = {}
    for each in islice(planned_points(sweep), MOST_EXAMINED):
        if each.status == OK:
            points.setdefault(each.point.workload, []).append(each)
    processes = running.jobs or available_cores()
    share = min(1.0, sweep.search.points / sweep.count) if sweep.search is not None else 1.0
    share *= max(1.0, sweep.count / MOST_EXAMINED) if sweep.sample is None else 1.0
    times, unknown = _times({name: group[0].point for name, group in points.items()}, options, running)
    seconds = 0.0
    for group, (first, again) in ((points[workload], time) for workload, time in times.items()):
        families = Counter(family_of(each.point, machine_of(each.point)) for each in group) if options.memories else ()
        compiled = len(families) or len(group)
        seconds += (compiled * first + (len(group) - compiled) * again) * share
    machines = _unknown_machines(sweep, points)
    return Estimate(seconds / processes if times else None, processes, len(times), machines, unknown)


def _times(
    points: Mapping[str, Point], options: Options, running: ExecutionOptions
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...]]:
    """For each workload, the seconds of its point and of the same point measured again; reasons for lost points."""
    each_time = 2 if options.memories else 1
    chosen = [point for point in points.values() for _ in range(each_time)]
    alone = replace(running, jobs=1, cluster=None)
    with closing(measured_points(enumerate(chosen), len(chosen), options, alone, ahead=1)) as results:
        rows = [row for _, row in sorted(results, key=lambda each: each[0])]
    times: dict[str, tuple[float, float]] = {}
    unknown = []
    for at, workload in enumerate(points):
        measured = rows[each_time * at : each_time * (at + 1)]
        lost = [row.reason for row in measured if row.status == LOST]
        if lost:
            unknown.append(f"{workload}: {lost[0]}")
            continue
        seconds = [(running.timeout or 0.0) if row.status == LATE else row.seconds for row in measured]
        times[workload] = seconds[0], seconds[-1]
    return times, tuple(unknown)


def _unknown_machines(sweep: Sweep, points: Mapping[str, list[Planned]]) -> int:
    """The number of machines with distinct hardware whose hardware metrics are not cached."""
    if sweep.hardware is None:
        return 0
    configs = {machine_of(each.point).config for group in points.values() for each in group}
    return len({built for built in map(built_as, configs) if not is_known(built, sweep.hardware)})
