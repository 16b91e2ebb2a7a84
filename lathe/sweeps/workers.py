"""Processes that measure: each has one task at a time, and none of them is missed when it dies.

A process that ends, for want of memory or by a signal, takes nothing with it but its task, which another one begins
anew; a task that takes too long ends with its process. Each process has a pipe of its own, so that none dies with a
lock that others wait for. All of them are ended when the driver stops, and end by themselves when it is killed; so do
the tools that they run, since each process leads a group.
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

# One thread of BLAS for each process: the processes already take all cores, and small products want no more.
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
READY = "ready"
FAILED_STARTS = 3
"""So many processes in a row that end by themselves before they have begun are no accident."""
KILLED_STARTS = 20
"""So many that are killed before they have begun are none either."""
RETRIES = 2
"""How often a task is begun anew whose process has ended, if nobody says."""
PATIENCE = 1.0
"""Seconds that a process has to end by itself when all is done."""
STARTING = threading.Lock()
"""Held while a process starts: it inherits what belongs to the whole of this one, which several threads may change."""


@dataclass(frozen=True)
class Task:
    """Something to measure: its number, what it is, and the family that it shares work with."""

    number: int
    content: Any
    family: Hashable = None


@dataclass(frozen=True)
class Lost:
    """What became of a task that has no result: it took too long, or every process that tried it ended."""

    late: bool
    reason: str


class Source(Protocol):
    """Where tasks come from. ``held`` of them are known to be there."""

    held: int

    def take(self, family: Hashable) -> Task | None:
        """The next task for a process that had one of a family before; None where there is none now."""
        ...


class _Nothing:
    """No tasks but those that are to be begun anew."""

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
    """So many processes that apply ``function`` to tasks' contents.

    ``timeout``: seconds that one task may take. ``retries``: how often a task is begun anew whose process has ended.
    """

    function: Callable[[Any], Any]
    size: int
    timeout: float | None = None
    retries: int = RETRIES
    workers: list[_Worker] = field(default_factory=list)
    failed_starts: int = 0
    ended: dict[int, int] = field(default_factory=dict)
    again: deque[Task] = field(default_factory=deque)
    stopped: bool = False

    def run(self, source: Source) -> Generator[tuple[Task, Any], None, None]:
        """Tasks with their results, or :class:`Lost`, as they come; closing it ends all processes.

        Raises SweepError where no process can be started.
        """
        try:
            first = source.take(None)
            if first is None:
                return
            self.again.append(first)
            self.workers += [self._started() for _ in range(min(self.size, 1 + source.held))]
            yield from self._results(source)
            self._let_go()
        finally:
            self.end()

    def result(self, content: Any) -> Any:
        """The result of one task, or :class:`Lost`. Its process stays for the next one, until :meth:`end`.

        Raises SweepError where no process can be started, or after :meth:`stop`.
        """
        self.ended.clear()
        self.again.append(Task(0, content))
        try:
            for worker in self.workers:
                if not worker.process.is_alive():  # it ended at rest, for which no task is blamed
                    self._replace(worker)
            if not self.workers:
                self.workers.append(self._started())
            ((_, result),) = self._results(_Nothing())
        except BaseException:
            self.end()
            raise
        return result

    def stop(self) -> None:
        """End all processes, from another thread: no others are started, and who waits for a result gets an error."""
        self.stopped = True
        for worker in list(self.workers):
            worker.process.kill()
            _end_group(worker.process.pid)

    def _results(self, source: Source) -> Iterator[tuple[Task, Any]]:
        """The results of all tasks, by the processes that there are."""
        while True:
            for worker in self.workers:
                if worker.ready and worker.task is None:
                    self._give(worker, source)
            if all(worker.ready and worker.task is None for worker in self.workers):
                return
            yield from self._settled()

    def _give(self, worker: _Worker, source: Source) -> None:
        task = self.again.popleft() if self.again else source.take(worker.family)
        if task is None:
            return
        worker.task, worker.family = task, task.family
        worker.deadline = time.monotonic() + (self.timeout or float("inf"))
        with suppress(OSError):  # it has just ended, which is seen next
            worker.pipe.send(task.content)

    def _settled(self) -> Iterator[tuple[Task, Any]]:
        """Wait until something happens, and tell what has come of tasks."""
        now = time.monotonic()
        nearest = min((worker.deadline for worker in self.workers if worker.task is not None), default=float("inf"))
        busy = [worker for worker in self.workers if worker.task is not None or not worker.ready]
        signs: dict[Any, _Worker] = {worker.pipe: worker for worker in self.workers}
        signs |= {worker.process.sentinel: worker for worker in busy}
        left = None if nearest == float("inf") else max(nearest - now, 0)
        for worker in list(dict.fromkeys(signs[each] for each in wait(list(signs), left))):
            yield from self._heard(worker)
        for worker in list(self.workers):
            if worker.task is not None and time.monotonic() >= worker.deadline:
                task = worker.task
                self._replace(worker)
                yield task, Lost(True, f"The point took more than {self.timeout:g} seconds")

    def _heard(self, worker: _Worker) -> Iterator[tuple[Task, Any]]:
        """What a process has said; or that it has ended, behind what it said before."""
        try:
            while worker.pipe.poll():
                said = worker.pipe.recv()
                if not worker.ready:
                    worker.ready, self.failed_starts = True, 0
                    continue
                task, worker.task, worker.deadline = worker.task, None, float("inf")
                assert task is not None
                yield task, said
                return
        except (EOFError, OSError):  # it ended, perhaps while it spoke
            worker.process.join(PATIENCE)
        if worker.process.is_alive():
            return
        task, code = worker.task, worker.process.exitcode
        if not worker.ready:
            self.failed_starts += 1
            most = KILLED_STARTS if code is not None and code < 0 else FAILED_STARTS
            if self.failed_starts >= most:
                raise SweepError(
                    f"The processes of a sweep must start, and {most} in a row ended at once ({_told(code)}). What "
                    "they said stands above. Use fewer of them with --jobs where memory is short."
                )
        self._replace(worker)
        if task is None:
            return
        self.ended[task.number] = self.ended.get(task.number, 0) + 1
        if self.ended[task.number] <= self.retries:
            self.again.append(task)
        else:
            times = self.ended[task.number]
            yield task, Lost(False, f"The point's process ended {times} times, at last with {_told(code)}")

    def _replace(self, worker: _Worker) -> None:
        """Another process in the place of one that has ended, or must."""
        _kill(worker)
        self.workers[self.workers.index(worker)] = self._started()

    def _started(self) -> _Worker:
        if self.stopped:
            raise SweepError("Processes of a sweep must be asked for before it has ended, not after.")
        # spawn: the same on every system, and no copy of this process's threads.
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

    def _let_go(self) -> None:
        """Let all processes, which rest, end by themselves."""
        for worker in self.workers:
            with suppress(OSError):
                worker.pipe.send(None)
        until = time.monotonic() + PATIENCE
        for worker in self.workers:
            worker.process.join(max(until - time.monotonic(), 0))

    def end(self) -> None:
        """End all processes that are left, and forget what they were to do."""
        self.again.clear()
        for worker in self.workers:
            worker.process.kill()  # all of them, before one is waited for
        for worker in self.workers:
            _kill(worker)
        self.workers = []


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that start inside never hear Ctrl-C, not even while they begin; this one hears it afterwards.

    It is blocked for what starts, and put off here: another thread may take it, and then Python's main thread hears of
    it all the same, halfway through a start.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, which ends with SIGINT unblocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    heard: list[tuple[Any, ...]] = []
    handler = signal.getsignal(signal.SIGINT)
    put_off = callable(handler) and threading.current_thread() is threading.main_thread()
    if put_off:
        signal.signal(signal.SIGINT, lambda *told: heard.append(told))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if put_off:
            signal.signal(signal.SIGINT, handler)
    if heard and callable(handler):
        handler(*heard[-1])


@contextmanager
def _without_script() -> Iterator[None]:
    """Processes that start inside do not import the script that this one runs: it may sweep at its top level."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _allowed_to_start() -> Iterator[None]:
    """Start processes from a daemon of multiprocessing, too: ours do not stay when it ends, which is feared of them."""
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
    _end_group(worker.process.pid)  # also of one that has ended by itself: its tools may still run
    worker.process.join()
    worker.pipe.close()


def _end_group(leader: int | None) -> None:
    """End what a process has started, where systems have groups of processes."""
    if hasattr(os, "killpg") and leader is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _told(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{name}, mostly for want of memory" if name == "SIGKILL" else name
    return f"status {code}"


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that start inside have one thread of BLAS."""
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
    """What a process does: tasks, until it is told to end or the driver is no more."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is said to all; the driver ends this process
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
