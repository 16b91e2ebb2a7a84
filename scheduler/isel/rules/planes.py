"""Byte planes: values of more than 8 bits in DRAM, one plane per byte, the least significant first.

STORE writes the low 8 bits, so values are shifted right between the stores of planes. Loading goes from the most
significant plane to the least: the value so far is shifted left, and the next plane added. LOAD sign-extends each byte,
so 256 is added where it was negative.
"""

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.expr.dtypes import DTYPES
from lathe.isa import Alu, AluOp, Instruction, MemoryType
from lathe.scheduler.isel.chunk import Chunk, VectorOperand, VectorView
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.loop_plan import plan_loops
from lathe.scheduler.isel.rules.reset import alu_immediate, zero
from lathe.scheduler.isel.rules.transfers import DmaLoop, load_rows, store_rows
from lathe.scheduler.schedule_ir.memories import ACC


def store_planes(
    chunk: Chunk, out_of: VectorOperand, loops: list[DmaLoop], base: int, plane_size: int
) -> list[Instruction]:
    """Store vectors of acc as planes of ``plane_size`` vectors from ``base`` on.

    Two halves alternate, so that one is stored while the other is shifted. The shifts destroy the accumulators; if they
    are read again, a copy is shifted instead.
    """
    instructions: list[Instruction] = []
    first_source = out_of.base
    if chunk.emitter.keeps_source(chunk):
        extents, strides = [loop.extent for loop in loops], [loop.sram for loop in loops]
        dense = [prod(extents[n + 1 :]) for n in range(len(extents))]
        first_source = chunk.emitter.temporary(prod(extents))
        instructions += zero(chunk, extents, dense, first_source)
        instructions += add_elements(chunk, extents, dense, first_source, strides, out_of.base)
        loops = [replace(loop, sram=step) for loop, step in zip(loops, dense, strict=True)]
    parts = [(loops, first_source, base)]
    cut = max((n for n, loop in enumerate(loops) if loop.extent > 1), key=lambda n: loops[n].sram, default=None)
    if cut is not None:
        loop = loops[cut]
        half = loop.extent // 2
        first, second = list(loops), list(loops)
        first[cut], second[cut] = replace(loop, extent=half), replace(loop, extent=loop.extent - half)
        parts = [(first, first_source, base), (second, first_source + half * loop.sram, base + half * loop.dram)]
    for plane in range(_planes(chunk.write.tensor.dtype)):
        for part, source, target in parts:
            if plane:
                extents, strides = [loop.extent for loop in part], [loop.sram for loop in part]
                instructions += alu_immediate(chunk, extents, strides, source, AluOp.SHR, 8)
            instructions += store_rows(part, source, target + plane * plane_size)
    return instructions


def load_planes(
    chunk: Chunk,
    view: VectorView,
    into: VectorOperand,
    out_of: VectorOperand,
    mask: NDArray[np.bool_] | None,
    depends: dict[int, int],
) -> list[Instruction]:
    """Load planes into acc and reassemble the values, in as many pieces as the temporaries require."""
    if into.operand.scope != ACC:
        raise RuleMismatch(
            f"dtype of {out_of.operand.tensor.name} must be int8 to be loaded into {into.operand.scope}, not "
            f"{out_of.operand.tensor.dtype}",
            kind="machine",
        )
    place = out_of.operand.place
    assert place is not None
    plane_size = place.physical.count
    dtype = DTYPES[out_of.operand.tensor.dtype]
    signed = dtype.minimum < 0
    loops = [n for n in view.loops if into.strides[n]]
    inner = list(loops)
    available = max(chunk.emitter.temporaries_left, 1)
    while prod(view.extents[n] for n in inner) > available:
        inner.pop(0)
    outer = loops[: len(loops) - len(inner)]
    extents = [view.extents[n] for n in inner]
    strides = [into.strides[n] for n in inner]
    dense = [prod(extents[n + 1 :]) for n in range(len(extents))]
    count = _planes(dtype.name)
    temporary = chunk.emitter.temporary(prod(extents)) if count > 1 or not signed else 0
    instructions: list[Instruction] = []
    for point in product(*(range(view.extents[n]) for n in outer)):
        target = into.base + sum(v * into.strides[n] for v, n in zip(point, outer, strict=True))
        source = out_of.base + sum(v * out_of.strides[n] for v, n in zip(point, outer, strict=True))
        part = _part_of_mask(mask, depends, dict(zip(outer, point, strict=True)))
        axes = {n: k for k, n in enumerate(sorted((n for n in inner if n in depends), key=lambda n: depends[n]))}

        along = [(view.extents[n], out_of.strides[n], axes.get(n)) for n in inner]
        into_target = [DmaLoop(e, step, s, axis) for (e, s, axis), step in zip(along, strides, strict=True)]
        into_temporary = [DmaLoop(e, step, s, axis) for (e, s, axis), step in zip(along, dense, strict=True)]
        if signed:
            top = source + (count - 1) * plane_size
            instructions += load_rows(MemoryType.ACC8, into_target, target, top, part)
        else:
            instructions += zero(chunk, extents, strides, target)
        for plane in reversed(range(count - 1 if signed else count)):
            start = source + plane * plane_size
            instructions += load_rows(MemoryType.ACC8, into_temporary, temporary, start, part)
            instructions += alu_immediate(chunk, extents, strides, target, AluOp.SHR, -8)
            instructions += add_elements(chunk, extents, strides, target, dense, temporary)
            instructions += alu_immediate(chunk, extents, dense, temporary, AluOp.SHR, 7)
            instructions += alu_immediate(chunk, extents, dense, temporary, AluOp.MUL, -256)
            instructions += add_elements(chunk, extents, strides, target, dense, temporary)
    return instructions


def _planes(dtype: str) -> int:
    return DTYPES[dtype].bits // 8


def _part_of_mask(
    mask: NDArray[np.bool_] | None, depends: dict[int, int], fixed: dict[int, int]
) -> NDArray[np.bool_] | None:
    """The mask at fixed iterations of some loops."""
    if mask is None:
        return None
    index: list[int | slice] = [slice(None)] * mask.ndim
    for loop, value in fixed.items():
        if loop in depends:
            index[depends[loop]] = value
    return mask[tuple(index)]


def add_elements(
    chunk: Chunk, extents: list[int], strides: list[int], target: int, steps: list[int], source: int
) -> list[Instruction]:
    """ADD instructions that add vectors of acc at ``source`` to those at ``target``, over loops that move both."""
    instructions: list[Instruction] = []
    bits = (chunk.config.acc_index_bits,) * 2
    capacity = chunk.emitter.pool.capacity
    for plan in plan_loops(extents, list(zip(strides, steps, strict=True)), (target, source), bits, capacity):
        dst, src = plan.micro_ops
        first, end, loads = chunk.emitter.pool.place(dst, src, np.zeros_like(dst))
        (do, so), (di, si) = plan.factor_out, plan.factor_in
        instructions += [*loads, Alu(AluOp.ADD, first, end, plan.iter_out, plan.iter_in, do, di, so, si)]
    return instructions
