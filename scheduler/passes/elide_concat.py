"""Elide concatenation: producers store into the concatenated tensor directly, and the concat stage emits nothing.

In ``joined[.., c] = select(c < 32, a[.., c], b[.., c - 32])`` the first columns are ``a``, and the others ``b``. Blocks
of columns are outermost in a vector's address, so both are stored in the concatenated tensor as they would be by
themselves. The concat stage remains, with its reads and loops, to carry the dependences.
"""

from lathe.frontend import Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.vector_type import largest_block
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.fold_slices import has_layout
from lathe.scheduler.passes.lower_concat_to_gemm import concat_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_padding, is_unscheduled_stage


def elide_concat(schedule: Edit, target: Target) -> None:
    """Record in unscheduled concat stages (``concat_of``), in place, which tensors are stored as slices of theirs."""
    elided: set[Tensor] = set()
    for stage in list(schedule.stages):
        found = _offsets(stage, target)
        if not found or elided & {*found} or not all(_is_elidable(schedule, tensor) for tensor in found):
            continue
        plan, tensors = assign_layouts(schedule, target.config), (stage.tensor, *found)
        gemms = [plan.gemms[consumer.tensor] for each in tensors for consumer in schedule.consumers(each)]
        if any(each is not None and each.weight.tensor in tensors for each in gemms):
            continue  # a vector of weights consists of several contiguous rows
        if {plan.layouts[each] for each in tensors} == {VectorLayout(None, stage.tensor.ndim - 1)}:
            elided |= {*found}
            stage.change(concat_of=tuple(found.items()))


def _offsets(stage: EditedStage, target: Target) -> dict[Tensor, int]:
    """The offset of each tensor that a stage concatenates, whole, along its last dimension; {} if it does more."""
    schedule, shape = stage.schedule, stage.tensor.shape
    if not is_unscheduled(stage) or not is_unscheduled_stage(stage) or stage.tensor in schedule.outputs:
        return {}
    if has_layout(schedule, stage.tensor):
        return {}
    axes, operands = stage.state.computation.axes, concat_operands(stage)
    block, found = largest_block(target.config), dict[Tensor, int]()
    for part in operands:
        tensor, first = part.read.tensor, min(part.moves, default=0)
        moves = {first + n: n for n in range(shape[-1] if tensor.ndim != len(shape) else tensor.shape[-1])}
        if part.dim != len(shape) - 1 or tensor.shape[:-1] != shape[:-1] or part.moves != moves or tensor in found:
            return {}
        others = zip(axes[:-1], part.read.indices[:-1], strict=True)
        if first % block or any(as_bare_axis(index) is not axis for axis, index in others):
            return {}
        found[tensor] = first
    consumers = schedule.consumers(stage.tensor)
    fusable = len(consumers) == 1 and not consumers[0].state.computation.reduce_axes and not is_padding(consumers[0])
    whole = len(found) > 1 and sum(tensor.shape[-1] for tensor in found) == shape[-1]
    return found if whole and consumers and not fusable else {}


def _is_elidable(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a computed tensor may be stored as a slice of another one."""
    producer = schedule.producer(tensor)
    if producer is None or len(producer.state.tensors) > 1 or tensor in schedule.outputs or producer.state.concat_of:
        return False
    return is_unscheduled(producer) and is_unscheduled_stage(producer) and not has_layout(schedule, tensor)
