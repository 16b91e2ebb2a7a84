"""DRAM images: flat for programs, whose segments are close together, and sparse for raw streams."""

from bisect import bisect_right
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, NDArray

from lathe.configs.host_memory import MemoryLimitError, check_fits_memory
from lathe.configs.memory import PAGE_BYTES
from lathe.isa.sparse_memory import PagedMemory

Bytes = NDArray[np.uint8]


class Dram(Protocol):
    """The memory interface of transfers: rows of bytes at a constant stride."""

    def read_rows(self, address: int, rows: int, row_bytes: int, stride: int) -> Bytes:
        """Rows of `row_bytes` bytes, `stride` apart from byte `address` on: (rows, row_bytes), possibly a view."""
        ...

    def write_rows(self, address: int, stride: int, content: Bytes) -> None:
        """Write rows (rows, row_bytes) in order: later rows overwrite overlapping earlier ones."""
        ...


class FlatMemory:
    """The bytes [0, size) in one array; accesses beyond must have been refused before."""

    def __init__(self, size: int) -> None:
        try:
            check_fits_memory(size, "a simulation with data")
            self.content: Bytes = np.zeros(size, np.uint8)
        except (MemoryError, MemoryLimitError):
            raise MemoryLimitError(
                f"Cannot allocate the DRAM of a simulation with data: it needs {size} bytes, and must fit in this "
                "computer's memory. Simulate with timing_only, or place the segments closer together."
            ) from None

    def read_rows(self, address: int, rows: int, row_bytes: int, stride: int) -> Bytes:
        """See :class:`Dram`; a view."""
        return self._rows(address, rows, row_bytes, stride)

    def write_rows(self, address: int, stride: int, content: Bytes) -> None:
        """See :class:`Dram`."""
        rows, row_bytes = content.shape
        write(self._rows(address, rows, row_bytes, stride), content, stride)

    def _rows(self, address: int, rows: int, row_bytes: int, stride: int) -> Bytes:
        end = address + (rows - 1) * stride + row_bytes
        assert end <= len(self.content), f"an access ends at byte {end:#x}, beyond the memory"
        return rows_of(self.content, address, rows, row_bytes, stride)


class SparseMemory(PagedMemory):
    """Pages anywhere. Adjacent pages share one array, so that most transfers are views, as in a flat memory.

    Missing pages read as zeros, and are allocated when they are written to.
    """

    def __init__(self, addresses: ArrayLike = (), pages: ArrayLike = ()) -> None:
        super().__init__()
        order = np.argsort(np.asarray(addresses, np.uint64), kind="stable")
        starts = [int(address) for address in np.asarray(addresses, np.uint64)[order]]
        content = np.asarray(pages, np.uint8).reshape(-1, PAGE_BYTES)[order]
        self.starts: list[int] = []  # of the runs
        self.runs: list[Bytes] = []
        first = 0
        for page in range(1, len(starts) + 1):
            if page == len(starts) or starts[page] != starts[page - 1] + PAGE_BYTES:
                self._add_run(starts[first], content[first:page].reshape(-1))
                first = page

    def _add_run(self, start: int, content: Bytes) -> None:
        self.starts.append(start)
        self.runs.append(content)
        for offset in range(0, len(content), PAGE_BYTES):
            self.pages[start + offset] = content[offset : offset + PAGE_BYTES]

    def read_rows(self, address: int, rows: int, row_bytes: int, stride: int) -> Bytes:
        """See :class:`Dram`; a view if one run contains all rows."""
        content = self._rows_in_run(address, rows, row_bytes, stride)
        if content is None:
            content = np.empty((rows, row_bytes), np.uint8)
            for row in range(rows):
                content[row] = self.read(address + row * stride, row_bytes)
        return content

    def write_rows(self, address: int, stride: int, content: Bytes) -> None:
        """See :class:`Dram`."""
        rows, row_bytes = content.shape
        target = self._rows_in_run(address, rows, row_bytes, stride)
        if target is not None:
            write(target, content, stride)
            return
        for row in range(rows):
            self.write(address + row * stride, content[row])

    def _rows_in_run(self, address: int, rows: int, row_bytes: int, stride: int) -> Bytes | None:
        run = bisect_right(self.starts, address) - 1
        if run < 0:
            return None
        offset = address - self.starts[run]
        if offset + (rows - 1) * stride + row_bytes > len(self.runs[run]):
            return None
        return rows_of(self.runs[run], offset, rows, row_bytes, stride)


def rows_of(content: Bytes, offset: int, rows: int, row_bytes: int, stride: int) -> Bytes:
    """A view of rows within an array that contains all of them."""
    view: NDArray[Any] = as_strided(content[offset:], (rows, row_bytes), (stride, 1))
    return view


def write(target: Bytes, content: Bytes, stride: int) -> None:
    """Write rows into a view of them, one by one if they overlap."""
    rows, row_bytes = len(content), content.shape[-1]
    if rows > 1 and stride < row_bytes:
        for row in range(rows):
            target[row] = content[row]
    else:
        target[...] = content
