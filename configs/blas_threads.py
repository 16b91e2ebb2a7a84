"""One BLAS thread while matrices are multiplied: they are small, and threads would wait for each other by spinning."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, so it is done once.
    return ThreadpoolController()  # type: ignore[no-untyped-call]


def one_blas_thread() -> AbstractContextManager[object]:
    """A context in which BLAS runs on the calling thread."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited
