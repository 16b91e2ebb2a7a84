"""Propagate a GEMM's vector layout back to inputs: ALU stages compute in that layout, so that no conversion is needed.

Stages other than GEMMs, such as an addition of images or a maximum over windows, compute lane by lane, so any layout
will do if all operands have it. Where a tensor depends only on inputs of the program, which the host packs, the inputs
and all stages up to the tensor get the layout that its consumers load (``VectorLayout.turns``).
"""

from collections.abc import Collection
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor, walk
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Select, axes_of
from lathe.scheduler.cost.stage_cost import cycles_per_vector
from lathe.scheduler.layout.layout_assignment import LayoutAssignment
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.vector_relayout import conversions_needed
from lathe.scheduler.layout.vector_type import VectorType, vector_type_of
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.stage import VectorLayout

CONVERSION_CYCLES = 2
"""Lower bound on the cycles of a layout conversion for a vector of the narrower columns: a GEMM and a reset."""


def stages_to_relayout(
    schedule: Edit, config: HardwareConfig, plan: LayoutAssignment, tensor: Tensor, loaders: Collection[EditedStage]
) -> list[EditedStage]:
    """The ALU stages that compute a tensor from inputs alone; [] if others fix the layout, or conversions are cheaper.

    ``loaders``: the stages that load it as GEMM data.
    """
    producer = schedule.producer(tensor)
    stages: list[EditedStage] = []
    waiting = [] if producer is None else [producer]
    while waiting:
        stage = waiting.pop()
        if stage in stages:
            continue
        if not _is_lane_wise(schedule, config, plan, stage):
            return []
        stages.append(stage)
        producers = (schedule.producer(read.tensor) for read in stage.state.computation.reads)
        consumers = (each for each in schedule.consumers(stage.tensor) if each not in loaders)
        waiting += [each for each in (*producers, *consumers) if each is not None]
    acc = vector_type_of(config, ACC)
    extra = sum(
        _extra_vectors(stage, plan, acc) * cycles_per_vector(stage.state.computation, config) for stage in stages
    )
    conversions = _vectors(tensor, plan.layouts[tensor], acc.cols, acc) * conversions_needed(config) * CONVERSION_CYCLES
    return stages if extra <= conversions else []


def _is_lane_wise(schedule: Edit, config: HardwareConfig, plan: LayoutAssignment, stage: EditedStage) -> bool:
    """Whether a stage computes each lane from the same lane of its operands, in a layout that nothing else fixes."""
    computation, lanes = stage.state.computation, plan.layouts[stage.tensor]
    if plan.gemms[stage.tensor] is not None or not is_unscheduled(stage) or len(stage.state.tensors) > 1:
        return False
    if schedule.has_recurrences and any(stage in group for group in recurrence_groups(schedule)):
        return False
    if lanes.cols is None or lanes.conversions is not None or own_operands(computation, config):
        return False
    if computation.reduce_axes and match_gemm_operands(computation) is not None:
        return False  # it would be mistaken for a conversion
    lane_axes = {computation.axes[dim] for dim in lanes.dims}
    for read in computation.reads:
        if len(read.indices) != stage.tensor.ndim:
            return False
        for dim, index in enumerate(read.indices):
            if dim in lanes.dims:
                same_extent = read.tensor.shape[dim] == stage.tensor.shape[dim]
                if not same_extent or as_bare_axis(index) is not computation.axes[dim]:
                    return False
            elif lane_axes & set(axes_of(index)):
                return False
    conditions = (node.condition for body in computation.bodies for node in walk(body) if isinstance(node, Select))
    return not any(lane_axes & set(axes_of(each)) for each in conditions)


def _extra_vectors(stage: EditedStage, plan: LayoutAssignment, acc: VectorType) -> int:
    """The extra vectors that a tensor has when it is stored in whole spans of columns."""
    lanes = plan.layouts[stage.tensor]
    spans = _vectors(stage.tensor, lanes, acc.span, acc) * (acc.span // acc.cols)
    return spans - _vectors(stage.tensor, lanes, acc.cols, acc)


def _vectors(tensor: Tensor, lanes: VectorLayout, cols: int, acc: VectorType) -> int:
    sizes = {lanes.rows: acc.rows, lanes.cols: cols}
    return prod(-(-extent // sizes.get(dim, 1)) for dim, extent in enumerate(tensor.shape))
