"""Process pool of a sweep: subprocesses that measure one task at a time, and that may die.

If a process dies, from a signal or lack of memory, only its task is affected, and retried in another process; a task
that times out is killed with its process. Each process has its own pipe, so that none can die while holding a lock that
others wait for. The driver kills all processes when it stops, and they end by themselves when it is killed, with the
tools that they run, since each process leads a process group.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Protocol

from lathe.sweeps.errors import SweepError

# One BLAS thread per process: the processes already use all cores, and small matmuls do not need more.
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
READY = "ready"
FAILED_STARTS = 3
"""After so many processes in a row that exit during their start, the pool gives up."""
KILLED_STARTS = 20
"""After so many processes in a row that are killed during their start, the pool gives up."""
RETRIES = 2
"""How often a task is retried whose process has died, by default."""
PATIENCE = 1.0
"""Seconds that an idle process has to exit by itself at the end."""
STARTING = threading.Lock()
"""Held while a process starts: it inherits process-wide state, which other threads may change."""


@dataclass(frozen=True)
class Task:
    """Something to measure: its number, its content, and the family of tasks that it shares work with."""

    number: int
    content: Any
    family: Hashable = None


@dataclass(frozen=True)
class Lost:
    """The result of a task that timed out (``late``), or whose processes all died."""

    late: bool
    reason: str


class Source(Protocol):
    """A source of tasks, such as a TaskQueue. ``held``: the number of tasks that were fetched in advance."""

    held: int

    def take(self, family: Hashable) -> Task | None:
        """The next task for a process whose last task was of ``family``; None if there is none."""
        ...


class _NoTasks:
    """An empty source: only retries remain."""

    held = 0

    def take(self, family: Hashable) -> None:
        """None."""


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    task: Task | None = None
    family: Hashable = None
    deadline: float = float("inf")


@dataclass(eq=False)
class WorkerPool:
    """A pool of ``size`` processes that apply ``function`` to the contents of tasks.

    ``timeout``: the time limit of a task in seconds. ``retries``: how often a task is retried whose process has died.
    """

    function: Callable[[Any], Any]
    size: int
    timeout: float | None = None
    retries: int = RETRIES
    workers: list[_Worker] = field(default_factory=list)
    failed_starts: int = 0
    deaths: dict[int, int] = field(default_factory=dict)
    retried: deque[Task] = field(default_factory=deque)
    stopped: bool = False

    def run(self, source: Source) -> Generator[tuple[Task, Any], None, None]:
        """Yield tasks with their results, or :class:`Lost`, as they complete; closing it ends all processes.

        Raises SweepError if no process can be started.
        """
        try:
            first = source.take(None)
            if first is None:
                return
            self.retried.append(first)
            self.workers += [self._started() for _ in range(min(self.size, 1 + source.held))]
            yield from self._results(source)
            self._release()
        finally:
            self.end()

    def result(self, content: Any) -> Any:
        """The result of one task, or :class:`Lost`. Its process is reused for the next one, until :meth:`end`.

        Raises SweepError if no process can be started, and after :meth:`stop`.
        """
        self.deaths.clear()
        self.retried.append(Task(0, content))
        try:
            for worker in self.workers:
                if not worker.process.is_alive():  # it died while idle, which counts for no task
                    self._replace(worker)
            if not self.workers:
                self.workers.append(self._started())
            ((_, result),) = self._results(_NoTasks())
        except BaseException:
            self.end()
            raise
        return result

    def stop(self) -> None:
        """Kill all processes, from another thread; no others are started, and a pending :meth:`result` raises."""
        self.stopped = True
        for worker in list(self.workers):
            worker.process.kill()
            _end_group(worker.process.pid)

    def _results(self, source: Source) -> Iterator[tuple[Task, Any]]:
        """Yield the results of all tasks."""
        while True:
            for worker in self.workers:
                if worker.ready and worker.task is None:
                    self._give(worker, source)
            if all(worker.ready and worker.task is None for worker in self.workers):
                return
            yield from self._settled()

    def _give(self, worker: _Worker, source: Source) -> None:
        task = self.retried.popleft() if self.retried else source.take(worker.family)
        if task is None:
            return
        worker.task, worker.family = task, task.family
        worker.deadline = time.monotonic() + (self.timeout or float("inf"))
        with suppress(OSError):  # it has just died, which is detected next
            worker.pipe.send(task.content)

    def _settled(self) -> Iterator[tuple[Task, Any]]:
        """Wait for a result, a death or a timeout, and yield the tasks that are settled."""
        now = time.monotonic()
        nearest = min((worker.deadline for worker in self.workers if worker.task is not None), default=float("inf"))
        busy = [worker for worker in self.workers if worker.task is not None or not worker.ready]
        events: dict[Any, _Worker] = {worker.pipe: worker for worker in self.workers}
        events |= {worker.process.sentinel: worker for worker in busy}
        timeout = None if nearest == float("inf") else max(nearest - now, 0)
        for worker in list(dict.fromkeys(events[each] for each in wait(list(events), timeout))):
            yield from self._received(worker)
        for worker in list(self.workers):
            if worker.task is not None and time.monotonic() >= worker.deadline:
                task = worker.task
                self._replace(worker)
                yield task, Lost(True, f"The point took more than {self.timeout:g} seconds")

    def _received(self, worker: _Worker) -> Iterator[tuple[Task, Any]]:
        """Handle the messages of a process, and then its death, if it has died."""
        try:
            while worker.pipe.poll():
                message = worker.pipe.recv()
                if not worker.ready:
                    worker.ready, self.failed_starts = True, 0
                    continue
                task, worker.task, worker.deadline = worker.task, None, float("inf")
                assert task is not None
                yield task, message
                return
        except (EOFError, OSError):  # it died, perhaps while sending
            worker.process.join(PATIENCE)
        if worker.process.is_alive():
            return
        task, code = worker.task, worker.process.exitcode
        if not worker.ready:
            self.failed_starts += 1
            most = KILLED_STARTS if code is not None and code < 0 else FAILED_STARTS
            if self.failed_starts >= most:
                raise SweepError(
                    f"Cannot start the processes of a sweep: {most} in a row ended at once ({_exit_text(code)}). Their "
                    "output is above. If memory is short, use fewer with --jobs."
                )
        self._replace(worker)
        if task is None:
            return
        self.deaths[task.number] = self.deaths.get(task.number, 0) + 1
        if self.deaths[task.number] <= self.retries:
            self.retried.append(task)
        else:
            times = self.deaths[task.number]
            yield task, Lost(False, f"The point's process died {times} times, the last time with {_exit_text(code)}")

    def _replace(self, worker: _Worker) -> None:
        """Kill a process, unless it has died, and start another one instead."""
        _kill(worker)
        self.workers[self.workers.index(worker)] = self._started()

    def _started(self) -> _Worker:
        if self.stopped:
            raise SweepError("Cannot start a process: its sweep has ended.")
        # spawn: the same on every system, and without a copy of this process's threads.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, self.function), daemon=False)
        try:
            with STARTING, _without_interrupts(), _one_thread_each(), _without_script(), _allowed_to_start():
                process.start()
        except BaseException:
            if process.pid is not None:
                process.kill()
            raise
        there.close()
        return _Worker(process, here)

    def _release(self) -> None:
        """Let all processes, which are idle, exit by themselves."""
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send(None)
        until = time.monotonic() + PATIENCE
        for worker in self.workers:
            worker.process.join(max(until - time.monotonic(), 0))

    def end(self) -> None:
        """Kill all remaining processes, and forget their tasks."""
        self.retried.clear()
        for worker in self.workers:
            worker.process.kill()  # all of them, before waiting for one
        for worker in self.workers:
            _kill(worker)
        self.workers = []


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in the context never receive SIGINT (Ctrl-C); this one handles it after the context.

    The signal is blocked for the started process. Here its handler is also deferred: if another thread receives the
    signal, Python would still run the handler in the main thread, in the middle of a start.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, which leaves SIGINT unblocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    received: list[tuple[Any, ...]] = []
    handler = signal.getsignal(signal.SIGINT)
    deferred = callable(handler) and threading.current_thread() is threading.main_thread()
    if deferred:
        signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if deferred:
            signal.signal(signal.SIGINT, handler)
    if received and callable(handler):
        handler(*received[-1])


@contextmanager
def _without_script() -> Iterator[None]:
    """Processes started in the context do not import the main script, which may start a sweep at its top level."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _allowed_to_start() -> Iterator[None]:
    """Allow a daemonic process of multiprocessing to start processes: ours end with it, so that the ban is needless."""
    this = multiprocessing.current_process()
    daemon = this.daemon
    if not daemon:
        yield
        return
    this.daemon = False
    try:
        yield
    finally:
        this.daemon = daemon


def _kill(worker: _Worker) -> None:
    worker.process.kill()
    _end_group(worker.process.pid)  # also after it has exited: its tools may still run
    worker.process.join()
    worker.pipe.close()


def _end_group(leader: int | None) -> None:
    """Kill what a process has started, on systems with process groups."""
    if hasattr(os, "killpg") and leader is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _exit_text(code: int | None) -> str:
    """An exit code as text: a signal or a status."""
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{name}, probably out of memory" if name == "SIGKILL" else name
    return f"status {code}"


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started in the context use one BLAS thread."""
    before = {name: os.environ.get(name) for name in BLAS_VARIABLES}
    os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """Main function of a process: executes tasks until it receives None or the driver dies."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the driver ends this one
    driver = multiprocessing.parent_process()
    assert driver is not None
    threading.Thread(target=_end_with, args=(driver.sentinel,), daemon=True).start()
    with suppress(EOFError, OSError):
        pipe.send(READY)
        while (content := pipe.recv()) is not None:
            pipe.send(function(content))


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    if hasattr(os, "getpgrp") and os.getpgrp() == os.getpid():
        _end_group(os.getpid())
    os._exit(1)
