"""What a sweep would measure, and about how long it would take, without measuring all of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from lathe.configs import LatheError
from lathe.sweeps.execution import Running, available_cores, measured_points, options_of
from lathe.sweeps.hardware import built_as, is_known
from lathe.sweeps.machines import machine_of
from lathe.sweeps.measurement import INVALID, LATE, LOST, OK, UNMAPPABLE, Options, family_of
from lathe.sweeps.specification import Point, Sweep
from lathe.sweeps.workloads import make

FORBIDDEN = "left out"
COUNTED = 100_000
"""Points that are looked at; of more only how many there are is said."""


@dataclass(frozen=True)
class Planned:
    """A point that would be measured, or a status and the reason why it has no numbers."""

    place: int
    point: Point
    status: str
    reason: str = ""


def planned(sweep: Sweep) -> Iterator[Planned]:
    """All points of a grid or a sample, those too that a constraint forbids. Of a search, those of its grid."""
    places = range(sweep.count) if sweep.sample is None else sweep.sample.places(sweep.count)
    for place in places:
        point = sweep.point(place)
        broken = sweep.broken(point)
        if broken is not None:
            yield Planned(place, point, FORBIDDEN, f"The constraint {broken!r} does not hold.")
            continue
        try:
            machine_of(point)
        except LatheError as error:
            yield Planned(place, point, INVALID, str(error))
            continue
        try:
            make(point.workload, point.parameters)
        except LatheError as error:
            yield Planned(place, point, UNMAPPABLE, str(error))
            continue
        yield Planned(place, point, OK)


@dataclass(frozen=True)
class Estimate:
    """``seconds`` that a sweep would take on so many processes; ``measured`` points say so, and None if none could.

    Not among them: what takes seconds or minutes for each of ``machines``, whose hardware is not in the cache, and the
    points of workloads whose first point was lost, by the reasons in ``unknown``.
    """

    seconds: float | None
    processes: int
    measured: int
    machines: int = 0
    unknown: tuple[str, ...] = ()


def estimate(sweep: Sweep, running: Running, check: bool) -> Estimate:
    """How long a sweep takes: the first point of each workload is measured, and counts for all others.

    In a process of its own, as in the sweep: with the same time-out, which counts for a point that takes longer, and
    begun anew as often. Where points share programs, the first point is measured twice: the second time counts for
    points whose programs are there.
    """
    options = replace(options_of(sweep, check), hardware=None)
    points: dict[str, list[Planned]] = {}
    for each in islice(planned(sweep), COUNTED):
        if each.status == OK:
            points.setdefault(each.point.workload, []).append(each)
    processes = running.jobs or available_cores()
    share = min(1.0, sweep.search.points / sweep.count) if sweep.search is not None else 1.0
    share *= max(1.0, sweep.count / COUNTED) if sweep.sample is None else 1.0
    times, unknown = _times({name: ones[0].point for name, ones in points.items()}, options, running)
    seconds = 0.0
    for ones, (first, again) in ((points[workload], time) for workload, time in times.items()):
        families = Counter(family_of(each.point, machine_of(each.point)) for each in ones) if options.memories else ()
        begun = len(families) or len(ones)
        seconds += (begun * first + (len(ones) - begun) * again) * share
    machines = _unknown_machines(sweep, points)
    return Estimate(seconds / processes if times else None, processes, len(times), machines, unknown)


def _times(
    points: Mapping[str, Point], options: Options, running: Running
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...]]:
    """Seconds of a point of each workload, and of the same again; and why others have none."""
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
    """How many machines of different hardware have to be looked at by its tools."""
    if sweep.hardware is None:
        return 0
    configs = {machine_of(each.point).config for ones in points.values() for each in ones}
    return len({built for built in map(built_as, configs) if not is_known(built, sweep.hardware)})
