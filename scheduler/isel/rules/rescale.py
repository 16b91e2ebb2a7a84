"""Rule ``rescale``: requantisation of accumulators to 8 bits in one pass, with a bias and a factor per channel.

RESCALE overwrites its first operand, so an operand that is read again is copied first. Instruction loops must move both
operands by the same stride; other loops are unrolled into micro-ops.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import TABLE_ELEMENTS
from lathe.frontend.expr.nodes import reads_data
from lathe.isa import Instruction, Rescale
from lathe.scheduler.isel.chunk import Chunk, LaneRange, Operand, VectorOperand, VectorView, vectors
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.loop_plan import LoopPlan, plan_loops
from lathe.scheduler.isel.rules.planes import add_elements
from lathe.scheduler.isel.rules.reset import zero
from lathe.scheduler.isel.rules.rule import conditions, emit_rule, lanes
from lathe.scheduler.isel.rules.split_rescale import in_halves
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.layout.rescaling import listed_extensions, missing_extensions_of
from lathe.scheduler.rewriting.match_rescale import Rescaling, Term, match_rescale
from lathe.scheduler.schedule_ir.memories import ACC, PARAMETERS, TABLES

Ints = NDArray[np.int64]


def _takes(statement: Statement) -> bool:
    """Rescaling in ``acc``, whether the machine supports it or not."""
    return statement.role == "map" and statement.scope == ACC and match_rescale(statement.value) is not None


@emit_rule(
    "rescale", takes=_takes, reads=(ACC, PARAMETERS, TABLES), writes=ACC, by_address=True, in_place=True, looks_up=True
)
def rescale(chunk: Chunk) -> list[Instruction]:
    """One or two operands scaled with a bias and a factor per channel, rounded to 8 bits, and optionally looked up.

    Requires operands in ``acc``, parameters in ``par`` and a table in ``lut``, all with matching layouts, and the
    extensions ``rescale``, for two operands ``rescale_add``, and for a table ``lookup``.
    """
    found = match_rescale(chunk.expression)
    if chunk.role != "map" or found is None:
        raise RuleMismatch(
            f"expression must be a rescaling, int64(sum + bias) * mantissa, shifted and clipped to 8 bits, not "
            f"{chunk.expression}",
            kind="machine",
        )
    missing = missing_extensions_of(chunk.expression, chunk.config)
    if missing:
        raise RuleMismatch(
            f"machine {chunk.config.name!r} must have {listed_extensions(missing)}, and lacks it", kind="machine"
        )
    operands = [_operand(chunk, term) for term in found.terms]
    words = [_in_memory(chunk.operand(term.word), PARAMETERS) for term in found.terms]
    tables = [] if found.table is None else [_in_memory(chunk.operand(found.table), TABLES)]
    view = vectors(chunk, operands=(*operands, words[0], *tables))
    dst = view.write
    data, (par, *lut) = view.reads[: len(operands)], view.reads[len(operands) :]
    for each in data:
        _same_lanes(view, dst, dst.rows, each, "rows", each.rows)
        _same_lanes(view, dst, dst.cols, each, "columns", each.cols)
    _same_lanes(view, dst, dst.cols, par, "rows", par.rows)
    for table in lut:
        _same_lanes(view, dst, dst.cols, table, "columns", table.cols)
    chunk.emitter.check_covers(chunk, dst)
    if len(operands) > 1 and par.base % 2:
        raise RuleMismatch(
            f"parameters {par.operand.tensor.name} must start at an even address of par, not at {par.base}",
            kind="limit",
        )
    instructions = _copy_first_operand(chunk, view, dst, data[0])
    src = data[1] if len(data) > 1 else dst
    halves = in_halves([(view.extents[n], dst.strides[n]) for n in view.loops])
    parts = [dict(zip(view.loops, half, strict=True)) for half in halves]
    for box, (offset, number, loops) in product(parts, _with_one_table(view, lut)):
        if any(value not in box[n] for n, value in offset.items()):
            continue
        start = {**{n: box[n].start for n in loops}, **offset}
        steps = [(dst.strides[n], src.strides[n] - dst.strides[n], par.strides[n]) for n in loops]
        moved = [each.base + sum(value * each.strides[n] for n, value in start.items()) for each in (dst, src, par)]
        bits = chunk.config.acc_index_bits, 0, chunk.config.par_index_bits
        for plan in plan_loops(
            [len(box[n]) for n in loops],
            steps,
            (moved[0], moved[1] - moved[0], moved[2]),
            bits,
            chunk.emitter.pool.capacity,
            [n in chunk.unrolled for n in loops],
        ):
            instructions += _instructions(chunk, found, plan, number)
    return instructions


def _operand(chunk: Chunk, term: Term) -> Operand:
    if any(map(reads_data, term.data.indices)):
        raise RuleMismatch(
            f"operand {term.data.tensor.name} must be read at indices that depend on loops only, not at {term.data}: "
            "only tables can be read at data-dependent indices",
            kind="machine",
        )
    operand = _in_memory(chunk.operand(term.data), ACC)
    if operand.guards:
        raise RuleMismatch(
            f"operand {operand.tensor.name} must be read unconditionally, not where {conditions(operand)}: RESCALE "
            "cannot evaluate conditions",
            kind="machine",
        )
    return operand


def _in_memory(operand: Operand, scope: str) -> Operand:
    if operand.scope != scope:
        raise RuleMismatch(f"operand {operand.tensor.name} must be in {scope}, not in {operand.scope}", kind="machine")
    return operand


def _same_lanes(
    view: VectorView, dst: VectorOperand, mine: LaneRange, other: VectorOperand, side: str, theirs: LaneRange
) -> None:
    if theirs.broadcast or (mine.loops, mine.first, mine.count) == (theirs.loops, theirs.first, theirs.count):
        return
    raise RuleMismatch(
        f"lanes of {dst.operand.tensor.name} and {side} of {other.operand.tensor.name} must be the same, not "
        f"{lanes(mine, view)} and {lanes(theirs, view)}",
        kind="machine",
    )


def _copy_first_operand(chunk: Chunk, view: VectorView, dst: VectorOperand, data: VectorOperand) -> list[Instruction]:
    """Instructions that copy the first operand to the result's accumulators, unless it is computed in place."""
    loops = [n for n in view.loops if dst.strides[n]]
    if data.base == dst.base and all(data.strides[n] == dst.strides[n] for n in view.loops):
        return []
    extents, strides = [view.extents[n] for n in loops], [dst.strides[n] for n in loops]
    # Allocated in stream order: the reset comes first, so it must be the one to load micro-ops that both share.
    reset = zero(chunk, extents, strides, dst.base)
    return [*reset, *add_elements(chunk, extents, strides, dst.base, [data.strides[n] for n in loops], data.base)]


