"""Memory effects: the addresses (cells) that an instruction reads and writes, per memory."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import UOP_FORMAT
from lathe.isa import Instruction, Load, MemoryType, decode_uops
from lathe.isa.instructions import MicroOpInstruction, TransferInstruction, is_transfer, runs_micro_ops
from lathe.isa.operands import Operand, usage_of
from lathe.isa.table import MEMORIES, TABLE
from lathe.scheduler.schedule_ir.memories import ACC, DRAM

Cells: TypeAlias = "NDArray[np.int64] | slice"


@dataclass(frozen=True, slots=True)
class MemoryEffects:
    """Cells read and written, as (memory, cells): a cell is a vector of a scratchpad or a granule of ``dram``.

    ``reads_only`` are the reads without those whose cells are the same object as the cells of a write.
    """

    reads: tuple[tuple[str, Cells], ...] = ()
    writes: tuple[tuple[str, Cells], ...] = ()
    reads_only: tuple[tuple[str, Cells], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = self.reads
        if kept and self.writes:
            kept = tuple([read for read in kept if not any(_same(read, written) for written in self.writes)])
        object.__setattr__(self, "reads_only", kept)


def _same(one: tuple[str, Cells], other: tuple[str, Cells]) -> bool:
    return one[0] == other[0] and one[1] is other[1]


@dataclass(frozen=True, slots=True)
class _Known:
    """Cached effects; ``of_rows`` by ``id``, with the instruction itself, so that the id is not reused."""

    of_rows: dict[int, tuple[TransferInstruction, MemoryEffects]]
    # LOADs of data that the program does not store: a few entries serve all tiles.
    of_constants: dict[tuple[MemoryType, int, int], MemoryEffects]
    of_work: dict[tuple[MicroOpInstruction, bytes], MemoryEffects]
    cells: dict[tuple[object, ...], Cells]


class EffectsTracker:
    """Memory effects of instructions, asked for in stream order; tracks the contents of the uop scratchpad.

    ``uops`` are the words of the micro-op segment, to which addresses of LOAD uop are relative. DRAM is tracked in
    granules of ``granule`` bytes, within the byte range ``tracked`` that the program itself writes.
    """

    def __init__(self, config: HardwareConfig, uops: NDArray[np.uint32], grain: int, tracked: tuple[int, int]) -> None:
        self.config = config
        self.granule = grain
        self.tracked = tracked
        self._source = uops
        self._uops = np.zeros(config.uop_depth, np.uint32)
        self._known = _Known({}, {}, {}, {})

    def restarted(self) -> "EffectsTracker":
        """A tracker at the beginning of the stream that shares the cached effects."""
        other = EffectsTracker(self.config, self._source, self.granule, self.tracked)
        other._known = self._known
        return other

    def hold(self, first: int, words: NDArray[np.uint32]) -> None:
        """Write micro-ops to the uop scratchpad from address ``first`` on."""
        self._uops[first : first + len(words)] = words

    def of(self, instruction: Instruction) -> MemoryEffects:
        """The effects of the next instruction of the stream."""
        if runs_micro_ops(instruction):
            words = self._uops[instruction.uop_bgn : instruction.uop_end]
            key = (instruction, words.tobytes())
            effects = self._known.of_work.get(key)
            if effects is None:
                effects = self._known.of_work[key] = self._compute(instruction, words)
            return effects
        if not is_transfer(instruction):
            return MemoryEffects()
        stores = TABLE[instruction.opcode].stores
        if not stores and instruction.memory_type == MemoryType.UOP:
            if instruction.x_size:
                count = vectors_of(instruction)
                self.hold(instruction.sram_base, self._source[instruction.dram_base : instruction.dram_base + count])
            return MemoryEffects()
        known = self._known.of_rows.get(id(instruction))
        if known is None:
            effects = self._store(instruction) if stores else self._load(instruction)
            known = self._known.of_rows[id(instruction)] = instruction, effects
        return known[1]

    def _store(self, store: TransferInstruction) -> MemoryEffects:
        count = store.y_size * store.x_size
        cells = slice(store.sram_base, store.sram_base + count)
        return MemoryEffects(((ACC, cells),), self._dram(store, self.config.out_element_bytes))

    def _load(self, load: TransferInstruction) -> MemoryEffects:
        if not load.x_size:
            return MemoryEffects()  # a LOAD without columns does nothing, not even padding
        memory = MEMORIES[load.memory_type]
        dram = self._dram(load, memory.element_bytes(self.config))
        key = (load.memory_type, load.sram_base, vectors_of(load))
        effects = None if dram else self._known.of_constants.get(key)
        if effects is None:
            _, first, count = key
            effects = MemoryEffects(dram, ((memory.scratchpad, slice(first, first + count)),))
            if not dram:
                self._known.of_constants[key] = effects
        return effects

    def _dram(self, access: TransferInstruction, element: int) -> tuple[tuple[str, Cells], ...]:
        first, end = self.tracked
        low = access.dram_base * element
        high = (access.dram_base + max(access.y_size - 1, 0) * access.x_stride + access.x_size) * element
        if high <= first or low >= end or access.y_size == 0:
            return ()
        scale = element // self.granule
        base = low // self.granule - first // self.granule
        width = access.x_size * scale
        if access.y_size == 1 or access.x_stride == access.x_size:
            return ((DRAM, slice(base, base + width * access.y_size)),)
        rows = base + np.arange(access.y_size, dtype=np.int64) * (access.x_stride * scale)
        return ((DRAM, np.add.outer(rows, np.arange(width, dtype=np.int64)).ravel()),)

    def _compute(self, work: MicroOpInstruction, words: NDArray[np.uint32]) -> MemoryEffects:
        names = (field.name for field in UOP_FORMAT.fields)
        starts = dict(zip(names, decode_uops(self.config, words), strict=True))
        usage = usage_of(work)
        touched = {each: (each.scratchpad, self._cells(starts[each.index], work, each)) for each in usage.used}
        return MemoryEffects(tuple(touched[each] for each in usage.read), (touched[usage.written],))

    def _cells(self, start: NDArray[np.int64], work: MicroOpInstruction, operand: Operand) -> Cells:
        outer, inner = operand.factors_of(work)
        key = (operand.memory, start.tobytes(), work.iter_out, work.iter_in, outer, inner)
        cells = self._known.cells.get(key)
        if cells is None:
            cells = self._known.cells[key] = self._touched(start, work, operand, outer, inner)
        return cells

    def _touched(
        self, start: NDArray[np.int64], work: MicroOpInstruction, operand: Operand, outer: int, inner: int
    ) -> Cells:
        cells = np.unique(start)
        for count, factor in ((work.iter_out, outer), (work.iter_in, inner)):
            if factor and count > 1:
                cells = np.add.outer(cells, np.arange(count, dtype=np.int64) * factor).ravel()
        touched = np.zeros(operand.depth(self.config), np.bool_)
        touched[cells] = True
        cells = np.flatnonzero(touched)
        if len(cells) and cells[-1] - cells[0] + 1 == len(cells):
            return slice(int(cells[0]), int(cells[-1]) + 1)
        return cells


def overlap(one: Cells, other: Cells) -> bool:
    """Whether two sets of cells of a memory overlap."""
    if isinstance(other, slice):
        if isinstance(one, slice):
            return bool(one.start < other.stop and other.start < one.stop)
        return bool(((one >= other.start) & (one < other.stop)).any())
    return overlap(other, one) if isinstance(one, slice) else bool(np.intersect1d(one, other).size)


def vectors_of(load: TransferInstruction) -> int:
    """Number of vectors that a LOAD writes, with padding."""
    rows = load.y_pad_0 + load.y_size + load.y_pad_1
    return rows * (load.x_pad_0 + load.x_size + load.x_pad_1)


def beats_of(each: TransferInstruction, config: HardwareConfig) -> int:
    """Cycles that a LOAD or STORE occupies the bus."""
    size = MEMORIES[each.memory_type].element_bytes(config) if isinstance(each, Load) else config.out_element_bytes
    return each.y_size * -(-each.x_size * size // config.bus_bytes) * config.memory.cycles_per_beat
