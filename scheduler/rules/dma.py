"""Rule ``dma``: strided copies between DRAM and the scratchpads, with zero padding on the way in.

The chunk may have any number of loops, be cut by a tail, and be padded, all at once. Loops that continue each other are
merged; the innermost contiguous one becomes a row, the next the rows of one instruction, and the rest instructions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import evaluate
from lathe.frontend.expressions import Cast, Const, Expr, Read, Select, axes_of
from lathe.isa import AluOp, Instruction, Load, MemoryType, Store
from lathe.scheduler.chunk import Chunk, Operand, RuleMismatch, VectorOperand, VectorView, check_covers, vectors
from lathe.scheduler.rules.registry import emit_rule

MAX_SIZE = (1 << 16) - 1
MAX_PAD = 15


@dataclass
class _Loop:
    extent: int
    sram: int
    dram: int
    mask_axis: int | None  # which axis of the padding mask this loop runs along


@emit_rule("dma", separate_init=True)
def dma(chunk: Chunk) -> list[Instruction]:
    """A copy between DRAM and a scratchpad: ``B[i] = A[f(i)]``, or ``select(inside, A[f(i)], 0)`` on the way in.

    Wants whole elements with the same lanes on both sides and linear indices. A 32-bit result is stored as four planes
    of bytes.
    """
    if chunk.role != "map":
        raise RuleMismatch(f"statement must be a copy, not a reduction by {chunk.reduction}")
    source = _source(chunk)
    into, out_of = chunk.write, source
    if (into.scope == "dram") == (out_of.scope == "dram"):
        raise RuleMismatch(
            f"copy must be between dram and a scratchpad, not from {out_of.tensor.name} in {out_of.scope} to "
            f"{into.tensor.name} in {into.scope}"
        )
    view = vectors(chunk, operands=(source,))
    assert view.write is not None
    _same_lanes(view.write, view.reads[0])
    if into.scope == "dram":
        return _store(chunk, view, view.write, view.reads[0])
    return list(_load(chunk, view, view.write, view.reads[0]))


def _source(chunk: Chunk) -> Operand:
    """The one read of a copy, below casts that keep the value and selects whose other branch is 0."""
    expr: Expr = chunk.expression
    while not isinstance(expr, Read):
        if isinstance(expr, Cast):
            expr = expr.operand
        elif isinstance(expr, Select):
            value, pad = expr.then, _uncast(expr.otherwise)
            if isinstance(_uncast(value), Const):
                value, pad = expr.otherwise, _uncast(value)
            if not isinstance(pad, Const):
                raise RuleMismatch(f"expression must be a copy of one tensor, not {chunk.expression}")
            if pad.value != 0:
                raise RuleMismatch(f"padding must be 0, not {pad.value}")
            expr = value
        else:
            raise RuleMismatch(f"expression must be a copy of one tensor, not {chunk.expression}")
    return chunk.operand(expr)


def _uncast(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def _same_lanes(into: VectorOperand, out_of: VectorOperand) -> None:
    for name, a, b in (("rows", into.rows, out_of.rows), ("columns", into.cols, out_of.cols)):
        if a.broadcast and b.broadcast:
            continue
        if (a.loops, a.first, a.count) != (b.loops, b.first, b.count):
            left, right = into.operand.tensor.name, out_of.operand.tensor.name
            raise RuleMismatch(
                f"{name} of {left} and {right} must be the same lanes, not {a.first}..{a.first + a.count - 1} and "
                f"{b.first}..{b.first + b.count - 1}: a DMA moves whole elements"
            )


def _memory_type(scope: str, operand: Operand) -> MemoryType:
    place = operand.place
    assert place is not None
    if scope == "acc":
        wide = place.storage == "int32" or operand.tensor.dtype == "int32"
        if not wide and operand.tensor.dtype != "int8":
            raise RuleMismatch(
                f"dtype of {operand.tensor.name} in dram must be int8 or int32, not {operand.tensor.dtype}"
            )
        return MemoryType.ACC if wide else MemoryType.ACC8
    if operand.tensor.dtype != "int8":
        raise RuleMismatch(f"dtype of {operand.tensor.name} must be int8 to go to {scope}, not {operand.tensor.dtype}")
    return MemoryType.INP if scope == "inp" else MemoryType.WGT


def _load(chunk: Chunk, view: VectorView, into: VectorOperand, out_of: VectorOperand) -> Iterator[Instruction]:
    memory = _memory_type(into.operand.scope, out_of.operand)
    mask, depends = padding_mask(chunk, view, out_of.operand)
    loops = [_Loop(view.extents[n], into.strides[n], out_of.strides[n], depends.get(n)) for n in view.loops]
    yield from load_rows(memory, loops, into.base, out_of.base, mask)


def padding_mask(chunk: Chunk, view: VectorView, operand: Operand) -> tuple[NDArray[np.bool_] | None, dict[int, int]]:
    """Where a guarded read happens, over the loops that its guards depend on; and which loop is which axis of it."""
    if not operand.guards:
        return None, {}
    count = len(chunk.loops)
    used = sorted(
        {
            n
            for guard, _ in operand.guards
            for axis in axes_of(guard)
            for n, c in enumerate(chunk.axes[axis].coefficients)
            if c and chunk.loops[n].extent > 1
        }
    )
    for n in used:
        if n in view.lanes or view.extents[n] != chunk.loops[n].extent:
            raise RuleMismatch(
                f"padding must take whole elements, but its condition depends on lane loop {view.names[n]}"
            )
    shape = [chunk.loops[n].extent for n in used]
    grids: list[NDArray[np.int64] | int] = [0] * count
    for position, n in enumerate(used):
        grids[n] = np.arange(shape[position]).reshape([-1 if q == position else 1 for q in range(len(used))])
    env = {
        axis: np.asarray(
            index.constant + sum(c * grid for c, grid in zip(index.coefficients, grids, strict=True) if c), np.int64
        )
        for axis, index in chunk.axes.items()
    }
    mask = np.ones(shape, np.bool_)
    for guard, holds in operand.guards:
        mask &= np.broadcast_to(evaluate(guard, env), shape) == holds
    if mask.all():
        return None, {}
    return mask, {n: position for position, n in enumerate(used)}


def load_rows(
    memory: MemoryType, loops: list[_Loop], sram: int, dram: int, mask: NDArray[np.bool_] | None
) -> Iterator[Instruction]:
    """LOADs for a copy into a scratchpad over element loops, zeros where the mask is False."""
    loops = _merged(sorted((loop for loop in loops if loop.extent > 1), key=lambda loop: -abs(loop.sram)))
    row = _Loop(1, 1, 1, None)
    if loops and loops[-1].sram == 1 and loops[-1].dram == 1 and loops[-1].extent <= MAX_SIZE:
        row = loops.pop()
    rows = _Loop(1, row.extent, row.extent, None)
    if loops and loops[-1].sram == row.extent and 0 <= loops[-1].dram <= MAX_SIZE and loops[-1].extent <= MAX_SIZE:
        rows = loops.pop()
    for point in product(*(range(loop.extent) for loop in loops)):
        at_sram = sram + sum(value * loop.sram for value, loop in zip(point, loops, strict=True))
        at_dram = dram + sum(value * loop.dram for value, loop in zip(point, loops, strict=True))
        window = _window(mask, loops, point, rows, row)
        yield from _load_window(memory, at_sram, at_dram, rows, row, window)


def _window(
    mask: NDArray[np.bool_] | None, loops: list[_Loop], point: tuple[int, ...], rows: _Loop, row: _Loop
) -> NDArray[np.bool_] | None:
    """The mask over the rows and elements of one instruction."""
    if mask is None:
        return None
    index: list[int | slice] = [slice(None)] * mask.ndim
    for value, loop in zip(point, loops, strict=True):
        if loop.mask_axis is not None:
            index[loop.mask_axis] = value
    kept = [axis for axis, each in enumerate(index) if isinstance(each, slice)]
    part = mask[tuple(index)]
    order = [axis for axis in (rows.mask_axis, row.mask_axis) if axis is not None]
    part = part.transpose([kept.index(axis) for axis in order])
    shape = [loop.extent if loop.mask_axis is not None else 1 for loop in (rows, row)]
    return np.broadcast_to(part.reshape(shape), (rows.extent, row.extent))


def _load_window(
    memory: MemoryType, sram: int, dram: int, rows: _Loop, row: _Loop, window: NDArray[np.bool_] | None
) -> Iterator[Instruction]:
    stride = rows.dram if rows.extent > 1 else row.extent
    if window is None or window.all():
        yield Load(memory, sram, dram, rows.extent, row.extent, stride)
        return
    if not window.any():
        yield from _zeros(memory, sram, rows.extent * row.extent)
        return
    ys, xs = np.flatnonzero(window.any(axis=1)), np.flatnonzero(window.any(axis=0))
    y0, y1, x0, x1 = int(ys[0]), int(ys[-1]) + 1, int(xs[0]), int(xs[-1]) + 1
    left, right = x0, row.extent - x1
    if not window[y0:y1, x0:x1].all() or max(left, right) > MAX_PAD:
        for y in range(rows.extent):
            yield from _load_runs(memory, sram + y * row.extent, dram + y * rows.dram, window[y])
        return
    top, bottom = min(y0, MAX_PAD), min(rows.extent - y1, MAX_PAD)
    yield from _zeros(memory, sram, (y0 - top) * row.extent)
    yield Load(
        memory,
        sram + (y0 - top) * row.extent,
        dram + y0 * rows.dram + x0,
        y1 - y0,
        x1 - x0,
        stride if y1 - y0 > 1 else x1 - x0,
        top,
        bottom,
        left,
        right,
    )
    end = y1 + bottom
    yield from _zeros(memory, sram + end * row.extent, (rows.extent - end) * row.extent)


def _load_runs(memory: MemoryType, sram: int, dram: int, valid: NDArray[np.bool_]) -> Iterator[Instruction]:
    """One row piece by piece: runs of data and runs of zeros."""
    edges = [0, *(np.flatnonzero(np.diff(valid)) + 1).tolist(), len(valid)]
    for first, end in pairwise(edges):
        if valid[first]:
            yield Load(memory, sram + first, dram + first, 1, end - first, end - first)
        else:
            yield from _zeros(memory, sram + first, end - first)


def _zeros(memory: MemoryType, sram: int, count: int) -> Iterator[Instruction]:
    """Zeros without reading: rows of padding around no rows of data."""
    while count > 0:
        size = min(count, MAX_SIZE)
        yield Load(memory, sram, 0, 0, size, size, 1)
        sram, count = sram + size, count - size


def _merged(loops: list[_Loop]) -> list[_Loop]:
    """Loops, outermost first, with neighbours joined where one continues the other and no padding depends on it."""
    result: list[_Loop] = []
    for loop in loops:
        before = result[-1] if result else None
        if (
            before is not None
            and before.mask_axis is None
            and loop.mask_axis is None
            and before.sram == loop.sram * loop.extent
            and before.dram == loop.dram * loop.extent
        ):
            result[-1] = _Loop(before.extent * loop.extent, loop.sram, loop.dram, None)
        else:
            result.append(_Loop(loop.extent, loop.sram, loop.dram, loop.mask_axis))
    return result


def _store(chunk: Chunk, view: VectorView, into: VectorOperand, out_of: VectorOperand) -> list[Instruction]:
    if out_of.operand.scope != "acc":
        raise RuleMismatch(
            f"source {out_of.operand.tensor.name} of a store must be in acc, not in {out_of.operand.scope}"
        )
    if out_of.operand.guards:
        raise RuleMismatch(f"source {out_of.operand.tensor.name} of a store must be read without a condition")
    place = into.operand.place
    assert place is not None
    shape = place.physical.view
    check_covers(into, chunk, (0,) * len(shape), tuple(extent - 1 for extent in shape))
    loops = [_Loop(view.extents[n], out_of.strides[n], into.strides[n], None) for n in view.loops]
    planes = into.operand.tensor.dtype in ("int16", "int32") and place.storage == "planes"
    if not planes:
        if into.operand.tensor.dtype != "int8":
            raise RuleMismatch(f"dtype of {into.operand.tensor.name} must be int8, int16 or int32 in dram")
        return list(_store_rows(loops, out_of.base, into.base))
    from lathe.scheduler.rules.reset import alu_immediate

    count = {"int16": 2, "int32": 4}[into.operand.tensor.dtype]
    extents, strides = [view.extents[n] for n in view.loops], [out_of.strides[n] for n in view.loops]
    instructions: list[Instruction] = []
    for plane in range(count):
        if plane:
            instructions += alu_immediate(chunk, extents, strides, out_of.base, AluOp.SHR, 8)
        instructions += _store_rows(loops, out_of.base, into.base + plane * place.physical.count)
    return instructions


def _store_rows(loops: list[_Loop], sram: int, dram: int) -> Iterator[Instruction]:
    loops = _merged(sorted((loop for loop in loops if loop.extent > 1), key=lambda loop: -abs(loop.sram)))
    row = _Loop(1, 1, 1, None)
    if loops and loops[-1].sram == 1 and loops[-1].dram == 1 and loops[-1].extent <= MAX_SIZE:
        row = loops.pop()
    rows = _Loop(1, row.extent, row.extent, None)
    if loops and loops[-1].sram == row.extent and 0 <= loops[-1].dram <= MAX_SIZE and loops[-1].extent <= MAX_SIZE:
        rows = loops.pop()
    for point in product(*(range(loop.extent) for loop in loops)):
        at_sram = sram + sum(value * loop.sram for value, loop in zip(point, loops, strict=True))
        at_dram = dram + sum(value * loop.dram for value, loop in zip(point, loops, strict=True))
        stride = rows.dram if rows.extent > 1 else row.extent
        yield Store(sram_base=at_sram, dram_base=at_dram, y_size=rows.extent, x_size=row.extent, x_stride=stride)