def _with_one_table(view: VectorView, lut: list[VectorOperand]) -> Iterator[tuple[dict[int, int], int, list[int]]]:
    """Slices of the loops with one table each: iterations of outer loops, the number of the table, the inner loops."""
    outside = [n for n in view.loops if lut and lut[0].strides[n]]
    inside = [n for n in view.loops if n not in outside]
    for point in product(*(range(view.extents[n]) for n in outside)):
        offset = dict(zip(outside, point, strict=True))
        row = lut[0].base + sum(value * lut[0].strides[n] for n, value in offset.items()) if lut else 0
        if row % TABLE_ELEMENTS:
            raise RuleMismatch(
                f"table {lut[0].operand.tensor.name} must start at a multiple of {TABLE_ELEMENTS} in lut, not at {row}",
                kind="limit",
            )
        yield offset, row // TABLE_ELEMENTS, inside


def _instructions(chunk: Chunk, found: Rescaling, plan: LoopPlan, table: int) -> list[Instruction]:
    dst, beyond, wgt = plan.micro_ops
    add = len(found.terms) > 1
    src = dst + beyond if add else np.zeros_like(dst)
    _assert_apart(plan, dst, src if add else dst)
    first, end, loads = chunk.emitter.pool.place(dst, src, wgt)
    (dst_out, _, wgt_out), (dst_in, _, wgt_in) = plan.factor_out, plan.factor_in
    rescaled = Rescale(
        first,
        end,
        plan.iter_out,
        plan.iter_in,
        dst_out,
        dst_in,
        wgt_out,
        wgt_in,
        add=add,
        zero_point=found.zero_point,
        unsigned=found.dtype == "uint8",
        relu=found.relu,
        lookup=found.table is not None,
        lookup_unsigned=found.table is not None and found.table.dtype == "uint8",
        table=table,
    )
    return [*loads, rescaled]


def _assert_apart(plan: LoopPlan, dst: Ints, src: Ints) -> None:
    """Assert that no micro-op of an instruction reads what another writes: the pipeline has no forwarding."""
    written, read = _cells(plan, dst), _cells(plan, src)
    order = np.argsort(written, kind="stable")
    at = np.searchsorted(written, read, sorter=order)
    found = order[np.minimum(at, len(order) - 1)]
    meets = (written[found] == read) & (found != np.arange(len(read)))
    assert len(np.unique(written)) == len(written), "an accumulator is rescaled twice in one instruction"
    assert not meets.any(), "an instruction rescales what another of its micro-ops writes"


def _cells(plan: LoopPlan, start: Ints) -> Ints:
    cells = start
    for count, factor in ((plan.iter_out, plan.factor_out[0]), (plan.iter_in, plan.factor_in[0])):
        cells = np.add.outer(np.arange(count, dtype=np.int64) * factor, cells).ravel()
    return cells
