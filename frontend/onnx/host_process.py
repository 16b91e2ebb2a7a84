"""Control of the host worker process: started on first use, reused, with limits of memory and time.

Each process of Lathe has one. It is killed at a timeout, restarted after it has died, and ends with its parent.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lathe.configs.errors import shown
from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.errors import ModelError

GIBIBYTES, SECONDS = "LATHE_HOST_GIBIBYTES", "LATHE_HOST_SECONDS"
DEFAULTS = {GIBIBYTES: 4.0, SECONDS: 600.0}
"""Environment variables of the limits, and default values."""
MOST_MODELS, MOST_BYTES = 64, 1 << 29
"""The number and total size of models that the worker caches."""


def limit(name: str) -> float:
    """A limit from its environment variable. Raises ModelError unless it is a positive number."""
    value = os.environ.get(name)
    if value is None:
        return DEFAULTS[name]
    try:
        found = float(value)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ModelError(f"environment variable {name} must be a positive number, not {shown(value)}.")
    return found


def timeout_error(what: str) -> ModelError:
    """The error for a task that exceeds the time limit."""
    return ModelError(f"{what} takes longer than {limit(SECONDS):g} seconds. Set {SECONDS} to allow more.")


def memory_limit_error(what: str) -> ModelError:
    """The error for a task that exceeds the memory limit."""
    return ModelError(f"{what} needs more than {limit(GIBIBYTES):g} GiB of memory. Set {GIBIBYTES} to allow more.")


class EndedError(Exception):
    """The worker ended before it replied; ``late``: it was killed at a timeout.

    ``node``: number and name of the current node, if it computed node by node. ``had_other_models``: other models were
    cached, too.
    """

    def __init__(self, late: bool, status: int, node: tuple[int, str] | None, crowded: bool = False) -> None:
        super().__init__(status)
        self.late, self.status, self.node, self.had_other_models = late, status, node, crowded


class HostProcess:
    """The worker process, and the models that it caches."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.gibibytes = 0.0
        self.known: OrderedDict[bytes, int] = OrderedDict()
        self.count = 0
        self.lock = threading.Lock()

    def prepare(self) -> None:
        """Start the worker if there is none; it imports its libraries in the meantime."""
        if self.lock.acquire(blocking=False):  # otherwise a request of another thread has started it
            try:
                self.start()
            finally:
                self.lock.release()

    def start(self) -> None:
        """Start the worker if there is none, or one with other limits."""
        gibibytes = limit(GIBIBYTES)
        if self.process is not None and (self.process.poll() is not None or self.gibibytes != gibibytes):
            self.end()
        if self.process is not None:
            return
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        where = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        self.gibibytes = gibibytes
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(host_worker.__file__)), str(int(gibibytes * 2**30))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            env={**os.environ, **one_thread, **where},
        )  # fmt: skip

    def end(self) -> int:
        """Kill the worker; its exit status."""
        process, self.process = self.process, None
        self.known.clear()
        if process is None:
            return 0
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unwritten data is lost
                stream.close()  # type: ignore[union-attr]
        return process.wait()

    def forget(self) -> None:
        """After a fork, in the child: forget the parent's worker without ending it."""
        if self.process is not None:
            for stream in (self.process.stdin, self.process.stdout):
                stream.close()  # type: ignore[union-attr]
            self.process.returncode = 0  # not a child of this process, which must not wait for it
        self.__init__()  # type: ignore[misc]

    def ask(
        self, model: bytes, inputs: Mapping[str, Any], outputs: tuple[str, ...], separately: bool, evaluated: set[int]
    ) -> tuple[Any, ...]:
        """The worker's reply to a request to run a model. Raises EndedError if it ends without one."""

        def request() -> tuple[Any, ...]:
            key, new, dropped = self._cache_model(model)
            return key, new, dropped, dict(inputs), outputs, separately, evaluated

        return self._asked(request)

    def call(self, path: str, name: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The worker's reply to a request to call a function of a file. Raises EndedError if it ends without one."""
        return self._asked(lambda: (host_worker.CALL, path, name, dict(arguments)))

    def _asked(self, request: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        seconds = limit(SECONDS)
        with self.lock:
            self.start()
            process = self.process
            assert process is not None
            assert process.stdin is not None
            assert process.stdout is not None
            late = threading.Event()

            def stop() -> None:
                late.set()
                process.kill()

            node: tuple[int, str] | None = None
            timer = threading.Timer(seconds, stop)
            timer.daemon = True
            timer.start()
            try:
                host_worker.send(process.stdin, request())
                while (found := host_worker.receive(process.stdout))[0] == host_worker.AT:
                    node = found[1], found[2]
            except (EOFError, OSError):
                crowded = len(self.known) > 1
                status = self.end_after_death()
                raise EndedError(late.is_set(), status, node, crowded) from None
            except BaseException:  # interrupted: the reply must not be read by the next request
                self.end()
                raise
            finally:
                timer.cancel()
            cached: tuple[int, ...] = found[-1]
            for each in [each for each, number in self.known.items() if number not in cached]:
                del self.known[each]
            return tuple(found[:-1])

    def end_after_death(self) -> int:
        """The exit status of a worker that has ended by itself."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        return self.end()

    def _cache_model(self, model: bytes) -> tuple[int, bytes | None, tuple[int, ...]]:
        """The number of a model, the model itself if it is not cached, and the numbers of models to drop."""
        if model in self.known:
            self.known.move_to_end(model)
            return self.known[model], None, ()
        self.count += 1
        self.known[model] = self.count
        dropped = []
        while len(self.known) > MOST_MODELS or (len(self.known) > 1 and sum(map(len, self.known)) > MOST_BYTES):
            dropped.append(self.known.popitem(last=False)[1])
        return self.count, model, tuple(dropped)


PROCESS = HostProcess()
atexit.register(PROCESS.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.forget)
