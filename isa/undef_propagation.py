"""Taint analysis of undefined DRAM bytes: which LOADs bring bytes that nothing has stored into results.

Instructions process whole vectors and boxes, so they also load, move and compute with undefined cells, in lanes that
are dead or that a mask sets to 0. Undefined values may be moved, but must not reach a value of an output. Each cell is
tracked with the LOAD that brought its undefined value, if any, and with its value if that follows from constants,
because 0 times anything is 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import UOP_FORMAT
from lathe.isa.arithmetic import wrap
from lathe.isa.instructions import Alu, Gemm, Load, MicroOpInstruction, TransferInstruction, is_transfer, runs_micro_ops
from lathe.isa.layout import Layout
from lathe.isa.microops import decode_uops
from lathe.isa.operands import Usage, cells_of, operands_of, usage_of
from lathe.isa.program import Program, Segment
from lathe.isa.table import MEMORIES, TABLE, AluOp, MemoryType
from lathe.isa.uop_semantics import UOP_SEMANTICS

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

BLANK = -1
"""The source of an undefined byte in DRAM; source 0: the value is defined; n + 1: LOAD n brought it."""
_INDICES = tuple(field.name for field in UOP_FORMAT.fields)
"""The indices of a micro-op, in the order of decoding."""
MOST_AT_ONCE = 4096
"""Executed micro-ops that are processed at a time."""


@dataclass
class _Cells:
    """The cells of a memory: sources of undefined values, which values are known, and those."""

    source: Ints
    known: Bools
    value: Ints

    @staticmethod
    def of(shape: tuple[int, ...]) -> "_Cells":
        return _Cells(np.zeros(shape, np.int32), np.zeros(shape, np.bool_), np.zeros(shape, np.int32))

    def __getitem__(self, at: Any) -> "_Cells":
        return _Cells(self.source[at], self.known[at], self.value[at])

    def put(self, at: Any, cells: "_Cells") -> None:
        self.source[at], self.known[at], self.value[at] = cells.source, cells.known, cells.value

    @property
    def is_zero(self) -> Bools:
        return np.asarray(self.known & (self.value == 0))


def loads_used_undefined(program: Program, order: NDArray[np.int64]) -> set[int]:
    """The LOADs of a program that bring bytes which nothing has stored into values of its outputs.

    ``order`` is one in which the instructions may run. The program must have no other findings: indices out of range
    are skipped.
    """
    run = _Run(program)
    for index in order.tolist():
        instruction = program.instructions[index]
        if isinstance(instruction, Gemm):
            run.gemm(instruction)
        elif runs_micro_ops(instruction):
            run.micro_ops(instruction)
        elif is_transfer(instruction) and TABLE[instruction.opcode].stores:
            run.store(instruction)
        elif isinstance(instruction, Load):
            run.load(index, instruction)
    return run.used()


def _packed(layout: Layout, bits: int) -> NDArray[np.int8]:
    """The bytes of an input whose values all have these bits."""
    given = np.full(layout.shape, bits, np.int8).astype(layout.dtype)
    return np.ascontiguousarray(layout.pack(given)).reshape(-1).view(np.int8)


class _Run:
    def __init__(self, program: Program) -> None:
        self.program, config = program, program.config
        self.config = config
        self.dram = _Cells.of((program.memory_end,))
        for segment in program.segments:
            cells = slice(segment.address, segment.end)
            if segment.role in ("output", "temporary"):
                self.dram.source[cells] = BLANK
            elif segment.name in program.images:
                self.dram.known[cells] = True
                self.dram.value[cells] = program.images[segment.name].view(np.int8)[: segment.nbytes]
            elif segment.role == "input" and segment.layout is not None:
                packed = [_packed(segment.layout, bits) for bits in (0, -1)]
                self.dram.known[cells] = packed[0] == packed[1]  # bytes that do not depend on the input: padding
                self.dram.value[cells] = packed[0]
        self.scratchpads = {
            "inp": _Cells.of((config.inp_depth, config.batch, config.block_in)),
            "wgt": _Cells.of((config.wgt_depth, config.block_out, config.block_in)),
            "acc": _Cells.of((config.acc_depth, config.batch, config.block_out)),
            "par": _Cells.of((config.par_depth, config.block_out, 2)),
            "lut": _Cells.of((config.lut_depth, config.block_out)),
        }
        self.uops = np.zeros(config.uop_depth, np.uint32)

    def load(self, index: int, load: Load) -> None:
        if load.x_size == 0 or load.memory_type == MemoryType.OUT:
            return
        memory = MEMORIES[load.memory_type]
        size = memory.element_bytes(self.config)
        width = load.x_pad_0 + load.x_size + load.x_pad_1
        height = load.y_pad_0 + load.y_size + load.y_pad_1
        rows = [
            slice(
                (load.dram_base + y * load.x_stride) * size, (load.dram_base + y * load.x_stride + load.x_size) * size
            )
            for y in range(load.y_size)
        ]
        if load.memory_type == MemoryType.UOP:
            words = np.zeros((height, width), np.uint32)
            for y, row in enumerate(rows):
                content = self.dram.value[row].astype(np.int8).view("<u4")
                words[load.y_pad_0 + y, load.x_pad_0 : load.x_pad_0 + load.x_size] = content
            self.uops[load.sram_base : load.sram_base + width * height] = words.reshape(-1)
            return
        scratchpad = self.scratchpads[memory.scratchpad]
        block = _Cells.of((height, width, *scratchpad.source.shape[1:]))
        block.known[:], block.value[:] = True, load.padding
        for y, row in enumerate(rows):
            cells = self.lanes(self.dram[row], index, wide=load.memory_type in (MemoryType.ACC, MemoryType.PAR))
            at = (load.y_pad_0 + y, slice(load.x_pad_0, load.x_pad_0 + load.x_size))
            form = (load.x_size, *scratchpad.source.shape[1:])
            block.put(at, _Cells(cells.source.reshape(form), cells.known.reshape(form), cells.value.reshape(form)))
        target = slice(load.sram_base, load.sram_base + width * height)
        form = (width * height, *scratchpad.source.shape[1:])
        scratchpad.put(target, _Cells(block.source.reshape(form), block.known.reshape(form), block.value.reshape(form)))

    def lanes(self, content: _Cells, index: int, *, wide: bool) -> _Cells:
        """Bytes as values of lanes, each of four bytes or of one."""
        source = np.where(content.source == BLANK, index + 1, content.source).astype(np.int32)
        if not wide:
            return _Cells(source, content.known, content.value)
        value = content.value.astype(np.int8).view("<i4").astype(np.int32)
        return _Cells(source.reshape(-1, 4).max(axis=1), np.all(content.known.reshape(-1, 4), axis=1), value)

    def store(self, store: TransferInstruction) -> None:
        size = self.config.out_element_bytes
        for y in range(store.y_size if store.x_size else 0):
            first = store.sram_base + y * store.x_size
            cells = self.scratchpads["acc"][first : first + store.x_size]
            address = (store.dram_base + y * store.x_stride) * size
            values = wrap(cells.value, 8).astype(np.int32)
            row = _Cells(cells.source.reshape(-1), cells.known.reshape(-1), values.reshape(-1))
            self.dram.put(slice(address, address + store.x_size * size), row)

    def runs(self, instruction: MicroOpInstruction) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """The indices of an instruction's executed micro-ops in all iterations: dst, src and wgt, in batches."""
        starts = decode_uops(self.config, self.uops[instruction.uop_bgn : instruction.uop_end])
        outer, inner = np.arange(instruction.iter_out)[:, None, None], np.arange(instruction.iter_in)[:, None]
        indices = []
        factors = {each.index: each.factors_of(instruction) for each in operands_of(instruction.opcode)}
        for name, start in zip(_INDICES, starts, strict=True):
            out, within = factors.get(name, (0, 0))
            indices.append((start + outer * out + inner * within).reshape(-1))
        for first in range(0, len(indices[0]), MOST_AT_ONCE):
            yield tuple(each[first : first + MOST_AT_ONCE] for each in indices)

    def gemm(self, gemm: Gemm) -> None:
        acc = self.scratchpads["acc"]
        for dst, src, wgt in self.runs(gemm):
            if gemm.reset:
                acc.source[dst], acc.known[dst], acc.value[dst] = 0, True, 0
                continue
            data, weights = self.scratchpads["inp"][src], self.scratchpads["wgt"][wgt]
            value = _product(np.where(data.known, data.value, 0), np.where(weights.known, weights.value, 0))
            unknown_data, unknown_weights = ~data.known, ~weights.known
            unknown = _product(unknown_data, ~weights.is_zero) + _product(~data.is_zero, unknown_weights) > 0
            if gemm.begin:  # old values are overwritten; the last micro-op with a destination determines its value
                last = len(dst) - 1 - np.unique(dst[::-1], return_index=True)[1]
                acc.source[dst], acc.known[dst], acc.value[dst] = 0, True, 0
                dst, data, weights, value, unknown = dst[last], data[last], weights[last], value[last], unknown[last]
            np.add.at(acc.value, dst, value.astype(np.int64).astype(np.int32))
            np.logical_and.at(acc.known, dst, ~unknown)
            if data.source.any() or weights.source.any():
                by_data = np.where(~weights.is_zero[:, None], data.source[:, :, None], 0).max(axis=3)
                by_weights = np.where(~data.is_zero[:, :, None], weights.source[:, None], 0).max(axis=3)
                np.maximum.at(acc.source, dst, np.maximum(by_data, by_weights))

    def micro_ops(self, instruction: MicroOpInstruction) -> None:
        usage = usage_of(instruction)
        other_reads = [each.index for each in usage.read if each.scratchpad == "acc" and each is not usage.written]
        for batch in self.runs(instruction):
            at = dict(zip(_INDICES, batch, strict=True))
            dst = at[usage.written.index]
            others = [at[name] for name in other_reads]
            distinct = len(np.unique(dst)) == len(dst)
            if distinct and all((src == dst).all() or not np.isin(src, dst).any() for src in others):
                self.operate(instruction, usage, at)
                continue
            for n in range(len(dst)):
                self.operate(instruction, usage, {name: each[n : n + 1] for name, each in at.items()})

    def operate(self, instruction: MicroOpInstruction, usage: Usage, at: dict[str, NDArray[np.int64]]) -> None:
        """Execute independent micro-ops: a result is known where all operands are known."""
        acc, meaning = self.scratchpads["acc"], UOP_SEMANTICS[instruction.opcode]
        operands: list[tuple[str, str, Any]] = [(each.index, each.scratchpad, at[each.index]) for each in usage.read]
        operands += [(each.odd, each.scratchpad, at[each.index] | 1) for each in usage.odd]
        # All vectors of a block, broadcast over the micro-ops.
        operands += [
            (each.name, MEMORIES[each.memory].scratchpad, (None, cells_of(each, instruction))) for each in usage.blocks
        ]
        cells = {name: self.scratchpads[memory][where] for name, memory, where in operands}
        form = (len(at[usage.written.index]), *acc.source.shape[1:])
        written = _Cells(np.zeros(form, np.int32), np.ones(form, np.bool_), np.empty(form, np.int32))
        written.value[:] = meaning.value(instruction, {name: each.value for name, each in cells.items()})
        for name, memory, _ in operands:
            known, source = _in_lanes(memory, cells[name])
            if not meaning.lanewise:
                known = np.asarray(known.all(axis=(1, 2), keepdims=True))
                source = np.asarray(source.max(axis=(1, 2), keepdims=True))
            np.logical_and(written.known, known, out=written.known)
            np.maximum(written.source, source, out=written.source)
        if isinstance(instruction, Alu) and instruction.alu_opcode == AluOp.MUL:  # 0 times anything is 0
            other = cells["src"].is_zero if "src" in cells else np.full(form, instruction.imm == 0)
            zero = cells["dst"].is_zero | other
            written.known[zero], written.source[zero], written.value[zero] = True, 0, 0
        acc.put(at[usage.written.index], written)

    def used(self) -> set[int]:
        """The LOADs whose undefined bytes reach values of outputs."""
        loads: set[int] = set()
        for segment in self.program.segments:
            if segment.role == "output":
                source = self.dram.source[segment.address : segment.end]
                loads |= set(source[(source > 0) & _live(segment)].tolist())
        return {each - 1 for each in loads}


