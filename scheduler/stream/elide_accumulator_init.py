"""Accumulators that hold zeros which nobody has read: sums begin there with their first products, without a reset.

What is emitted is followed instruction by instruction, in the order of the stream, which the compute unit keeps. A GEMM
may begin the sums of accumulators that all hold the zeros of resets. A reset of whose zeros none has been read at the
end of the stream goes, and with it the LOADs of micro-ops that only such resets run.
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
from lathe.scheduler.stream.memory_effects import Cells, Footprints
from lathe.scheduler.stream.micro_op_pool import MicroOpPool

NOBODY = -1


@dataclass
class ZeroInitQuery:
    """The accumulators in which sums were to begin, and whose zeros all of them held before (None: no zeros at all)."""

    before: NDArray[np.int64] | None
    cells: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def asked(self) -> NDArray[np.int64] | None:
        """The accumulators; None if nobody has asked."""
        return np.unique(np.concatenate(self.cells)) if self.cells else None

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether accumulators held zeros that nobody had written over; None: some of them."""
        return False if self.before is None else _all_or_none(self.before[cells])


class ZeroInitTracker:
    """Follows the zeros of resets through the instructions of a stream, which are numbered from 0."""

    def __init__(self, config: HardwareConfig, pool: MicroOpPool) -> None:
        self.followed = 0
        """Instructions so far."""
        self.needed: dict[int, str] = {}
        """The resets whose zeros are read, by number, and what reads them."""
        self._resets: set[int] = set()
        self._pool = pool
        self._footprints = Footprints(config, np.zeros(0, np.uint32), 1, (0, 0))
        self._reset_of = np.full(config.acc_depth, NOBODY, np.int64)  # whose zero an accumulator holds
        self._taken = np.zeros(config.acc_depth, np.bool_)
        self._count = 0
        self._question = ZeroInitQuery(None)

    def question(self) -> "ZeroInitQuery":
        """What is asked about the accumulators, as they are now, until this is called again."""
        self._question = ZeroInitQuery(self._reset_of.copy() if self._count else None)
        return self._question

    def fresh(self, cells: NDArray[np.int64]) -> bool | None:
        """Whether accumulators hold zeros that nobody has written over; None: some of them."""
        return _all_or_none(self._reset_of[cells]) if self._count else False

    def ready(self) -> None:
        """The next instructions are about to be made: nothing is taken."""
        self._taken[:] = False

    def take(self, cells: NDArray[np.int64]) -> bool:
        """Whether sums may begin in all of the accumulators; they are taken then, until they are followed."""
        possible = self.may_take(cells)
        if possible:
            self._taken[cells] = True
        return possible

    def may_take(self, cells: NDArray[np.int64]) -> bool:
        """Whether sums may begin in all of the accumulators."""
        self._question.cells.append(cells)
        return bool(self._count and (self._reset_of[cells] != NOBODY).all() and not self._taken[cells].any())

    def follow(self, instructions: Iterable[Instruction]) -> None:
        """These come next in the stream."""
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
                found = self._reset_of[cells]
                for reset in np.unique(found[found != NOBODY]).tolist():
                    self.needed.setdefault(reset, _reader(instruction, alone=bool((found != NOBODY).all())))
        for memory, cells in footprint.writes:
            if memory == ACC:
                self._write(cells, NOBODY)

    def _write(self, cells: Cells, reset: int) -> None:
        before = np.count_nonzero(self._reset_of[cells] != NOBODY)
        self._reset_of[cells] = reset
        self._count += int(np.count_nonzero(self._reset_of[cells] != NOBODY) - before)

    def needless(self) -> set[int]:
        """The numbers of the resets whose zeros nobody has read."""
        return self._resets - self.needed.keys()


def _all_or_none(reset_of: NDArray[np.int64]) -> bool | None:
    held = reset_of != NOBODY
    return True if held.all() else None if held.any() else False


def _reader(instruction: Instruction, *, alone: bool) -> str:
    """What an instruction that reads zeros does with them, for users; ``alone``: it reads no sums beside them."""
    if isinstance(instruction, Gemm):
        return "a GEMM adds to them" if alone else "a GEMM adds to them and to sums at once"
    return f"the {instruction.opcode.name} reads them" if runs_micro_ops(instruction) else "they are stored"


def without_resets(entries: Sequence[tuple[Entry, Origin]], needless: set[int]) -> list[tuple[Entry, Origin]]:
    """A stream without the resets of these numbers, and without what only they need."""
    if not needless:
        return list(entries)
    gone = needless_resets([entry for entry, _ in entries if not isinstance(entry, Marker)], needless)
    left: list[tuple[Entry, Origin]] = []
    number = 0
    for each in entries:
        if isinstance(each[0], Marker):
            left.append(each)
            continue
        if number not in gone:
            left.append(each)
        number += 1
    return left


def needless_resets(instructions: Sequence[Instruction], needless: set[int]) -> set[int]:
    """The numbers of the resets, and of LOADs of micro-ops that nothing else runs before others take their place."""
    ends = (each.sram_base + each.x_size for each in instructions if loads_micro_ops(each))
    loader = np.full(max(ends, default=0), NOBODY, np.int64)
    unused: set[int] = set()
    seen: set[tuple[int, int]] = set()  # micro-ops that have been run since the last LOAD of some
    for number, each in enumerate(instructions):
        if loads_micro_ops(each):
            loader[each.sram_base : each.sram_base + each.x_size] = number
            unused.add(number)
            seen.clear()
        elif runs_micro_ops(each) and number not in needless and (each.uop_bgn, each.uop_end) not in seen:
            seen.add((each.uop_bgn, each.uop_end))
            unused.difference_update(loader[each.uop_bgn : each.uop_end].tolist())
    return needless | unused
