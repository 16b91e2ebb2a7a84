"""Tensors behind each other: each is stored where the joined tensor has it, and nothing is left to do for that.

Of ``joined[.., c] = select(c < 32, a[.., c], b[.., c - 32])`` the first columns are ``a``, element by element, and the
others ``b``: blocks of columns come first in an element's address, so that both lie in the joined tensor as they would
by themselves. The stage stays, with its reads and loops of its own, which hold the order; it emits no instruction.
"""

from lathe.frontend import Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.vector_type import whole_elements
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.fold_slices import has_layout
from lathe.scheduler.passes.lower_concat_to_gemm import parts_joined
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_left_open, is_padding


def elide_concat(schedule: Edit, target: Target) -> None:
    """Say of untouched stages, in place, which tensors are stored as parts of theirs."""
    taken: set[Tensor] = set()
    for stage in list(schedule.stages):
        begins = _begins(stage, target)
        if not begins or taken & {*begins} or not all(_may_be_part(schedule, tensor) for tensor in begins):
            continue
        plan, tensors = assign_layouts(schedule, target.config), (stage.tensor, *begins)
        products = [plan.products[reader.tensor] for each in tensors for reader in schedule.readers(each)]
        if any(each is not None and each.weight.tensor in tensors for each in products):
            continue  # elements of weights are made of several rows that adjoin
        if {plan.known[each] for each in tensors} == {VectorLayout(None, stage.tensor.ndim - 1)}:
            taken |= {*begins}
            stage.change(concat_of=tuple(begins.items()))


def _begins(stage: EditedStage, target: Target) -> dict[Tensor, int]:
    """Of each tensor that a stage joins along its last dimension, whole, where it begins; none if it does otherwise."""
    schedule, shape = stage.schedule, stage.tensor.shape
    if not is_unscheduled(stage) or not is_left_open(stage) or stage.tensor in schedule.outputs:
        return {}
    if has_layout(schedule, stage.tensor):
        return {}
    axes, parts = stage.state.computation.axes, parts_joined(stage)
    step, found = whole_elements(target.config), dict[Tensor, int]()
    for part in parts:
        tensor, first = part.read.tensor, min(part.moves, default=0)
        moves = {first + n: n for n in range(shape[-1] if tensor.ndim != len(shape) else tensor.shape[-1])}
        if part.dim != len(shape) - 1 or tensor.shape[:-1] != shape[:-1] or part.moves != moves or tensor in found:
            return {}
        others = zip(axes[:-1], part.read.indices[:-1], strict=True)
        if first % step or any(as_bare_axis(index) is not axis for axis, index in others):
            return {}
        found[tensor] = first
    readers = schedule.readers(stage.tensor)
    goes_on = len(readers) == 1 and not readers[0].state.computation.reduce_axes and not is_padding(readers[0])
    whole = sum(tensor.shape[-1] for tensor in found) == shape[-1]
    return found if len(found) > 1 and whole and readers and not goes_on else {}


def _may_be_part(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a computed tensor may be stored in another one."""
    maker = schedule.maker(tensor)
    if maker is None or len(maker.state.tensors) > 1 or tensor in schedule.outputs or maker.state.concat_of:
        return False
    return is_unscheduled(maker) and is_left_open(maker) and not has_layout(schedule, tensor)
