"""Which computed tensors hold zeros in the pad lanes after their last column, as a reduction over whole blocks needs.

The host fills the pad lanes of inputs with zeros. Arithmetic computes all lanes, so a computed tensor holds there what
its expression gives for zeros; the result of a GEMM holds zeros where the rows of its weights are zeros.
"""

from collections.abc import Mapping
from functools import lru_cache

from lathe.frontend import Tensor, as_affine, evaluate, walk
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read, ReadAccess, Reduce, Select
from lathe.scheduler.layout.layout_assignment import LayoutAssignment
from lathe.scheduler.layout.layout_transfer import elementwise_operand_layout
from lathe.scheduler.layout.match_gemm import ends_with
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.memories import DRAM, PARAMETERS
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState, VectorLayout


def zero_padded_tensors(schedule: ScheduleView, plan: LayoutAssignment) -> set[Tensor]:
    """The computed tensors with a dimension in the columns whose pad lanes are known to be zero."""
    states = {tensor: stage.state for stage in schedule.stages for tensor in stage.state.tensors}
    zero_padded: set[Tensor] = set()
    for stage in schedule.stages:
        state = stage.state
        if plan.layouts[state.tensor].cols is None:
            continue
        product = plan.gemms[state.tensor]
        if product is not None:
            all_rows = product.column is None or ends_with(product.weight, product.column)
            if all_rows and is_program_input(schedule, product.weight.tensor):
                zero_padded.update(state.tensors)
        elif _reads_zeros(stage, plan, states, zero_padded) and all(
            _is_zero(body) for body in state.computation.bodies
        ):
            zero_padded.update(state.tensors)
    return zero_padded


def is_program_input(schedule: ScheduleView, tensor: Tensor) -> bool:
    """Whether a GEMM operand is a program input, or loaded from one, perhaps with zero padding."""
    loaded = False
    while (stage := schedule.producer(tensor)) is not None:
        state = stage.state
        if state.scope == DRAM:
            if loaded or not is_loaded_with_zeros(schedule, tensor):
                return False
        elif len(state.computation.reads) != 1 or not _keeps_zeros(state.computation.bodies[0]):
            return False
        loaded = True
        tensor = state.computation.reads[0].tensor
    return True


def is_loaded_with_zeros(schedule: ScheduleView, tensor: Tensor) -> bool:
    """Whether a GEMM operand is a zero padding with no other use, which its LOADs carry out, so that none is stored."""
    stage = schedule.producer(tensor)
    if stage is None or tensor in schedule.outputs or stage.state.scope != DRAM:
        return False
    users = [read for each in schedule.consumers(tensor) for read in each.state.computation.reads]
    body = stage.state.computation.bodies[0]
    one = len(stage.state.computation.reads) == 1 and sum(read.tensor is tensor for read in users) == 1
    return one and isinstance(body, Select) and _keeps_zeros(body)


def _keeps_zeros(body: Expr) -> bool:
    if isinstance(body, Select):
        otherwise = body.otherwise
        return isinstance(otherwise, Const) and otherwise.value == 0 and _keeps_zeros(body.then)
    return isinstance(body, Read)


def _reads_zeros(
    stage: StageView, plan: LayoutAssignment, states: Mapping[Tensor, StageState], zeros: set[Tensor]
) -> bool:
    """Whether all operands have zeros in the pad lanes too, rather than broadcast values."""
    state = stage.state
    lanes = plan.layouts[state.tensor]
    if state.scope == PARAMETERS and lanes.rows is None:
        return False
    for access in state.computation.reads:
        read = elementwise_operand_layout(state.computation, access, lanes).cols
        if access.tensor in states:
            if access.tensor not in zeros:
                return False
        elif read is None:
            return False
        if read is not None and not ends_together(stage, access, lanes.cols, read):
            return False
    return True


def ends_with_sources(stage: StageView, lanes: VectorLayout) -> bool:
    """Whether a copy ends together with all its sources, so that its pad lanes are copies of theirs."""
    for access in stage.state.computation.reads:
        read = elementwise_operand_layout(stage.state.computation, access, lanes)
        for own, other in ((lanes.rows, read.rows), (lanes.cols, read.cols)):
            if own is not None and (other is None or not ends_together(stage, access, own, other)):
                return False
    return True


def ends_together(stage: StageView, access: ReadAccess, own: int | None, read: int) -> bool:
    """Whether a computed dimension ends where the dimension that it reads ends.

    If only a slice of a tensor is read, the pad lanes hold its next values instead.
    """
    computation, index = stage.state.computation, as_affine(access.indices[read])
    layout = stage.schedule.layouts.get(access.tensor)
    end = access.tensor.shape[read] if layout is None else layout.live_extent(read)
    if own is None or index is None or dict(index.coefficients) != {computation.axes[own]: 1}:
        return False
    return computation.axes[own].extent + index.const >= end


@lru_cache(maxsize=4096)
def _is_zero(body: Expr) -> bool:
    """Whether an expression is 0 if all that it reads is 0, whatever its conditions are."""
    if isinstance(body, Reduce):
        return _is_zero(body.body)

    def leaf(node: Expr) -> Expr | None:
        return Const(0, node.dtype) if isinstance(node, Read) else None

    bare = transform(body, leaf)
    if isinstance(bare, Select):
        return _is_zero(bare.then) and _is_zero(bare.otherwise)
    if any(isinstance(node, AxisRef | Select) for node in walk(bare)):
        return False
    return int(evaluate(bare, {})) == 0
