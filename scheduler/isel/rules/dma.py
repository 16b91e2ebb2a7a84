"""Rule ``dma``: strided copies between DRAM and the scratchpads, with padding in loads.

A chunk may have any number of loops, be a tail, and be padded. Contiguous loops are merged; the innermost contiguous
loop becomes a row, the next one the rows of an instruction, and all others are unrolled into instructions.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import evaluate, reads_data
from lathe.frontend.arith.strip_casts import skip_casts, skip_value_preserving_casts
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Cast, Const, Read, Select, axes_of
from lathe.isa import Instruction, MemoryType
from lathe.scheduler.isel.chunk import Chunk, Operand, VectorOperand, VectorView, vectors
from lathe.scheduler.isel.chunk_slicing import restricted
from lathe.scheduler.isel.full_vector_writes import check_covers
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.border_fill import constants_around, fill_around, refusal
from lathe.scheduler.isel.rules.dilation_parts import free_cells_beside, parts_without_gaps
from lathe.scheduler.isel.rules.load_padding import ZEROS, padding_of
from lathe.scheduler.isel.rules.planes import load_planes, store_planes
from lathe.scheduler.isel.rules.rule import conditions, emit_rule, lanes
from lathe.scheduler.isel.rules.split_rescale import in_halves
from lathe.scheduler.isel.rules.transfers import DmaLoop, load_rows, store_rows
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, INP, OPERANDS, PARAMETERS, TABLES, WGT

_OTHER_MEMORIES = {
    INP: (MemoryType.INP, ("int8",)),
    WGT: (MemoryType.WGT, ("int8",)),
    PARAMETERS: (MemoryType.PAR, ("int32",)),
    TABLES: (MemoryType.LUT, ("int8", "uint8")),
}
"""Memory type and dtypes of the scratchpads that only LOAD writes."""


def _takes(statement: Statement) -> bool:
    """Copies: everything that is written elsewhere than to ``acc``, and loads."""
    return statement.role == "map" and (statement.scope != ACC or statement.is_load)


@emit_rule("dma", takes=_takes, separate_init=True, by_address=True)
def dma(chunk: Chunk) -> list[Instruction]:
    """A copy between DRAM and a scratchpad: ``B[i] = A[f(i)]``, or for loads ``select(inside, A[f(i)], constant)``.

    Requires linear indices, and whole vectors with the same layout on both sides. LOAD pads with the constants that the
    machine supports; in acc, the ALU adds others to zero padding. A result of more than 8 bits is stored as byte
    planes, and reassembled when it is loaded.
    """
    if chunk.role != "map":
        raise RuleMismatch(f"statement must be a copy, not a reduction by {chunk.reduction}", kind="machine")
    return [each for part in parts_without_gaps(chunk, chunk.write) for each in _copy(part)]


def _copy(chunk: Chunk) -> list[Instruction]:
    """The same for a chunk of which every iteration writes an index that is stored."""
    adjoins = chunk.write.place is not None and chunk.write.place.physical.contiguous
    if adjoins:  # groups that are contiguous on both sides are moved as one block
        chunk = replace(chunk, write=_joined(chunk.write))
    if isinstance(skip_casts(chunk.expression), Const) and chunk.write.scope in OPERANDS:
        return _constant(chunk)
    source = _source(chunk)
    into, out_of = chunk.write, source
    if (into.scope == DRAM) == (out_of.scope == DRAM):
        raise RuleMismatch(
            f"copy must be between dram and a scratchpad, not from {out_of.tensor.name} in {out_of.scope} to "
            f"{into.tensor.name} in {into.scope}",
            kind="machine",
        )
    view = vectors(chunk, operands=(_joined(source) if adjoins else source,))
    _same_lanes(view, view.write, view.reads[0])
    if into.scope == DRAM:
        return _store(chunk, view, view.write, view.reads[0])
    mask, depends = padding_mask(chunk, view, source)
    values = constants_around(chunk.expression) if mask is not None else set()
    if out_of.place is not None and out_of.place.storage == "planes":
        planes = load_planes(chunk, view, view.write, view.reads[0], mask, depends)
        return [*planes, *fill_around(chunk)] if values - {0} else planes
    memory = _memory_type(into.scope, out_of)
    padding = padding_of(chunk.config, memory, max(values, default=0)) if len(values) < 2 else None
    if padding is None and into.scope != ACC:
        raise refusal(chunk, values)
    loops = [
        DmaLoop(view.extents[n], view.write.strides[n], view.reads[0].strides[n], depends.get(n)) for n in view.loops
    ]
    beside = free_cells_beside(chunk) if mask is None else (0, 0)
    loads = list(load_rows(memory, loops, view.write.base, view.reads[0].base, mask, padding or ZEROS, beside))
    return loads if padding is not None else [*loads, *fill_around(chunk)]


def _joined(operand: Operand) -> Operand:
    """The operand with its groups of contiguous vectors as blocks."""
    assert operand.place is not None, f"{operand.tensor.name} is in no memory"
    physical = replace(operand.place.physical, contiguous=False, joined=True)
    return replace(operand, place=replace(operand.place, physical=physical))


def _constant(chunk: Chunk) -> list[Instruction]:
    """A box of a padded copy that only has padding: LOADs of padding without data."""
    values = constants_around(chunk.expression)
    memory = MemoryType.INP if chunk.write.scope == INP else MemoryType.WGT
    padding = padding_of(chunk.config, memory, max(values))
    if padding is None:
        raise refusal(chunk, values)
    view = vectors(chunk, operands=())
    into = view.write
    assert into is not None
    chunk.emitter.check_covers(chunk, into)
    loops = [DmaLoop(view.extents[n], into.strides[n], into.strides[n], None) for n in view.loops]
    return list(load_rows(memory, loops, into.base, 0, np.zeros((), np.bool_), padding))


def _source(chunk: Chunk) -> Operand:
    """The only read of a copy, below value-preserving casts and selects whose other branch is a constant."""
    expr: Expr = chunk.expression
    while not isinstance(expr, Read):
        if isinstance(expr, Cast):
            if not _may_be_left_out(expr, chunk):
                raise RuleMismatch(
                    f"casts of a copy must keep its values, not {expr}: a DMA moves bytes as they are", kind="machine"
                )
            expr = expr.operand
        elif isinstance(expr, Select):
            value, pad = expr.then, skip_casts(expr.otherwise)
            if isinstance(skip_casts(value), Const):
                value, pad = expr.otherwise, skip_casts(value)
            if not isinstance(pad, Const):
                raise RuleMismatch(f"expression must be a copy of one tensor, not {chunk.expression}", kind="machine")
            expr = value
        else:
            raise RuleMismatch(f"expression must be a copy of one tensor, not {chunk.expression}", kind="machine")
    return chunk.operand(expr)


def _may_be_left_out(cast: Cast, chunk: Chunk) -> bool:
    """Whether a copy does the same without a cast: it preserves values, or changes only bits that a store drops."""
    low_bits = chunk.write.scope == DRAM and DTYPES[cast.dtype].bits >= DTYPES[chunk.write.tensor.dtype].bits
    return low_bits or skip_value_preserving_casts(cast) is not cast


def _same_lanes(view: VectorView, into: VectorOperand, out_of: VectorOperand) -> None:
    for name, a, b in (("rows", into.rows, out_of.rows), ("columns", into.cols, out_of.cols)):
        if a.broadcast and b.broadcast:
            continue
        if (a.loops, a.first, a.count) != (b.loops, b.first, b.count):
            left, right = into.operand.tensor.name, out_of.operand.tensor.name
            raise RuleMismatch(
                f"{name} of {left} and {right} must cover the same lanes, not {lanes(a, view)} and {lanes(b, view)}: a "
                "DMA moves whole vectors",
                kind="machine",
            )


def _memory_type(scope: str, operand: Operand) -> MemoryType:
    place = operand.place
    assert place is not None
    if scope == ACC:
        wide = place.storage == "int32" or operand.tensor.dtype == "int32"
        if not wide and operand.tensor.dtype != "int8":
            raise RuleMismatch(
                f"dtype of {operand.tensor.name} in dram must be int8 or int32, not {operand.tensor.dtype}",
                kind="machine",
            )
        return MemoryType.ACC if wide else MemoryType.ACC8
    memory, dtypes = _OTHER_MEMORIES[scope]
    if operand.tensor.dtype not in dtypes:
        raise RuleMismatch(
            f"dtype of {operand.tensor.name} must be {' or '.join(dtypes)} to be loaded into {scope}, not "
            f"{operand.tensor.dtype}",
            kind="machine",
        )
    return memory


def padding_mask(chunk: Chunk, view: VectorView, operand: Operand) -> tuple[NDArray[np.bool_] | None, dict[int, int]]:
    """Mask of the iterations at which a guarded read happens, over the loops of its guards, and the axis of each loop.

    (None, {}) if it always happens.
    """
    if not operand.guards:
        return None, {}
    if any(reads_data(guard) for guard, _ in operand.guards):
        raise RuleMismatch(
            f"conditions on a read of {operand.tensor.name} must depend on indices only, not {conditions(operand)}: a "
            "DMA cannot evaluate conditions on data",
            kind="machine",
        )
    count = len(chunk.loops)
    decisive = axes_of(*(guard for guard, _ in operand.guards))
    used = sorted(
        {n for axis in decisive for n, c in enumerate(chunk.axes[axis].coefficients) if c and chunk.loops[n].extent > 1}
    )
    for n in used:
        if n in view.lanes or view.extents[n] != chunk.loops[n].extent:
            raise RuleMismatch(
                f"padding must consist of whole vectors, but its condition depends on lane loop {view.names[n]}",
                kind="machine",
            )
    shape = [chunk.loops[n].extent for n in used]
    grids: list[NDArray[np.int64] | int] = [0] * count
    for position, n in enumerate(used):
        grids[n] = np.arange(shape[position]).reshape([-1 if q == position else 1 for q in range(len(used))])
    env = {
        axis: np.asarray(
            index.constant + sum(c * grid for c, grid in zip(index.coefficients, grids, strict=True) if c), np.int64
        )
        for axis, index in ((axis, chunk.axes[axis]) for axis in decisive)
    }
    mask = np.ones(shape, np.bool_)
    for guard, holds in operand.guards:
        mask &= np.broadcast_to(evaluate(guard, env), shape) == holds
    if mask.all():
        return None, {}
    return mask, {n: position for position, n in enumerate(used)}


def _store(chunk: Chunk, view: VectorView, into: VectorOperand, out_of: VectorOperand) -> list[Instruction]:
    if out_of.operand.scope != ACC:
        raise RuleMismatch(
            f"source {out_of.operand.tensor.name} of a store must be in acc, not in {out_of.operand.scope}",
            kind="machine",
        )
    if out_of.operand.guards:
        raise RuleMismatch(
            f"source {out_of.operand.tensor.name} of a store must be read unconditionally, not where "
            f"{conditions(out_of.operand)}",
            kind="machine",
        )
    place = into.operand.place
    assert place is not None
    shape = place.physical.view
    check_covers(into, chunk, (0,) * len(shape), tuple(extent - 1 for extent in shape))
    loops = [DmaLoop(view.extents[n], out_of.strides[n], into.strides[n], None) for n in view.loops]
    if place.storage == "planes":
        return store_planes(chunk, out_of, loops, into.base, place.physical.count)
    if into.operand.tensor.dtype != "int8":
        raise RuleMismatch(
            f"dtype of {into.operand.tensor.name} in dram must be an integer of at most 32 bits, not "
            f"{into.operand.tensor.dtype}",
            kind="machine",
        )
    stores: list[Instruction] = []
    parts = [[range(loop.extent) for loop in loops]]
    if chunk.emitter.rule_of_producer(out_of.operand.tensor) == "rescale":
        parts = in_halves([(loop.extent, loop.sram) for loop in loops])
    for part in parts:
        some = [replace(loop, extent=len(each)) for loop, each in zip(loops, part, strict=True)]
        sram = sum(each.start * loop.sram for loop, each in zip(loops, part, strict=True))
        dram = sum(each.start * loop.dram for loop, each in zip(loops, part, strict=True))
        stores += store_rows(some, out_of.base + sram, into.base + dram)
    return [*stores, *_fill_groups(chunk)]


def _fill_groups(chunk: Chunk) -> Iterator[Instruction]:
    """Fill the last group of contiguous vectors with stores of any values, since it is loaded as one larger vector."""
    place = chunk.write.place
    assert place is not None
    form = place.physical
    if form.lanes.conversions is not None:
        return  # all vectors of a group are stored
    if form.group > 1 and form.lanes.cols is None:
        view = vectors(chunk, operands=(_source(chunk),))
        into, out_of = view.write, view.reads[0]
        loops = [DmaLoop(view.extents[n], out_of.strides[n], into.strides[n], None) for n in view.loops]
        for position in range(1, form.group):
            yield from store_rows(loops, out_of.base, into.base + position)
    for dim, adjoining in ((form.lanes.cols, form.group), (form.lanes.rows, form.stack)):
        if dim is not None and adjoining > 1:
            yield from _fill_behind(chunk, form, dim, adjoining)


def _fill_behind(chunk: Chunk, form: PhysicalLayout, dim: int, adjoining: int) -> Iterator[Instruction]:
    """Store the last vector along a dimension again, until the group is complete."""
    block = form.block(dim)
    used = -(-form.view[dim] // block) % adjoining
    index = chunk.write.index[dim]
    if used == 0 or index.last(chunk.extents) != form.view[dim] - 1:
        return
    start = (form.view[dim] - 1) // block * block
    box = [(0, loop.extent - 1) for loop in chunk.loops]
    moving = [n for n, c in enumerate(index.coefficients) if c and chunk.loops[n].extent > 1]
    if [index.coefficients[n] for n in moving] not in ([], [1]):
        raise RuleMismatch(
            f"exactly one loop must cover dimension {dim} of {chunk.write.tensor.name}, not {len(moving)}", kind="limit"
        )
    for n in moving:
        box[n] = (max(start - index.constant, 0), chunk.loops[n].extent - 1)
    part = restricted(chunk, box)
    view = vectors(part, operands=(_source(part),))
    into, out_of = view.write, view.reads[0]
    loops = [DmaLoop(view.extents[n], out_of.strides[n], into.strides[n], None) for n in view.loops]
    position = form.position if dim == form.lanes.cols else int
    for number in range(used, adjoining):
        yield from store_rows(loops, out_of.base, into.base + position(number) - position(used - 1))
