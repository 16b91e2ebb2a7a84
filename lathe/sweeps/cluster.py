"""Measures points on a cluster: as tasks of an existing Dask scheduler, each measured in a subprocess of a worker.

Dask moves the tasks of a lost worker to another one; a task that kills its workers becomes a row that says so. The
driver writes the rows. docs/design-space-exploration.md explains how to start a cluster.
"""

import re
from collections import Counter, deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any
from uuid import uuid4

from lathe.configs import LatheError
from lathe.configs.errors import shown
from lathe.sweeps.dask_worker import REMEDY, dismiss, measure_on_worker
from lathe.sweeps.errors import SweepError
from lathe.sweeps.keys import measuring_sources
from lathe.sweeps.measurement import LOST, Options, Row
from lathe.sweeps.specification import Point

SECONDS = 10
"""Timeout for the scheduler's answer."""
ADDRESS = re.compile(r"(?:tcp|tls|ws|wss|ucx)://[^\s/]+:[0-9]{1,5}|inproc://\S+")
ENCRYPTED = "tls://"
CERTIFICATES = ("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT")
"""The variables that tell Dask where its certificates are."""
AHEAD = 2
"""Tasks submitted for each thread of the cluster, so that no thread is idle."""


def distributed() -> Any:
    """The package. Raises SweepError that names the extra to install."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise SweepError(
            f"Cannot import package 'distributed', which --cluster requires: {error}. Install it with: pip install "
            "'lathe-npu[cluster]'."
        ) from None


def measured_on_cluster(
    address: str, points: Iterator[tuple[int, Point]], options: Options, timeout: float | None, retries: int
) -> Generator[tuple[int, Row], None, None]:
    """Yield grid indices and rows as points complete, with the same timeout and retries as local processes.

    Closing the generator cancels points that have not started and kills those that have. Raises SweepError if no
    scheduler answers, or the connection is lost.
    """
    package = distributed()
    cluster = _Cluster(package, connected(package, address), (options, timeout, retries))
    try:
        yield from cluster.rows(points)
    except package.CancelledError as error:
        raise SweepError(
            f"Cannot finish the sweep on cluster {address!r}: {' '.join(str(error).split())} Rows measured before are "
            "kept; with a store the same command resumes."
        ) from None
    finally:
        cluster.end()


class _Cluster:
    """The points of one sweep on a cluster: those submitted, and those that are retried one at a time.

    If a worker dies, Dask resubmits all its points to other workers. After several deaths it gives a point up: the one
    that kills workers, and perhaps others that were always on the same worker. Points given up are therefore deferred
    until all others have their rows, and then measured one at a time, so that a death is caused by that point.
    """

    def __init__(self, package: Any, client: Any, how: tuple[Options, float | None, int]) -> None:
        self.package, self.client = package, client
        self.options, self.timeout, self.retries = how
        self.name = uuid4().hex
        self.done = package.as_completed(loop=client.loop)
        self.waiting: dict[Any, tuple[int, Point]] = {}
        self.given_up: deque[tuple[int, Point]] = deque()
        self.alone: Any = None
        self.died: Counter[int] = Counter()

    def rows(self, points: Iterator[tuple[int, Point]]) -> Iterator[tuple[int, Row]]:
        """Yield grid indices and rows as points complete."""
        for index, point in islice(points, AHEAD * max(sum(self.client.nthreads().values()), 1)):
            self.submit(index, point)
        while self.waiting:
            future = next(self.done)
            index, point = self.waiting.pop(future)
            try:
                row = future.result()
            except self.package.KilledWorker as error:
                row = self.killed(index, point, future is self.alone, error.allowed_failures + 1)
            for more in islice(points, 1):
                self.submit(*more)
            if not self.waiting and self.given_up:
                self.alone = self.submit(*self.given_up.popleft())
            if row is not None:
                yield index, row

    def submit(self, index: int, point: Point) -> Any:
        """Submit a point to the scheduler."""
        content = point, self.options
        future = self.client.submit(measure_on_worker, self.name, content, self.timeout, self.retries, pure=False)
        self.waiting[future] = index, point
        self.done.add(future)
        return future

    def killed(self, index: int, point: Point, alone: bool, workers: int) -> Row | None:
        """Handle a point with which ``workers`` workers have died: its row, or None if it is retried alone."""
        if alone:
            self.died[index] += workers
            if self.died[index] > self.retries:
                reason = f"The point's cluster worker died {self.died[index]} times while it measured this point alone"
                return Row(point, LOST, f"{reason}. {REMEDY}")
        self.given_up.append((index, point))
        return None

    def end(self) -> None:
        """Cancel submitted points, kill those being measured, and disconnect."""
        with suppress(self.package.CancelledError):
            self.client.cancel(list(self.waiting))
        if self.client.status == "running":
            with suppress(self.package.CancelledError, OSError, TimeoutError):
                self.client.run(dismiss, self.name, on_error="ignore")
        self.client.close()


def check_cluster(address: str, options: Options) -> None:
    """Raise SweepError if no scheduler answers, or it has no workers, or their sources of Lathe differ."""
    client = connected(distributed(), address)
    try:
        _check_workers(client, address, options)
    finally:
        client.close()


def connected(package: Any, address: str) -> Any:
    """A client of a scheduler. Raises SweepError if none answers, or certificates are missing."""
    if not ADDRESS.fullmatch(address):  # for an invalid address the client would wait for long
        raise SweepError(f"The cluster must be an address such as tcp://10.0.0.1:8786, not {shown(address)}.")
    if address.startswith(ENCRYPTED):
        _check_certificates(package, address)
    try:
        return package.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SweepError(
            f"Cannot connect to a Dask scheduler at cluster {address!r}: {reason}. Start one with `dask scheduler`, "
            "and give its address, such as tcp://10.0.0.1:8786."
        ) from None


def _check_certificates(package: Any, address: str) -> None:
    """Raise SweepError unless there are certificates, without which Dask's client would wait for long."""
    variables = f"{CERTIFICATES[0]} and {CERTIFICATES[1]}"
    try:
        context = package.Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SweepError(
            f"Cannot read the certificates for cluster {address!r}: {reason}. Correct {variables}."
        ) from None
    if context is None:
        raise SweepError(
            f"Cannot connect to cluster {address!r} without certificates. Set {variables} to those that the cluster "
            "was started with."
        )


def _check_workers(client: Any, address: str, options: Options) -> None:
    """Raise SweepError unless there are workers, and their sources and tools are those of this process."""
    try:
        sources = set(client.run(measuring_sources, options.hardware).values())
    except ImportError as error:
        raise SweepError(f"Workers of cluster {address!r} cannot import Lathe: {error}. Install it there.") from None
    except LatheError as error:
        raise SweepError(f"Workers of cluster {address!r} must have the same tools as this computer. {error}") from None
    if not sources:
        raise SweepError(f"Cannot measure on cluster {address!r}: it has no workers. Start some with `dask worker`.")
    if sources != {measuring_sources(options.hardware)}:
        raise SweepError(
            f"Workers of cluster {address!r} must have the same sources of Lathe as this computer. Install the same "
            "version everywhere."
        )
