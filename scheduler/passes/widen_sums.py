"""Sums in narrow dtypes become sums in int32, which accumulators hold."""

from dataclasses import replace

from lathe.frontend import Computation, Tensor
from lathe.frontend.dtypes import DTYPES
from lathe.frontend.nodes import AxisRef, Cast, Read, Reduce
from lathe.scheduler.algorithm.folding import folded
from lathe.scheduler.algorithm.rewrite import renamed_axes
from lathe.scheduler.passes.merge_reshapes import is_untouched
from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.stage import StageState, initial_state
from lathe.scheduler.target.target import Target


def widen_sums(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """A sum in a narrow dtype becomes a sum in int32 and a conversion, which wraps around to the same."""
    for stage in [each for each in schedule.stages if is_untouched(each)]:
        computation = stage.state.computation
        body = computation.bodies[0]
        if not isinstance(body, Reduce) or body.kind not in ("sum", "prod") or DTYPES[body.dtype].bits >= 32:
            continue
        wide = Reduce(body.kind, folded(Cast(body.body, "int32")), body.axes)
        name = fresh_name(schedule, f"{computation.name}.sum")
        total = renamed_axes(
            Computation(name, computation.axes, computation.reduce_axes, (wide,), computation.attrs), name
        )
        axes = computation.axes
        value = Cast(Read(total.outputs[0], tuple(AxisRef(axis) for axis in axes)), body.dtype)
        schedule.insert(initial_state(total), before=stage)
        stage.put(restated(Computation(computation.name, axes, (), (value,)), stage.state.tensors))


def restated(computation: Computation, tensors: tuple[Tensor, ...]) -> StageState:
    """The state of an untouched stage that computes tensors by another computation."""
    return replace(initial_state(computation), tensors=tensors)
