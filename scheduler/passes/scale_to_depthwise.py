"""Rewrite scales as depthwise GEMMs: element-wise multiplications become sums over an axis of extent 1.

``out[.., c] = data[.., c] * scale[c]`` of bytes, in int32, is then a GEMM that may have diagonal weights.
"""

from collections.abc import Iterator
from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.nodes import Binary, Reduce
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import StageState

ONCE = "once"
"""The name of the axis of extent 1 that the products are summed over."""


def as_sums(schedule: Edit) -> Iterator[tuple[EditedStage, StageState]]:
    """Unscheduled stages that multiply two tensors in DRAM element by element, each with its state as a sum.

    Not those with an operand that another stage could leave in acc for them alone, where the ALU reads it.
    """
    for stage in schedule.stages:
        computation = stage.state.computation
        if not is_unscheduled(stage) or computation.reduce_axes or len(computation.bodies) != 1:
            continue
        body = computation.bodies[0]
        if not isinstance(skip_value_preserving_casts(body), Binary):
            continue
        unit = Axis(ONCE, 1, 0, "reduce")
        total = replace(computation, reduce_axes=(unit,), bodies=(Reduce("sum", body, (unit,)),))
        if match_gemm_operands(total) is not None and all(
            _is_stored(schedule, read.tensor) for read in computation.reads
        ):
            yield stage, with_computation(total, stage.state.tensors)


def is_scale(computation: Computation) -> bool:
    """Whether a computation is such a sum."""
    return [axis.name for axis in computation.reduce_axes] == [ONCE]


def _is_stored(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a tensor is stored in DRAM anyway: it is an input or an output, or has several consumers."""
    single_consumer = schedule.producer(tensor) is not None and len(schedule.consumers(tensor)) == 1
    return schedule.scope_of(tensor) == DRAM and (not single_consumer or tensor in schedule.outputs)
