"""Single-threaded BLAS: Lathe's matrices are small, and several threads would spin while they wait for each other."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Searching for loaded libraries takes milliseconds: once is enough.
    return ThreadpoolController()  # type: ignore[no-untyped-call]


def one_blas_thread() -> AbstractContextManager[object]:
    """A context in which BLAS runs on the calling thread only."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited
