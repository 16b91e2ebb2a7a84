"""Rule ``gemm``: matrix multiplications of vectors, accumulated in ``acc``."""

from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.nodes import Binary, Read
from lathe.isa import Instruction
from lathe.scheduler.isel.chunk import Chunk, LaneRange, Operand, VectorOperand, VectorView, vectors
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.rules.diagonal_vectors import vectors_of_diagonals
from lathe.scheduler.isel.rules.dilation_parts import parts_without_gaps
from lathe.scheduler.isel.rules.emit_gemm import gemm_instructions
from lathe.scheduler.isel.rules.loop_plan import plan_loops
from lathe.scheduler.isel.rules.permutation_gemm import selected_by_element
from lathe.scheduler.isel.rules.reset import reset_elements
from lathe.scheduler.isel.rules.rule import conditions, emit_rule, lanes
from lathe.scheduler.isel.rules.skip_padding_taps import Steps, TapPart, accumulators, parts_of_zeros, parts_with_data
from lathe.scheduler.isel.statement import Statement
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.schedule_ir.memories import ACC, INP, OPERANDS, WGT


def factor_bits(chunk: Chunk) -> tuple[int, int, int]:
    """The widths of the dst, src and wgt factor fields of GEMM."""
    config = chunk.config
    return config.acc_index_bits, config.inp_index_bits, config.wgt_index_bits


def _takes(statement: Statement) -> bool:
    """Reductions with an operand in ``inp`` or ``wgt``."""
    return statement.role == "update" and bool(set(statement.reads.values()) & set(OPERANDS))


@emit_rule("gemm", takes=_takes, reads=OPERANDS, writes=ACC, separate_init=True, by_address=True)
def gemm(chunk: Chunk) -> list[Instruction]:
    """``acc[dst] += inp[src] · wgt[wgt]ᵀ`` over all loops of the chunk; the init part resets the accumulators.

    Taps that only meet zero padding are skipped. On machines with the extension ``gemm_begin``, the first MAC of each
    accumulator overwrites it where that makes the reset unnecessary.

    Requires a sum of products of an int8 operand in ``inp`` and one in ``wgt``, written to ``acc``.
    """
    if chunk.role == "init":
        return reset_elements(chunk)
    if chunk.role != "update" or chunk.reduction != "sum":
        raise RuleMismatch(
            f"statement must be a sum over reduction axes, not a {chunk.reduction or 'map'}", kind="machine"
        )
    data, _ = _operands(chunk)
    return [each for part in parts_without_gaps(chunk, data) for each in _instructions(part)]


def _instructions(chunk: Chunk) -> list[Instruction]:
    """The instructions of a chunk that only reads indices that its operands' buffers store."""
    data, weight = _operands(chunk)
    assert weight.place is not None, f"{weight.tensor.name} in {weight.scope} has no address"
    diagonal = weight.place.physical.lanes.is_diagonal
    permuted = data.place is not None and data.place.physical.lanes.conversions is not None
    view = vectors_of_diagonals(chunk, data, weight) if diagonal else vectors(chunk, operands=(data, weight))
    dst, (src, wgt) = view.write, view.reads
    _same_lanes(view, dst, "rows", dst.rows, src, "rows", src.rows)
    if permuted:
        _same_lanes(view, dst, "columns", dst.cols, src, "columns", src.cols)
        view = selected_by_element(chunk, view)
        wgt = view.reads[-1]
    else:
        _same_lanes(view, dst, "columns", dst.cols, wgt, "rows", wgt.rows)
        _same_lanes(view, src, "columns", src.cols, wgt, "columns", wgt.cols)
        if not diagonal:
            _check_reduction_lanes(chunk, src, wgt)
    if not diagonal:
        chunk.emitter.check_covers(chunk, dst)
    padded = next((each for each in (src, wgt) if _has_zeros(each)), src)  # the image may be the weight operand
    parts: list[TapPart] = [{}] if permuted else parts_with_data(chunk, view, padded, dst)
    if GEMM_BEGIN in chunk.config.extensions and parts:
        zeros = parts_of_zeros(view, parts[0], padded, dst)
        if zeros and chunk.emitter.holds_zeros(accumulators(view, dst)):
            parts[1:1] = zeros
    instructions: list[Instruction] = []
    for part in parts:
        loops = [(n, part.get(n, Steps(0, view.extents[n]))) for n in view.loops]
        for plan in plan_loops(
            [steps.count for _, steps in loops],
            [tuple(each.strides[n] * steps.step for each in (dst, src, wgt)) for n, steps in loops],
            [each.base + sum(each.strides[n] * steps.first for n, steps in loops) for each in (dst, src, wgt)],
            factor_bits(chunk),
            chunk.emitter.pool.capacity,
            [n in chunk.unrolled for n, _ in loops],
        ):
            instructions += gemm_instructions(chunk, plan)
    return instructions


