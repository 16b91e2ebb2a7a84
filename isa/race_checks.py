"""Checks of data flow between instructions: uninitialised reads, and races between units.

Instructions are visited in one order that respects happens-before, and the last access of each unit to each cell is
recorded. Since units work in order, an access is ordered after all earlier ones of another unit exactly if it is
ordered after the last of them, so comparing one number per cell and unit finds every race.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.isa.cell_sets import NO_CELLS, Cells, Reach, ReachTable, cell_numbers
from lathe.isa.columnar_stream import Ints
from lathe.isa.diagnostics import FindingKind
from lathe.isa.dram_rows import Pieces, Ranges, pieces_of
from lathe.isa.fault import FaultCode
from lathe.isa.instructions import MicroOpInstruction, TransferInstruction, is_transfer, runs_micro_ops
from lathe.isa.microops import decode_uops
from lathe.isa.operands import Operand, cells_of, extra_latency, usage_of
from lathe.isa.raw_hazards import first_raw_hazard
from lathe.isa.table import MEMORIES, TABLE, MemoryType, Unit
from lathe.isa.verification_context import VerificationContext

NEVER = -1

# The row of each index in decoded micro-ops.
_ROW_OF = {"dst": 0, "src": 1, "wgt": 2}

# The scratchpads that instructions read, the one unit that writes each, and the units that read it.
_MEMORIES = {memory.scratchpad: memory for memory in MEMORIES.values() if memory.type is not MemoryType.UOP}
_WRITER = {name: memory.load_unit for name, memory in _MEMORIES.items()}
_READERS = {name: (Unit.COMPUTE, Unit.STORE) if name == "acc" else (Unit.COMPUTE,) for name in _MEMORIES}


class Accesses:
    """For each cell of one memory and each unit: the position, in the unit's queue, of its last read and write."""

    def __init__(self, cells: int) -> None:
        self.read = np.full((len(Unit), cells), NEVER, np.int64)
        self.written = np.full((len(Unit), cells), NEVER, np.int64)


def check_accesses(subject: VerificationContext) -> None:
    """Report unloaded micro-ops, indices out of range, uninitialised reads, and races on scratchpads and DRAM."""
    _Walk(subject).run()


