"""What a sweep would measure, and about how long it would take, without measuring all of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from lathe.configs import LatheError
from lathe.sweeps.execution import Running, available_cores, options_of
from lathe.sweeps.hardware import built_as, is_known
from lathe.sweeps.machines import machine_of
from lathe.sweeps.measurement import INVALID, OK, UNMAPPABLE, family_of, measure
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

    Not among them: what takes seconds or minutes for each of ``machines``, whose hardware is not in the cache.
    """

    seconds: float | None
    processes: int
    measured: int
    machines: int = 0


def estimate(sweep: Sweep, running: Running, check: bool) -> Estimate:
    """How long a sweep takes: the first point of each workload is measured, and counts for all others.

    Where points share programs, it is measured twice: the second time counts for points whose programs are there.
    """
    options = replace(options_of(sweep, check), hardware=None)
    points: dict[str, list[Planned]] = {}
    for each in islice(planned(sweep), COUNTED):
        if each.status == OK:
            points.setdefault(each.point.workload, []).append(each)
    processes = running.jobs or available_cores()
    seconds, measured = 0.0, 0
    share = min(1.0, sweep.search.points / sweep.count) if sweep.search is not None else 1.0
    share *= max(1.0, sweep.count / COUNTED) if sweep.sample is None else 1.0
    for ones in points.values():
        first = measure(ones[0].point, options=options).seconds
        again = measure(ones[0].point, options=options).seconds if options.memories else first
        families = Counter(family_of(each.point, machine_of(each.point)) for each in ones) if options.memories else ()
        begun = len(families) or len(ones)
        seconds += (begun * first + (len(ones) - begun) * again) * share
        measured += 1
    return Estimate(seconds / processes if measured else None, processes, measured, _unknown_machines(sweep, points))


def _unknown_machines(sweep: Sweep, points: Mapping[str, list[Planned]]) -> int:
    """How many machines of different hardware have to be looked at by its tools."""
    if sweep.hardware is None:
        return 0
    configs = {machine_of(each.point).config for ones in points.values() for each in ones}
    return len({built for built in map(built_as, configs) if not is_known(built, sweep.hardware)})