def _in_lanes(memory: str, cells: _Cells) -> tuple[Bools, Ints]:
    """Knowledge and sources of operands from a memory, in the lanes of accumulators or broadcasting to them."""
    if memory == "par":  # (number, block_out, 2)
        return np.asarray(cells.known.all(axis=2))[:, None], np.asarray(cells.source.max(axis=2))[:, None]
    if memory == "lut":  # (1, vectors, block_out)
        return np.asarray(cells.known.all(axis=1, keepdims=True)), np.asarray(cells.source.max(axis=1, keepdims=True))
    return cells.known, cells.source


def _product(data: NDArray[np.generic], weights: NDArray[np.generic]) -> NDArray[np.float64]:
    """Batched GEMM of data and transposed weights; exact: sums of few products of bytes."""
    return np.asarray(data.astype(np.float64) @ weights.astype(np.float64).transpose(0, 2, 1))


def _live(segment: Segment) -> Bools:
    """The bytes of a segment that hold values of its tensor, not padding."""
    layout = segment.layout
    if layout is None:
        return np.ones(segment.nbytes, np.bool_)
    live = np.zeros(segment.nbytes, np.bool_)  # a layout may be shorter than its segment
    dtype = np.dtype(layout.dtype)
    bits = [np.zeros(layout.shape, dtype), ~np.zeros(layout.shape, dtype)]
    zeros, ones = (np.ascontiguousarray(layout.pack(each)).view(np.uint8).reshape(-1) for each in bits)
    live[: len(ones)] = zeros != ones
    return live
