"""The process that computes for the host, from outside: started late, kept, bounded in memory and time.

There is one for each process of Lathe. It is killed when a model takes too long, started anew after it has died, and
ends with the process that started it.
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
"""Limits, and the variables of the environment that set others."""
MOST_MODELS, MOST_BYTES = 64, 1 << 29
"""Models that the process keeps: so many, and of so many bytes in all."""


def limit(name: str) -> float:
    """A limit, by its variable of the environment. Raises ModelError for what is no positive number."""
    told = os.environ.get(name)
    if told is None:
        return DEFAULTS[name]
    try:
        found = float(told)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ModelError(f"{name} of the environment must be a positive number, not {shown(told)}.")
    return found


def too_late(what: str) -> ModelError:
    """That something takes longer than it may."""
    return ModelError(f"{what} must end within {limit(SECONDS):g} seconds, and does not. Set {SECONDS} to allow more.")


def too_large(what: str) -> ModelError:
    """That something takes more memory than it may."""
    return ModelError(
        f"{what} must take at most {limit(GIBIBYTES):g} GiB of memory, and asks for more. Set {GIBIBYTES} to allow "
        "more."
    )


class EndedError(Exception):
    """The process ended before it answered; ``late``: it was killed because its time was over.

    ``node``: number and name of the node that it was at, if it computed them one by one. ``crowded``: it kept other
    models, too.
    """

    def __init__(self, late: bool, status: int, node: tuple[int, str] | None, crowded: bool = False) -> None:
        super().__init__(status)
        self.late, self.status, self.node, self.crowded = late, status, node, crowded


class HostProcess:
    """The process, and which models it keeps."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.gibibytes = 0.0
        self.known: OrderedDict[bytes, int] = OrderedDict()
        self.count = 0
        self.lock = threading.Lock()

    def prepare(self) -> None:
        """Start the process if there is none; it gets ready while others work."""
        if self.lock.acquire(blocking=False):  # somebody else's request has started it
            try:
                self.start()
            finally:
                self.lock.release()

    def start(self) -> None:
        """Start the process if there is none, or one with other limits."""
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
        """Kill the process, whatever it does; its exit status."""
        process, self.process = self.process, None
        self.known.clear()
        if process is None:
            return 0
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what could not be written is lost
                stream.close()  # type: ignore[union-attr]
        return process.wait()

    def forget(self) -> None:
        """In a copy of this process: leave the original's process to it."""
        if self.process is not None:
            for stream in (self.process.stdin, self.process.stdout):
                stream.close()  # type: ignore[union-attr]
            self.process.returncode = 0  # it is no child of this process, which is not to wait for it
        self.__init__()  # type: ignore[misc]

    def ask(
        self, model: bytes, inputs: Mapping[str, Any], outputs: tuple[str, ...], separately: bool, evaluated: set[int]
    ) -> tuple[Any, ...]:
        """What the process answers. Raises EndedError where it does not."""

        def request() -> tuple[Any, ...]:
            key, new, dropped = self._kept(model)
            return key, new, dropped, dict(inputs), outputs, separately, evaluated

        return self._asked(request)

    def call(self, path: str, name: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """What a function of a file gives in the process, which keeps no models then. Raises EndedError."""
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
            except BaseException:  # interrupted: what would come is nobody's
                self.end()
                raise
            finally:
                timer.cancel()
            kept: tuple[int, ...] = found[-1]
            for each in [each for each, number in self.known.items() if number not in kept]:
                del self.known[each]
            return tuple(found[:-1])

    def end_after_death(self) -> int:
        """The status with which the process has ended by itself."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)
        return self.end()

    def _kept(self, model: bytes) -> tuple[int, bytes | None, tuple[int, ...]]:
        """The number of a model, the model itself if it is new there, and numbers of those to be dropped."""
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
