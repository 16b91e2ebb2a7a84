"""Points on a cluster: tasks of an existing Dask scheduler, whose workers have processes measure, as a driver does.

Dask moves tasks of a worker that is gone to another one; a task that ends workers by itself is a row that says so. The
driver writes the rows, here as everywhere. docs/design-space-exploration.md says how a cluster is started.
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
from lathe.sweeps.dask_worker import REMEDY, dismiss, measure_there
from lathe.sweeps.errors import SweepError
from lathe.sweeps.keys import measuring_sources
from lathe.sweeps.measurement import LOST, Options, Row
from lathe.sweeps.specification import Point

SECONDS = 10
"""How long a scheduler has to answer."""
ADDRESS = re.compile(r"(?:tcp|tls|ws|wss|ucx)://[^\s/]+:[0-9]{1,5}|inproc://\S+")
ENCRYPTED = "tls://"
CERTIFICATES = ("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT")
"""What Dask is told by of its certificates."""
AHEAD = 2
"""Tasks that wait for each thread of the cluster, so that none of them rests."""


def distributed() -> Any:
    """The package. Raises SweepError that says what to install."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise SweepError(
            f"package 'distributed' must be there for --cluster, and cannot be imported: {error}. Install it with: pip "
            "install 'lathe-npu[cluster]'."
        ) from None


def measured_on_cluster(
    address: str, points: Iterator[tuple[int, Point]], options: Options, timeout: float | None, retries: int
) -> Generator[tuple[int, Row], None, None]:
    """Places and rows of points as they come, with the time-out and the retries of local processes.

    Closing it takes back what has not begun, and ends what has. Raises SweepError where no scheduler answers, or it
    goes away before all is measured.
    """
    package = distributed()
    cluster = _Cluster(package, connected(package, address), (options, timeout, retries))
    try:
        yield from cluster.rows(points)
    except package.CancelledError as error:
        raise SweepError(
            f"The cluster {address!r} must stay until all is measured, and does not: {' '.join(str(error).split())} "
            "What was measured before is kept; with a store the same command goes on."
        ) from None
    finally:
        cluster.end()


class _Cluster:
    """The points of one sweep that its workers have, and those that must be measured alone.

    A worker that dies takes all points that it has with it, and Dask gives them to others, until so many workers have
    died with a point that it gives it up: the point that ends workers, and perhaps others that always were beside it.
    So points that it has given up wait until all others have their rows, and are then measured one at a time. The
    workers that die then are this point's.
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
        """Places and rows as they come."""
        for place, point in islice(points, AHEAD * max(sum(self.client.nthreads().values()), 1)):
            self.submit(place, point)
        while self.waiting:
            future = next(self.done)
            place, point = self.waiting.pop(future)
            try:
                row = future.result()
            except self.package.KilledWorker as error:
                row = self.killed(place, point, future is self.alone, error.allowed_failures + 1)
            for more in islice(points, 1):
                self.submit(*more)
            if not self.waiting and self.given_up:
                self.alone = self.submit(*self.given_up.popleft())
            if row is not None:
                yield place, row

    def submit(self, place: int, point: Point) -> Any:
        """Give a point to the scheduler."""
        content = point, self.options
        future = self.client.submit(measure_there, self.name, content, self.timeout, self.retries, pure=False)
        self.waiting[future] = place, point
        self.done.add(future)
        return future

    def killed(self, place: int, point: Point, alone: bool, workers: int) -> Row | None:
        """What becomes of a point that so many workers have died with; None where it is measured again."""
        if alone:
            self.died[place] += workers
            if self.died[place] > self.retries:
                reason = (
                    f"The point's worker of the cluster died {self.died[place]} times, with no other point beside it"
                )
                return Row(point, LOST, f"{reason}. {REMEDY}")
        self.given_up.append((place, point))
        return None

    def end(self) -> None:
        """Take back what has not begun, end what has, and leave."""
        with suppress(self.package.CancelledError):
            self.client.cancel(list(self.waiting))
        if self.client.status == "running":
            with suppress(self.package.CancelledError, OSError, TimeoutError):
                self.client.run(dismiss, self.name, on_error="ignore")
        self.client.close()


def check_cluster(address: str, options: Options) -> None:
    """Raise SweepError where no scheduler answers, it has no workers, or these have other sources of Lathe."""
    client = connected(distributed(), address)
    try:
        _check_workers(client, address, options)
    finally:
        client.close()


def connected(package: Any, address: str) -> Any:
    """A client of a scheduler. Raises SweepError where none answers, or certificates are missing."""
    if not ADDRESS.fullmatch(address):  # a client that cannot begin waits for long before it ends
        raise SweepError(f"The cluster must be an address such as tcp://10.0.0.1:8786, not {shown(address)}.")
    if address.startswith(ENCRYPTED):
        _check_certificates(package, address)
    try:
        return package.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise SweepError(
            f"The cluster {address!r} must be a Dask scheduler that answers, such as tcp://10.0.0.1:8786, and does "
            f"not: {told}. Start one with `dask scheduler`."
        ) from None


def _check_certificates(package: Any, address: str) -> None:
    """Raise SweepError unless there are certificates, without which Dask's client would wait for long."""
    named = f"{CERTIFICATES[0]} and {CERTIFICATES[1]}"
    try:
        found = package.Security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise SweepError(
            f"The certificates for the cluster {address!r} must be files that can be read, and are not: {told}. "
            f"{named} name them."
        ) from None
    if found is None:
        raise SweepError(
            f"The cluster {address!r} must be reached with certificates, and none are named. Set {named} to those that "
            "it was started with."
        )


def _check_workers(client: Any, address: str, options: Options) -> None:
    """Raise SweepError unless there are workers that measure with the sources, and the tools, that are here."""
    try:
        sources = set(client.run(measuring_sources, options.hardware).values())
    except ImportError as error:
        raise SweepError(f"Workers of the cluster {address!r} must have Lathe, and have not: {error}.") from None
    except LatheError as error:
        raise SweepError(f"Workers of the cluster {address!r} must have the tools that are here. {error}") from None
    if not sources:
        raise SweepError(f"The cluster {address!r} must have workers, and has none. Start some with `dask worker`.")
    if sources != {measuring_sources(options.hardware)}:
        raise SweepError(
            f"Workers of the cluster {address!r} must have the sources of Lathe that are here, and have others. "
            "Install the same version everywhere."
        )
