"""A block transfer between DRAM and a scratchpad as time sees it: chains of bytes in bursts, and steps of padding."""

from collections.abc import Iterator
from typing import NamedTuple

from lathe.configs.memory import PAGE_BYTES


class Run(NamedTuple):
    """``number`` bursts of so many ``beats``, one after the other, with ``behind`` steps of padding behind each."""

    beats: int
    behind: int
    number: int


class Transfer(NamedTuple):
    """Rows of bytes in DRAM, and the steps that write padding before, between and after them.

    ``chains`` runs of ``chain_bytes`` bytes lie ``stride_bytes`` apart from byte ``address`` on. The data side takes
    ``lead`` steps before the first; with no chain, that is all. ``runs`` are the bursts that the chains are cut into,
    and the steps between chains and after the last; they have so many ``beats`` and steps ``behind`` in all.
    """

    address: int
    chains: int
    chain_bytes: int
    stride_bytes: int
    lead: int
    runs: tuple[Run, ...]
    beats: int
    behind: int

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
    """Where a burst from byte `address` must stop: the chain's end, a 4 KiB boundary, or after `limit` beats."""
    page = (address | (PAGE_BYTES - 1)) + 1
    full = ((address >> bus_shift) + limit) << bus_shift
    end = page if page < chain_end else chain_end
    return full if full < end else end