class _Walk:
    def __init__(self, subject: VerificationContext) -> None:
        self.subject = subject
        config = subject.config
        self.queue = [np.flatnonzero(subject.columns.unit == unit) for unit in Unit]
        self.scratchpads = {name: Accesses(memory.depth(config)) for name, memory in _MEMORIES.items()}
        self.uop_loaded = np.zeros(config.uop_depth, np.bool_)
        self.uop_known = np.zeros(config.uop_depth, np.bool_)
        # Decoded micro-ops, (3, uop_depth): dst, src, wgt.
        self.uops = np.zeros((3, config.uop_depth), np.int64)
        self.reaches = ReachTable()
        self.pieces, self.stored_first = _dram_pieces(subject)
        self.dram = Accesses(max(len(self.pieces.border) - 1, 0))
        self.unit, self.position = Unit.LOAD, 0
        self.clock: Sequence[int] = (0, 0, 0)

    def run(self) -> None:
        order = self.subject.order
        instructions = self.subject.instructions
        sequence = order.sequence
        for index, unit, position, clock in zip(
            sequence.tolist(),
            order.unit[sequence].tolist(),
            order.position[sequence].tolist(),
            order.clock[sequence].tolist(),
            strict=True,
        ):
            self.unit, self.position, self.clock = Unit(unit), position, clock
            instruction = instructions[index]
            if runs_micro_ops(instruction):
                self.loop(index, instruction)
            elif is_transfer(instruction):
                if TABLE[instruction.opcode].stores:
                    self.store(index, instruction)
                else:
                    self.load(index, instruction)

    def load(self, index: int, load: TransferInstruction) -> None:
        if load.x_size == 0 or load.memory_type == MemoryType.OUT:
            return
        height = load.y_pad_0 + load.y_size + load.y_pad_1
        block = height * (load.x_pad_0 + load.x_size + load.x_pad_1)
        if load.memory_type == MemoryType.UOP:
            self.load_uops(load, block)
        else:
            name = MEMORIES[load.memory_type].scratchpad
            self.write(index, name, "sram_base", _block(load.sram_base, block, self.scratchpads[name]))
        self.read_dram(index)

    def load_uops(self, load: TransferInstruction, block: int) -> None:
        config = self.subject.config
        width = load.x_pad_0 + load.x_size + load.x_pad_1
        count = max(0, min(block, config.uop_depth - load.sram_base))  # the rest is reported, not followed
        words = np.zeros((-(-count // width), width), np.uint32)
        known = np.ones(words.shape, np.bool_)
        for y in range(min(load.y_size, len(words) - load.y_pad_0)):
            row = (load.y_pad_0 + y, slice(load.x_pad_0, load.x_pad_0 + load.x_size))
            content = self.subject.dram.uop_words((load.dram_base + y * load.x_stride) * 4, load.x_size)
            if content is None:
                known[row] = False
            else:
                words[row] = content
        cells = slice(load.sram_base, load.sram_base + count)
        self.uop_loaded[cells] = True
        self.uop_known[cells] = known.reshape(-1)[:count]
        self.uops[:, cells] = decode_uops(config, words.reshape(-1)[:count])

    def store(self, index: int, store: TransferInstruction) -> None:
        if store.x_size == 0 or store.memory_type != MemoryType.OUT:
            return
        cells = _block(store.sram_base, store.y_size * store.x_size, self.scratchpads["acc"])
        self.read(index, "acc", "sram_base", cells)
        self.write_dram(index)

    def loop(self, index: int, loop: MicroOpInstruction) -> None:
        """The reads and writes of an instruction's micro-ops in its two loops."""
        if not loop.iter_out or not loop.iter_in or loop.uop_bgn >= loop.uop_end:
            return
        starts = self.starts(index, loop)
        if not starts.shape[1]:
            return
        usage = usage_of(loop)
        cells = {operand: self.reach(index, loop, operand, starts[_ROW_OF[operand.index]]) for operand in usage.used}
        for operand in usage.read:
            self.read(index, operand.scratchpad, operand.index, cells[operand])
        for operand in usage.odd:
            self.read(index, operand.scratchpad, operand.index, np.unique(cell_numbers(cells[operand]) | 1))
        for block in usage.blocks:
            self.read(index, MEMORIES[block.memory].scratchpad, block.name, cells_of(block, loop))
        if starts.shape[1] == loop.uop_end - loop.uop_bgn:  # else what is missing has been reported
            self.reuse(index, loop, starts)
        written = usage.written
        self.write(index, written.scratchpad, written.index, cells[written])

    def reuse(self, index: int, loop: MicroOpInstruction, starts: NDArray[np.int64]) -> None:
        """Read-after-write hazards: accumulators that are read before their new value is written back."""
        hazard = first_raw_hazard(self.subject.config, loop, {name: starts[row] for name, row in _ROW_OF.items()})
        if hazard is not None:
            stages = extra_latency(self.subject.config, loop.opcode)
            self.subject.report(
                FindingKind.RAW_HAZARD,
                index,
                hazard.operand.index,
                f"{hazard.operand.scratchpad}[{hazard.index}]",
                f"address vectors that none of the {stages} preceding issue cycles writes",
                code=FaultCode.ACC_REUSE,
            )

    def starts(self, index: int, loop: MicroOpInstruction) -> NDArray[np.int64]:
        """The indices of the loop's micro-ops, (3, number), without those that are not loaded or not known."""
        chosen = slice(loop.uop_bgn, min(loop.uop_end, self.subject.config.uop_depth))
        loaded = self.uop_loaded[chosen]
        if not loaded.all():
            missing = np.flatnonzero(~loaded) + chosen.start
            self.subject.report(
                FindingKind.UOP_UNLOADED,
                index,
                "uop_bgn",
                f"uop[{missing[0]}]",
                "address micro-ops that a LOAD has loaded before",
                cells=len(missing),
            )
        return self.uops[:, chosen][:, loaded & self.uop_known[chosen]]

    def reach(self, index: int, loop: MicroOpInstruction, operand: Operand, starts: NDArray[np.int64]) -> Cells:
        field, scratchpad = operand.index, operand.scratchpad
        factor_out, factor_in = operand.factors_of(loop)
        depth = operand.depth(self.subject.config)
        reach: Reach = self.reaches.of(starts, loop.iter_out, factor_out, loop.iter_in, factor_in, depth)
        if reach.highest >= depth:
            self.subject.report(
                FindingKind.SRAM_RANGE,
                index,
                field,
                f"{scratchpad}[{reach.highest}]",
                f"stay below the {depth} vectors of {scratchpad}, not reach {reach.highest}",
                code=operand.code,
            )
        return reach.cells

    def read(self, index: int, name: str, field: str, cells: Cells) -> None:
        """A read of scratchpad cells: each must have been written, and no other unit may write it concurrently."""
        accesses = self.scratchpads[name]
        writer = _WRITER[name]
        last = accesses.written[writer][cells]
        self.check_race(index, name, field, cells, writer, last, "writes")
        if len(last) and last.min() == NEVER:
            missing = cell_numbers(cells)[last == NEVER]
            self.subject.report(
                FindingKind.UNINITIALISED,
                index,
                field,
                f"{name}[{missing[0]}]",
                "address vectors that have been written before",
                cells=len(missing),
            )
        accesses.read[self.unit][cells] = self.position

    def write(self, index: int, name: str, field: str, cells: Cells) -> None:
        """A write of scratchpad cells: no other unit may read or write them concurrently."""
        accesses = self.scratchpads[name]
        for unit in _READERS[name]:
            self.check_race(index, name, field, cells, unit, accesses.read[unit][cells], "reads")
        accesses.written[self.unit][cells] = self.position

    def check_race(self, index: int, name: str, field: str, cells: Cells, unit: Unit, last: Ints, access: str) -> None:
        """Report cells whose last access by another unit is not certainly done when this instruction starts."""
        if unit == self.unit or not len(last) or int(last.max()) < self.clock[unit]:
            return
        wrong = np.flatnonzero(last >= self.clock[unit])
        first = int(wrong[0])
        other = int(self.queue[unit][last[first]])
        number = int(cell_numbers(cells)[first])
        cell = f"DRAM {int(self.pieces.border[number]):#x}" if name == "DRAM" else f"{name}[{number}]"
        size = len(wrong)
        if name == "DRAM":
            numbers = cell_numbers(cells)[wrong]
            size = int((self.pieces.border[numbers + 1] - self.pieces.border[numbers]).sum())
        self.subject.report(
            FindingKind.RACE,
            index,
            field,
            cell,
            f"be ordered by tokens with respect to {self.subject.describe(other)}, which {access} the same cells",
            cells=size,
            other=other,
        )

    def read_dram(self, index: int) -> None:
        """A LOAD from DRAM: STOREs of the same bytes must be done; without an image, there must have been some."""
        pieces = self.pieces.of(index)
        if pieces is None:
            return
        last = self.dram.written[Unit.STORE][pieces]
        self.check_race(index, "DRAM", "dram_base", pieces, Unit.STORE, last, "writes")
        blank = (last == NEVER) & self.stored_first[pieces]
        if blank.any():
            missing = cell_numbers(pieces)[blank]
            self.subject.report(
                FindingKind.UNINITIALISED_DRAM,
                index,
                "dram_base",
                f"DRAM {int(self.pieces.border[missing[0]]):#x}",
                "address bytes that a STORE has written before",
                cells=int((self.pieces.border[missing + 1] - self.pieces.border[missing]).sum()),
            )
        self.dram.read[self.unit][pieces] = self.position

    def write_dram(self, index: int) -> None:
        """A STORE to DRAM: LOADs of the same bytes must be done."""
        pieces = self.pieces.of(index)
        if pieces is None:
            return
        for unit in (Unit.LOAD, Unit.COMPUTE):
            self.check_race(index, "DRAM", "dram_base", pieces, unit, self.dram.read[unit][pieces], "reads")
        self.dram.written[Unit.STORE][pieces] = self.position


def _block(base: int, size: int, accesses: Accesses) -> Cells:
    """A dense block of cells, truncated at the scratchpad's end."""
    depth = accesses.read.shape[1]
    return slice(base, min(base + size, depth)) if base < depth and size else NO_CELLS


def _dram_pieces(subject: VerificationContext) -> tuple[Pieces, NDArray[np.bool_]]:
    """The pieces of DRAM in which order matters, and which of them are undefined before a STORE.

    Only bytes that the stream stores, or must store before reading, matter; all other rows are omitted.
    """
    rows = subject.rows
    is_store = subject.columns.stores[rows.instruction]
    first = subject.dram.stored_first
    stored = Ranges.union(rows.start[is_store], rows.end[is_store])
    tracked = Ranges.union(np.concatenate((stored.start, first.start)), np.concatenate((stored.end, first.end)))
    relevant = rows.chosen(is_store | tracked.touched(rows.start, rows.end))
    pieces = pieces_of(relevant, len(subject.columns), np.concatenate((first.start, first.end)))
    starts = pieces.border[:-1]
    return pieces, first.touched(starts, starts + 1)
