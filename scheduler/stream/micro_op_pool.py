"""Micro-op sequences: shared between chunks, kept resident in the uop scratchpad as long as there is room."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Load, MemoryType, encode_uops

PooledSequence = tuple[bytes, int, int]
"""A sequence of micro-ops, and where it is in the scratchpad: its first, and one past its last."""


class MicroOpPool:
    """Every distinct sequence is written to DRAM once; loading it again is only needed after it was displaced.

    Sequences are placed one after the other in the scratchpad. When the end is reached, placing starts again at 0 and
    displaces the sequences it overwrites, the oldest ones.
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
        """The sequences that have been asked for, in order; whoever looks at it may empty it."""

    @property
    def capacity(self) -> int:
        """Micro-ops that one sequence may have."""
        return self.config.uop_depth

    def place(
        self, dst: NDArray[np.int64], src: NDArray[np.int64], wgt: NDArray[np.int64]
    ) -> tuple[int, int, list[Load]]:
        """Where in the scratchpad a sequence is: first and one past last, and the LOAD that is needed before, if any.

        The LOAD's ``dram_base`` counts from the start of the micro-ops' segment, to be moved once that is known.
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
        kept = {k: r for k, r in self._resident.items() if r[1] <= first or r[0] >= end}
        self._resident = {**kept, key: (first, end)}
        self._next = end
        self.placed.append((key, first, end))
        return first, end, [Load(MemoryType.UOP, first, address, 1, size, size)]

    def holds(self, placed: Iterable[PooledSequence]) -> bool:
        """Whether sequences are where they were placed."""
        return all(self._resident.get(key) == (first, end) for key, first, end in placed)

    @contextmanager
    def undoing(self, failures: type[Exception]) -> Iterator[None]:
        """What is placed inside stays only if no such failure ends it: its LOADs are never executed then."""
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
        """Micro-ops of the segment, from one on: those that a LOAD brings."""
        found = self._at.get(address)
        if found is None or len(found) != size:  # no LOAD of this pool's
            found = self.image().view("<u4")[address : address + size].astype(np.uint32)
        return found

    def image(self) -> NDArray[np.uint8]:
        """The contents of the segment: all sequences, 4 bytes per micro-op."""
        words = np.concatenate(self.words) if self.words else np.zeros(0, np.uint32)
        return words.astype("<u4").view(np.uint8)