def _has_zeros(operand: VectorOperand) -> bool:
    """Whether an operand is known to have zeros, as padding or between its data."""
    return operand.operand.place is not None and operand.operand.place.data is not None


def _operands(chunk: Chunk) -> tuple[Operand, Operand]:
    body = skip_value_preserving_casts(chunk.expression)
    if not isinstance(body, Binary) or body.op != "mul":
        raise RuleMismatch(f"summand must be a product of two reads, not {chunk.expression}", kind="machine")
    sides = [skip_value_preserving_casts(side) for side in (body.lhs, body.rhs)]
    if not all(isinstance(side, Read) for side in sides):
        raise RuleMismatch(f"factors of the product must be reads, not {body.lhs} and {body.rhs}", kind="machine")
    operands = [chunk.operand(side) for side in sides if isinstance(side, Read)]
    if chunk.write.tensor.dtype != "int32":
        raise RuleMismatch(
            f"dtype of result {chunk.write.tensor.name} must be int32, not {chunk.write.tensor.dtype}", kind="machine"
        )
    scopes = {operand.scope: operand for operand in operands}
    for scope in OPERANDS:
        if scope not in scopes:
            names = " and ".join(f"{operand.tensor.name} in {operand.scope}" for operand in operands)
            raise RuleMismatch(f"operands must be one in inp and one in wgt, not {names}", kind="machine")
    for operand in operands:
        if operand.tensor.dtype != "int8":
            raise RuleMismatch(
                f"dtype of operand {operand.tensor.name} must be int8, not {operand.tensor.dtype}", kind="machine"
            )
        if operand.guards:
            raise RuleMismatch(
                f"operand {operand.tensor.name} must be read unconditionally, not where {conditions(operand)}; put the "
                "padding into a computation of its own, which a DMA can implement",
                kind="machine",
            )
    return scopes[INP], scopes[WGT]


def _same_lanes(
    view: VectorView,
    left: VectorOperand,
    left_side: str,
    a: LaneRange,
    right: VectorOperand,
    right_side: str,
    b: LaneRange,
) -> None:
    if a.broadcast and b.broadcast:
        return
    names = f"{left_side} of {left.operand.tensor.name} and {right_side} of {right.operand.tensor.name}"
    if a.broadcast or b.broadcast:
        other, side = (a, b) if b.broadcast else (b, a)
        if other.count == 1 and other.first == 0 and side.count == 1:
            return
    if (a.loops, a.first, a.count) != (b.loops, b.first, b.count):
        raise RuleMismatch(
            f"{names} must cover the same lanes, not {lanes(a, view)} and {lanes(b, view)}", kind="machine"
        )


def _check_reduction_lanes(chunk: Chunk, src: VectorOperand, wgt: VectorOperand) -> None:
    """Raises RuleMismatch unless lanes that the reduction does not cover are zero in one of the operands."""
    ends: list[bool] = []
    lanes_of_data = vector_type_of(chunk.config, INP).cols
    parts: list[str] = []
    for operand in (src, wgt):
        place = operand.operand.place
        assert place is not None
        dim = place.physical.lanes.cols
        if dim is None:
            ends.append(place.zero_padded)
            parts.append(f"one lane of {operand.operand.tensor.name}")
            continue
        block = place.physical.block(dim)
        index = operand.operand.index[dim]
        first, last = index.first(chunk.extents), index.last(chunk.extents)
        if first % block == 0 and (last + 1) % block == 0 and operand.cols.count == block:
            return
        moves = index.moves_by(block, chunk.extents) and operand.cols.count != block
        parts.append(f"{first}..{last} of {place.physical.view[dim]} of {operand.operand.tensor.name}")
        at_end = last == place.physical.view[dim] - 1
        ends.append(place.zero_padded and first % block == 0 and at_end and not moves)
    if not any(ends):
        raise RuleMismatch(
            f"reduction must cover whole blocks of {lanes_of_data} lanes, or end where a tensor ends whose pad lanes "
            f"are zero, not {' and '.join(parts)}",
            kind="machine",
        )
