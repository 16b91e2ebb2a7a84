"""Points on a cluster: tasks of an existing Dask scheduler, whose workers measure as local processes do.

Dask moves tasks of a worker that is gone to another one; a task that has ended several workers is a row that says so.
The driver writes the rows, here as everywhere. docs/sweeps.md says how a cluster is started.
"""

import re
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from lathe.configs import LatheError
from lathe.configs.errors import shown
from lathe.sweeps.errors import SweepError
from lathe.sweeps.keys import measuring_sources
from lathe.sweeps.measurement import LOST, Options, Row, measure_content
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
    address: str, points: Iterator[tuple[int, Point]], options: Options
) -> Generator[tuple[int, Row], None, None]:
    """Places and rows of points as they come. Closing it takes back what has not begun.

    Raises SweepError where no scheduler answers, or it goes away before all is measured.
    """
    package = distributed()
    client = connected(package, address)
    waiting: dict[Any, tuple[int, Point]] = {}
    try:
        done = package.as_completed(loop=client.loop)

        def submit_next() -> None:
            for place, point in points:
                future = client.submit(measure_content, (point, options), pure=False)
                waiting[future] = place, point
                done.add(future)
                return

        for _ in range(AHEAD * max(sum(client.nthreads().values()), 1)):
            submit_next()
        while waiting:
            future = next(done)
            place, point = waiting.pop(future)
            row = _row(package, future, point)
            submit_next()
            yield place, row
    except package.CancelledError as error:
        raise SweepError(
            f"The cluster {address!r} must stay until all is measured, and does not: {' '.join(str(error).split())} "
            "What was measured before is kept; with a store the same command goes on."
        ) from None
    finally:
        with suppress(package.CancelledError):
            client.cancel(list(waiting))
        client.close()


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


def _row(package: Any, future: Any, point: Point) -> Row:
    try:
        row = future.result()
    except package.KilledWorker as error:
        return Row(point, LOST, f"The point ended its workers: {' '.join(str(error).split())}")
    assert isinstance(row, Row)
    return row
