"""Executes a sweep: distributes points to processes or a cluster, and yields rows as they are measured."""

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
from lathe.sweeps.task_queue import TaskQueue
from lathe.sweeps.workers import RETRIES, Task, WorkerPool


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class ExecutionOptions:
    """How a sweep is executed: the number of processes, the time limit of a point in seconds, retries of a lost point.

    ``cluster``: the address of a Dask scheduler, on whose workers points are measured instead.
    """

    jobs: int | None = None
    timeout: float | None = None
    retries: int = RETRIES
    cluster: str | None = None


def check_not_distributed(name: str, jobs: int | None) -> None:
    """Raise SweepError if a number of local processes is given with a cluster; ``name``: the option's name."""
    if jobs is not None:
        cluster = "--cluster" if name.startswith("--") else "cluster"
        raise SweepError(
            f"{name} must be omitted with {cluster}, not {jobs!r}. A cluster has as many processes as its workers have "
            "threads."
        )


def options_of(sweep: Sweep, check: bool = False, *, keyed: bool = False) -> Options:
    """The options with which the points of a sweep are measured; ``keyed``: rows get the keys of their points."""
    memories = memories_of(sweep) if sweep.shared else ()
    return Options(check, memories, sweep.energies, sweep.hardware, sweep.budget, keyed)


def run_sweep(
    sweep: Sweep,
    *,
    jobs: int | None = None,
    check: bool = False,
    running: ExecutionOptions | None = None,
    left_out: Callable[[int, Point], bool] = lambda *_: False,
    keyed: bool = False,
) -> Generator[tuple[int, Row], None, None]:
    """Measure every point except those ``left_out``; yields grid indices and rows as they are measured.

    ``jobs``: the number of subprocesses, by default one per core; even a single one is a subprocess, which can be
    killed. ``keyed``: rows get the keys of their points. A point whose process dies is retried, and finally becomes a
    row that says so, as does one that times out. Closing the generator ends all processes.
    """
    grid = ((index, sweep.point(index)) for index in sweep.indices())
    points = ((index, point) for index, point in grid if not left_out(index, point))
    yield from measured_points(
        points, sweep.count, options_of(sweep, check, keyed=keyed), running or ExecutionOptions(jobs)
    )


def measured_points(
    points: Iterator[tuple[int, Point]],
    most: int,
    options: Options,
    running: ExecutionOptions,
    ahead: int | None = None,
) -> Generator[tuple[int, Row], None, None]:
    """Yield grid indices and rows of at most ``most`` points; up to ``ahead`` points are fetched in advance."""
    if running.cluster is not None:
        yield from measured_on_cluster(running.cluster, points, options, running.timeout, running.retries)
        return
    count = min(running.jobs or available_cores(), most)
    tasks = (Task(index, (point, options), _family(point, options)) for index, point in points)
    queue = TaskQueue(tasks) if ahead is None else TaskQueue(tasks, ahead)
    pool = WorkerPool(measure_content, max(count, 1), running.timeout, running.retries)
    with closing(pool.run(queue)) as results:
        for task, result in results:
            yield task.number, row_of(task.content[0], result, "Use fewer processes with --jobs.")


def _family(point: Point, options: Options) -> object:
    """A key of the points that this one shares work with; None if it shares none.

    With hardware metrics it is the machine without its memory, so that one process synthesises it and none waits.
    """
    if not options.memories and options.hardware is None:
        return None
    try:
        machine = machine_of(point)
    except LatheError:
        return None
    return family_of(point, machine) if options.hardware is None else core_of(machine)
