"""Sparse DRAM image: pages are allocated on the first write, all other bytes are zero."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.memory import PAGE_BYTES


class PagedMemory:
    """Byte-addressed memory without a size limit; raw instruction streams come with such an image for replay."""

    def __init__(self) -> None:
        self.pages: dict[int, NDArray[np.uint8]] = {}

    @classmethod
    def of(cls, addresses: ArrayLike, pages: ArrayLike) -> Self:
        """A copy of ``pages`` (P, 4096) uint8 at byte ``addresses`` (P,), which are multiples of 4096."""
        memory = cls()
        for address, page in zip(np.asarray(addresses).tolist(), np.asarray(pages, np.uint8), strict=True):
            assert address % PAGE_BYTES == 0, f"page address {address:#x} is not a multiple of {PAGE_BYTES}"
            memory.pages[address] = page.copy()
        return memory

    def read(self, address: int, count: int) -> NDArray[np.uint8]:
        """A copy of ``count`` bytes from ``address``."""
        content = np.zeros(count, np.uint8)
        for start, page_address, offset, size in _pieces(address, count):
            page = self.pages.get(page_address)
            if page is not None:
                content[start : start + size] = page[offset : offset + size]
        return content

    def write(self, address: int, content: NDArray[np.uint8]) -> None:
        """Write bytes to ``address``."""
        for start, page_address, offset, size in _pieces(address, len(content)):
            page = self.pages.get(page_address)
            if page is None:
                page = self.pages[page_address] = np.zeros(PAGE_BYTES, np.uint8)
            page[offset : offset + size] = content[start : start + size]


def _pieces(address: int, count: int) -> list[tuple[int, int, int, int]]:
    """A byte range split at page boundaries: (start within the range, page address, offset within the page, size)."""
    pieces = []
    start = 0
    while start < count:
        offset = (address + start) % PAGE_BYTES
        size = min(PAGE_BYTES - offset, count - start)
        pieces.append((start, address + start - offset, offset, size))
        start += size
    return pieces
