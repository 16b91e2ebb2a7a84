"""A block transfer between DRAM and a scratchpad as time sees it: chains of bytes in bursts, and steps of padding."""

from typing import NamedTuple

from lathe.configs.memory import PAGE_BYTES


class Transfer(NamedTuple):
    """Rows of bytes in DRAM, and the steps that write padding before, between and after them.

    ``chains`` runs of ``chain_bytes`` bytes lie ``stride_bytes`` apart from byte ``address`` on. The data side takes
    ``lead`` steps before the first, ``gap`` between two, ``tail`` after the last; with no chain, ``lead`` is all.
    """

    address: int
    chains: int
    chain_bytes: int
    stride_bytes: int
    lead: int
    gap: int
    tail: int

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.address + (self.chains - 1) * self.stride_bytes + self.chain_bytes


def burst_end(address: int, chain_end: int, bus_shift: int, limit: int) -> int:
    """Where a burst from byte `address` must stop: the chain's end, a 4 KiB boundary, or after `limit` beats."""
    page = (address | (PAGE_BYTES - 1)) + 1
    full = ((address >> bus_shift) + limit) << bus_shift
    end = page if page < chain_end else chain_end
    return full if full < end else end
