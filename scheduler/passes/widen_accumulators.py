"""Widen accumulators: promote sum and product reductions in narrow dtypes to int32, which acc holds."""

from dataclasses import replace

from lathe.frontend import Computation, Tensor
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.nodes import AxisRef, Cast, Read, Reduce
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.constant_folding import fold_expr
from lathe.scheduler.rewriting.rewrite import with_new_axes
from lathe.scheduler.schedule_ir.edit import Edit, fresh_name
from lathe.scheduler.schedule_ir.stage import StageState, initial_state
from lathe.scheduler.target.target import Target


def widen_accumulators(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Replace, in place, a narrow reduction by one in int32 and a narrowing cast, which wraps to the same value."""
    for stage in [each for each in schedule.stages if is_unscheduled(each)]:
        computation = stage.state.computation
        body = computation.bodies[0]
        if not isinstance(body, Reduce) or body.kind not in ("sum", "prod") or DTYPES[body.dtype].bits >= 32:
            continue
        wide = Reduce(body.kind, fold_expr(Cast(body.body, "int32")), body.axes)
        name = fresh_name(schedule, f"{computation.name}.sum")
        total = with_new_axes(
            Computation(name, computation.axes, computation.reduce_axes, (wide,), computation.attrs), name
        )
        axes = computation.axes
        value = Cast(Read(total.outputs[0], tuple(AxisRef(axis) for axis in axes)), body.dtype)
        schedule.insert(initial_state(total), before=stage)
        stage.put(with_computation(Computation(computation.name, axes, (), (value,)), stage.state.tensors))


def with_computation(computation: Computation, tensors: tuple[Tensor, ...]) -> StageState:
    """The initial state of an unscheduled stage that computes ``tensors`` by ``computation``."""
    return replace(initial_state(computation), tensors=tensors)
