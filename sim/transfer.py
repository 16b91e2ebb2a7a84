"""Timing view of a block transfer between DRAM and a scratchpad: byte chains in bursts, and cycles of padding."""

from collections.abc import Iterator
from typing import NamedTuple

from lathe.configs.memory import PAGE_BYTES


class Run(NamedTuple):
    """``number`` consecutive bursts of ``beats`` beats, each followed by ``padding`` cycles of padding."""

    beats: int
    padding: int
    number: int


class Transfer(NamedTuple):
    """Rows of bytes in DRAM, and the busy cycles that write padding before, between and after them.

    ``chains`` byte ranges of ``chain_bytes`` bytes start at byte ``address``, ``stride_bytes`` apart. The data side
    writes padding for ``lead`` cycles before the first; without a chain, that is all. ``runs`` are the bursts of the
    chains, with the padding cycles between chains and after the last; their totals are ``beats`` and ``padding``.
    """

    address: int
    chains: int
    chain_bytes: int
    stride_bytes: int
    lead: int
    runs: tuple[Run, ...]
    beats: int
    padding: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.address + (self.chains - 1) * self.stride_bytes + self.chain_bytes

    def bursts(self, bus_shift: int, limit: int) -> Iterator[tuple[int, int]]:
        """The first byte of each burst, and one past its last."""
        for chain in range(self.chains):
            address = self.address + chain * self.stride_bytes
            chain_end = address + self.chain_bytes
            while address < chain_end:
                stop = burst_end(address, chain_end, bus_shift, limit)
                yield address, stop
                address = stop


def burst_end(address: int, chain_end: int, bus_shift: int, limit: int) -> int:
    """The end of a burst from byte `address`: the chain's end, a 4 KiB boundary, or that of `limit` beats."""
    page = (address | (PAGE_BYTES - 1)) + 1
    full = ((address >> bus_shift) + limit) << bus_shift
    end = page if page < chain_end else chain_end
    return full if full < end else end
