"""Micro-op sequences, shared between chunks and resident in the uop scratchpad until they are evicted."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Load, MemoryType, encode_uops

PooledSequence = tuple[bytes, int, int]
"""The encoded micro-ops of a sequence, and its range in the scratchpad: first address and one past the last."""


class MicroOpPool:
    """Allocator of micro-op sequences: each distinct one is in DRAM once, and is reloaded only after an eviction.

    The scratchpad is a ring: sequences are allocated one after the other; past the end, allocation starts again at 0
    and evicts the sequences that it overwrites, the oldest ones.
    """

    def __init__(self, config: HardwareConfig) -> None:
        self.config = config
        self.words: list[NDArray[np.uint32]] = []
        self.count = 0
        self._in_dram: dict[bytes, int] = {}
        self._at: dict[int, NDArray[np.uint32]] = {}
        self._resident: dict[bytes, tuple[int, int]] = {}
        self._next = 0
        self.placed: list[PooledSequence] = []
        """The sequences that were asked for, in order; its user may clear it."""

    @property
    def capacity(self) -> int:
        """Greatest number of micro-ops of a sequence."""
        return self.config.uop_depth

    def place(
        self, dst: NDArray[np.int64], src: NDArray[np.int64], wgt: NDArray[np.int64]
    ) -> tuple[int, int, list[Load]]:
        """Allocate a sequence: its first address, one past its last, and the LOAD that it needs unless it is resident.

        The LOAD's ``dram_base`` is relative to the micro-op segment, to be relocated once its address is known.
        """
        words = encode_uops(self.config, dst, src, wgt)
        size = len(words)
        assert size <= self.capacity, f"a sequence of {size} micro-ops in a scratchpad of {self.capacity}"
        key = words.tobytes()
        resident = self._resident.get(key)
        if resident is not None:
            self.placed.append((key, *resident))
            return (*resident, [])
        address = self._in_dram.get(key)
        if address is None:
            address = self._in_dram[key] = self.count
            self._at[address] = words
            self.words.append(words)
            self.count += size
        if self._next + size > self.capacity:
            self._next = 0
        first, end = self._next, self._next + size
        others = {k: r for k, r in self._resident.items() if r[1] <= first or r[0] >= end}
        self._resident = {**others, key: (first, end)}
        self._next = end
        self.placed.append((key, first, end))
        return first, end, [Load(MemoryType.UOP, first, address, 1, size, size)]

    def are_resident(self, placed: Iterable[PooledSequence]) -> bool:
        """Whether all sequences are still resident in the same ranges."""
        return all(self._resident.get(key) == (first, end) for key, first, end in placed)

    @contextmanager
    def rollback_on(self, failures: type[Exception]) -> Iterator[None]:
        """Undo the allocations made inside if one of these exceptions ends the context: their LOADs never execute."""
        before = self._resident, self._next
        done = len(self.placed)
        known = len(self.words)
        try:
            yield
        except failures:
            self._resident, self._next = before
            del self.placed[done:]
            for words in self.words[known:]:
                del self._at[self._in_dram.pop(words.tobytes())]
                self.count -= len(words)
            del self.words[known:]
            raise

    def words_from(self, address: int, size: int) -> NDArray[np.uint32]:
        """The micro-ops that a LOAD of ``size`` from ``address`` of the segment loads."""
        words = self._at.get(address)
        if words is None or len(words) != size:  # the LOAD is not one of this pool
            words = self.image().view("<u4")[address : address + size].astype(np.uint32)
        return words

    def image(self) -> NDArray[np.uint8]:
        """The contents of the segment as bytes: all sequences, 4 bytes per micro-op."""
        words = np.concatenate(self.words) if self.words else np.zeros(0, np.uint32)
        return words.astype("<u4").view(np.uint8)
