"""Stages of the ALU that make elements in the order in which products load them, so that nothing has to be turned.

What no product makes, such as an addition of two images or the maximum over windows, is computed value by value: every
lane by itself. Whatever lies in a lane may lie there, as long as all operands have it in the same. So where inputs of
the program, which the host packs, are all that leads to a tensor, these lie in the order that is wanted
(``VectorLayout.turns``), and so do all stages up to the tensor.
"""

from collections.abc import Collection
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor, walk
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Select, axes_of
from lathe.scheduler.cost.stage_cost import element_steps
from lathe.scheduler.layout.layout_assignment import LayoutAssignment
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.vector_relayout import conversions_needed
from lathe.scheduler.layout.vector_type import VectorType, element_of
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.stage import VectorLayout

STEPS = 2
"""Steps of a turn for an element of the narrower columns, at least: a product and a reset."""


def stages_to_order(
    schedule: Edit, config: HardwareConfig, plan: LayoutAssignment, tensor: Tensor, loaders: Collection[EditedStage]
) -> list[EditedStage]:
    """The stages that make a tensor by the ALU from inputs alone; none where others have a say, or turns are cheaper.

    ``loaders`` load it as elements of a product's data.
    """
    maker = schedule.maker(tensor)
    found: list[EditedStage] = []
    waiting = [] if maker is None else [maker]
    while waiting:
        stage = waiting.pop()
        if stage in found:
            continue
        if not _is_free(schedule, config, plan, stage):
            return []
        found.append(stage)
        makers = (schedule.maker(read.tensor) for read in stage.state.computation.reads)
        readers = (each for each in schedule.readers(stage.tensor) if each not in loaders)
        waiting += [each for each in (*makers, *readers) if each is not None]
    near = element_of(config, ACC)
    more = sum(_more_elements(stage, plan, near) * element_steps(stage.state.computation, config) for stage in found)
    turned = _elements(tensor, plan.known[tensor], near.cols, near) * conversions_needed(config) * STEPS
    return found if more <= turned else []


def _is_free(schedule: Edit, config: HardwareConfig, plan: LayoutAssignment, stage: EditedStage) -> bool:
    """Whether a stage computes lane by lane what lies in the same lanes of all that it reads."""
    computation, lanes = stage.state.computation, plan.known[stage.tensor]
    if plan.products[stage.tensor] is not None or not is_unscheduled(stage) or len(stage.state.tensors) > 1:
        return False
    if schedule.has_recurrences and any(stage in circle for circle in recurrence_groups(schedule)):
        return False
    if lanes.cols is None or lanes.turns is not None or own_operands(computation, config):
        return False
    if computation.reduce_axes and match_gemm_operands(computation) is not None:
        return False  # it would be taken for a turn
    along = {computation.axes[dim] for dim in lanes.dims}
    for read in computation.reads:
        if len(read.indices) != stage.tensor.ndim:
            return False
        for dim, index in enumerate(read.indices):
            if dim in lanes.dims:
                alike = read.tensor.shape[dim] == stage.tensor.shape[dim]
                if not alike or as_bare_axis(index) is not computation.axes[dim]:
                    return False
            elif along & set(axes_of(index)):
                return False
    conditions = (node.condition for body in computation.bodies for node in walk(body) if isinstance(node, Select))
    return not any(along & set(axes_of(each)) for each in conditions)


def _more_elements(stage: EditedStage, plan: LayoutAssignment, near: VectorType) -> int:
    """Elements that a tensor has more where it lies in whole spans of columns."""
    lanes = plan.known[stage.tensor]
    spans = _elements(stage.tensor, lanes, near.span, near) * (near.span // near.cols)
    return spans - _elements(stage.tensor, lanes, near.cols, near)


def _elements(tensor: Tensor, lanes: VectorLayout, cols: int, near: VectorType) -> int:
    sizes = {lanes.rows: near.rows, lanes.cols: cols}
    return prod(-(-extent // sizes.get(dim, 1)) for dim, extent in enumerate(tensor.shape))
