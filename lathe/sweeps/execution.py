"""Running a sweep: points to processes, rows as they come, lost ones told of."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

from lathe.configs import LatheError
from lathe.sweeps.cluster import measured_on_cluster
from lathe.sweeps.errors import SweepError
from lathe.sweeps.keys import measure_content
from lathe.sweeps.machines import machine_of
from lathe.sweeps.measurement import Options, Row, core_of, family_of, row_of
from lathe.sweeps.share_programs import memories_of
from lathe.sweeps.specification import Point, Sweep
from lathe.sweeps.task_queue import Backlog
from lathe.sweeps.workers import RETRIES, Task, WorkerPool


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Running:
    """How a sweep is run: on how many processes, seconds that a point may take, how often a lost one is begun anew.

    ``cluster``: the address of a Dask scheduler, whose workers measure instead.
    """

    jobs: int | None = None
    timeout: float | None = None
    retries: int = RETRIES
    cluster: str | None = None


def check_of_one_place(name: str, jobs: int | None) -> None:
    """Raise SweepError for a number of local processes, by the name of its option, that is given beside a cluster."""
    if jobs is not None:
        told = "--cluster" if name.startswith("--") else "cluster"
        raise SweepError(
            f"{name} must be left out with {told}, not {jobs!r}. The cluster has as many processes as its workers have "
            "threads."
        )


def options_of(sweep: Sweep, check: bool = False, *, keyed: bool = False) -> Options:
    """How the points of a sweep are measured; ``keyed``: with the key of each."""
    memories = memories_of(sweep) if sweep.shared else ()
    return Options(check, memories, sweep.energies, sweep.hardware, sweep.budget, keyed)


def run_sweep(
    sweep: Sweep,
    *,
    jobs: int | None = None,
    check: bool = False,
    running: Running | None = None,
    left_out: Callable[[int, Point], bool] = lambda *_: False,
    keyed: bool = False,
) -> Generator[tuple[int, Row], None, None]:
    """Measure every point but those ``left_out``; yields places and rows as they come.

    With ``keyed``, rows have the keys of their points. On `jobs` processes, one for each core unless given; also one is
    a process of its own, which can be ended. A point whose process ends is begun anew, and is at last a row that says
    so, as is one that takes too long. Closing the iterator ends all processes.
    """
    found = ((place, sweep.point(place)) for place in sweep.places())
    points = ((place, point) for place, point in found if not left_out(place, point))
    yield from measured_points(points, sweep.count, options_of(sweep, check, keyed=keyed), running or Running(jobs))


def measured_points(
    points: Iterator[tuple[int, Point]], most: int, options: Options, running: Running, ahead: int | None = None
) -> Generator[tuple[int, Row], None, None]:
    """Places and rows of points, at most so many; ``ahead`` of them are taken before their turn (all that fit)."""
    if running.cluster is not None:
        yield from measured_on_cluster(running.cluster, points, options, running.timeout, running.retries)
        return
    count = min(running.jobs or available_cores(), most)
    tasks = (Task(place, (point, options), _family(point, options)) for place, point in points)
    backlog = Backlog(tasks) if ahead is None else Backlog(tasks, ahead)
    crew = WorkerPool(measure_content, max(count, 1), running.timeout, running.retries)
    with closing(crew.run(backlog)) as results:
        for task, result in results:
            yield task.number, row_of(task.content[0], result, "Use fewer processes with --jobs.")


def _family(point: Point, options: Options) -> object:
    """What a point shares work in; None where it shares none.

    Where hardware is asked for, the machine's core: one process goes on with it, and none waits for another's results.
    """
    if not options.memories and options.hardware is None:
        return None
    try:
        machine = machine_of(point)
    except LatheError:
        return None
    return family_of(point, machine) if options.hardware is None else core_of(machine)
