"""Elision of accumulator resets: a GEMM that overwrites (extension ``gemm_begin``) replaces reset and accumulation.

The tracker follows emitted instructions in stream order, which the compute unit preserves. A GEMM may overwrite
accumulators that all still hold the zeros of resets. A reset none of whose zeros has been read by the end of the stream
is dead and is removed, with the LOADs of micro-ops that only dead resets run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Gemm, Instruction
from lathe.isa.instructions import loads_micro_ops, runs_micro_ops
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.memory_effects import Cells, EffectsTracker
from lathe.scheduler.stream.micro_op_pool import MicroOpPool

NO_RESET = -1


@dataclass
class ZeroInitQuery:
    """Accumulators that a chunk tried to overwrite; ``before``: the reset whose zero each held (None: no zeros)."""

    before: NDArray[np.int64] | None
    cells: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def accumulators(self) -> NDArray[np.int64] | None:
        """The queried accumulators, without duplicates; None if there are none."""
        return np.unique(np.concatenate(self.cells)) if self.cells else None

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether all accumulators held zeros of resets before; None: only some did."""
        return False if self.before is None else _all_or_none(self.before[cells])


class ZeroInitTracker:
    """Tracks which accumulators hold zeros of resets; the instructions of the stream are numbered from 0."""

    def __init__(self, config: HardwareConfig, pool: MicroOpPool) -> None:
        self.followed = 0
        """Number of instructions followed so far."""
        self.live_resets: dict[int, str] = {}
        """Per live reset, by its number, what reads its zeros."""
        self._resets: set[int] = set()
        self._pool = pool
        self._footprints = EffectsTracker(config, np.zeros(0, np.uint32), 1, (0, 0))
        self._reset_of = np.full(config.acc_depth, NO_RESET, np.int64)  # per accumulator, the reset whose zero it holds
        self._taken = np.zeros(config.acc_depth, np.bool_)
        self._count = 0
        self._query = ZeroInitQuery(None)

    def new_query(self) -> "ZeroInitQuery":
        """Start a new query, which records the accumulators asked about until the next call, and their state now."""
        self._query = ZeroInitQuery(self._reset_of.copy() if self._count else None)
        return self._query

    def holds_zeros(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether all accumulators still hold zeros of resets; None: only some do."""
        return _all_or_none(self._reset_of[cells]) if self._count else False

    def release_claims(self) -> None:
        """Release all claims of ``claim`` before the next instructions are emitted."""
        self._taken[:] = False

    def claim(self, cells: NDArray[np.int64]) -> bool:
        """Claim accumulators for a GEMM that overwrites them; False, and no claim, if it may not."""
        possible = self.can_claim(cells)
        if possible:
            self._taken[cells] = True
        return possible

    def can_claim(self, cells: NDArray[np.int64]) -> bool:
        """Whether a GEMM may overwrite all accumulators: they hold zeros of resets and are not claimed."""
        self._query.cells.append(cells)
        return bool(self._count and (self._reset_of[cells] != NO_RESET).all() and not self._taken[cells].any())

    def advance(self, instructions: Iterable[Instruction]) -> None:
        """Update the state for the next instructions of the stream."""
        for each in instructions:
            if loads_micro_ops(each):
                self._footprints.hold(each.sram_base, self._pool.words_from(each.dram_base, each.x_size))
            elif isinstance(each, Gemm) and each.reset:
                self._resets.add(self.followed)
                for _, cells in self._footprints.of(each).writes:
                    self._write(cells, self.followed)
            elif self._count:
                self._use(each)
            self.followed += 1

    def _use(self, instruction: Instruction) -> None:
        footprint = self._footprints.of(instruction)
        for memory, cells in footprint.reads:
            if memory == ACC:
                resets = self._reset_of[cells]
                for reset in np.unique(resets[resets != NO_RESET]).tolist():
                    self.live_resets.setdefault(
                        reset, _use_of_zeros(instruction, alone=bool((resets != NO_RESET).all()))
                    )
        for memory, cells in footprint.writes:
            if memory == ACC:
                self._write(cells, NO_RESET)

    def _write(self, cells: Cells, reset: int) -> None:
        before = np.count_nonzero(self._reset_of[cells] != NO_RESET)
        self._reset_of[cells] = reset
        self._count += int(np.count_nonzero(self._reset_of[cells] != NO_RESET) - before)

    def dead_resets(self) -> set[int]:
        """The numbers of the dead resets: none of their zeros has been read."""
        return self._resets - self.live_resets.keys()


def _all_or_none(reset_of: NDArray[np.int64]) -> bool | None:
    held = reset_of != NO_RESET
    return True if held.all() else None if held.any() else False


def _use_of_zeros(instruction: Instruction, *, alone: bool) -> str:
    """How an instruction uses zeros that it reads, for users; ``alone``: all accumulators that it reads hold zeros."""
    if isinstance(instruction, Gemm):
        return "a GEMM adds to them" if alone else "one GEMM adds to them and to other accumulators"
    return f"the {instruction.opcode.name} reads them" if runs_micro_ops(instruction) else "a STORE reads them"


def remove_dead_resets(entries: Sequence[tuple[Entry, Origin]], needless: set[int]) -> list[tuple[Entry, Origin]]:
    """The stream without the dead resets of these numbers and the LOADs of micro-ops that only they run."""
    if not needless:
        return list(entries)
    removed = dead_resets([entry for entry, _ in entries if not isinstance(entry, Marker)], needless)
    remaining: list[tuple[Entry, Origin]] = []
    number = 0
    for each in entries:
        if isinstance(each[0], Marker):
            remaining.append(each)
            continue
        if number not in removed:
            remaining.append(each)
        number += 1
    return remaining


def dead_resets(instructions: Sequence[Instruction], needless: set[int]) -> set[int]:
    """The numbers of dead resets, and of LOADs of micro-ops that nothing else runs before they are overwritten."""
    ends = (each.sram_base + each.x_size for each in instructions if loads_micro_ops(each))
    loader = np.full(max(ends, default=0), NO_RESET, np.int64)
    unused: set[int] = set()
    seen: set[tuple[int, int]] = set()  # ranges of micro-ops run since the last LOAD of micro-ops
    for number, each in enumerate(instructions):
        if loads_micro_ops(each):
            loader[each.sram_base : each.sram_base + each.x_size] = number
            unused.add(number)
            seen.clear()
        elif runs_micro_ops(each) and number not in needless and (each.uop_bgn, each.uop_end) not in seen:
            seen.add((each.uop_bgn, each.uop_end))
            unused.difference_update(loader[each.uop_bgn : each.uop_end].tolist())
    return needless | unused
