"""Vectorised splitting of all transfers of a stream into bursts: equal rows mostly give runs of equal bursts."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lathe.configs.memory import PAGE_BYTES
from lathe.sim.transfer import Run

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chains:
    """The chains of each transfer, as in :class:`~lathe.sim.transfer.Transfer`: arrays (T,).

    ``gap`` and ``tail``: cycles of padding between two chains and after the last.
    """

    address: Ints
    chains: Ints
    chain_bytes: Ints
    stride_bytes: Ints
    gap: Ints
    tail: Ints

    def runs(self, bus_shift: int, limit: int) -> tuple[list[tuple[Run, ...]], list[int]]:
        """For each transfer, the runs of equal bursts of at most `limit` beats, and the beats of all of them."""
        transfer, beats, last = self._bursts(bus_shift, limit)
        padding = np.where(last, self.gap[transfer], 0)
        number = np.bincount(transfer, minlength=len(self.address))
        some = number > 0
        padding[np.cumsum(number)[some] - 1] = self.tail[some]
        changes = (np.diff(beats) != 0) | (np.diff(padding) != 0) | (np.diff(transfer) != 0)
        starts = np.concatenate((np.zeros(min(len(beats), 1), np.int64), np.flatnonzero(changes) + 1))
        counts = np.diff(starts, append=len(beats))
        runs = list(map(Run, beats[starts].tolist(), padding[starts].tolist(), counts.tolist()))
        ends = np.cumsum(np.bincount(transfer[starts], minlength=len(number))).tolist()
        total = np.bincount(transfer, beats, minlength=len(number)).astype(np.int64)
        return [tuple(runs[begin:end]) for begin, end in pairwise([0, *ends])], total.tolist()

    def _bursts(self, bus_shift: int, limit: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """For each burst, in order: its transfer, its beats, and whether it is the last of its chain."""
        transfer = np.repeat(np.arange(len(self.chains)), self.chains)
        row = np.arange(len(transfer)) - np.repeat(np.cumsum(self.chains) - self.chains, self.chains)
        address = self.address[transfer] + row * self.stride_bytes[transfer]
        chain_end = address + self.chain_bytes[transfer]
        chain = np.arange(len(transfer))
        cut: list[tuple[Ints, Ints, NDArray[np.bool_]]] = []
        while len(chain) or not cut:  # the first burst of all chains, the second of those that have one, ...
            page = (address | (PAGE_BYTES - 1)) + 1
            full = ((address >> bus_shift) + limit) << bus_shift
            stop = np.minimum(np.minimum(page, full), chain_end)
            last = stop == chain_end
            cut.append((chain, ((stop - 1) >> bus_shift) - (address >> bus_shift) + 1, last))
            more = ~last
            chain, address, chain_end = chain[more], stop[more], chain_end[more]
        chains, beats, lasts = (np.concatenate(each) for each in zip(*cut, strict=True))
        order = np.argsort(chains, kind="stable") if len(cut) > 1 else slice(None)
        return transfer[chains[order]], beats[order], lasts[order]
