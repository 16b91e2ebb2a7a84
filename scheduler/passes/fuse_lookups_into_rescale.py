"""Look-ups where RESCALE makes them: of what a rescaling before it gives, or of values that it leaves as they are.

The machine looks a result up as it is rescaled. So a rescaling that only one look-up reads becomes part of it, and
what is looked up otherwise is rescaled by 1.
"""

from dataclasses import replace

import numpy as np

from lathe.configs.encoding import LOOKUP
from lathe.frontend import Tensor, substitute
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.arithmetic import max, min, rounding_shift
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Cast, Read
from lathe.frontend.tensor.rescale_parameters import SHIFT_BITS, rescale_parameters
from lathe.scheduler.isel.select_rule import has_own_rule
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.match_rescale import rescaling_in, table_index
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.target.target import Target

NAME = "rescale.one"


def fuse_lookups_into_rescale(schedule: Edit, target: Target) -> None:
    """Let look-ups be of rescaled values, on machines that have tables."""
    if LOOKUP not in target.config.extensions:
        return
    for stage in schedule.stages:
        value = _unscaled(stage)
        if value is None:
            continue
        maker = schedule.maker(value.tensor) if isinstance(value, Read) else None
        if isinstance(value, Read) and maker is not None and _joins(schedule, maker, stage, value):
            axes = maker.state.computation.axes
            point: dict[Axis, Expr] = dict(zip(axes, value.indices, strict=True))
            _put(stage, value, substitute(maker.state.computation.bodies[0], point))
            schedule.remove(maker)
        else:
            _put(stage, value, _by_one(schedule, value))


def is_rescaled(stage: StageView) -> bool:
    """Whether a stage is no look-up, or one of a rescaled value."""
    return _unscaled(stage) is None


def _unscaled(stage: StageView) -> Expr | None:
    """What a stage looks up, if that is not rescaled."""
    computation = stage.state.computation
    body = computation.bodies[0]
    if len(computation.bodies) > 1 or not isinstance(body, Read) or has_own_rule(stage.state):
        return None
    value = table_index(body)
    return value if value is not None and isinstance(value, Read) and rescaling_in(body) is None else None


def _joins(schedule: Edit, maker: EditedStage, stage: EditedStage, value: Read) -> bool:
    """Whether a stage is a rescaling that goes into the only look-up that reads it, in the same places."""
    state = maker.state
    if maker is stage or not is_unscheduled(maker) or has_own_rule(state) or schedule.attached(maker):
        return False
    if len(state.computation.bodies) > 1 or any(tensor in schedule.outputs for tensor in state.tensors):
        return False
    rescaling = rescaling_in(state.computation.bodies[0])
    once = sum(read.tensor is value.tensor for read in stage.state.computation.reads) == 1
    axes = stage.state.computation.axes
    plain = len(axes) == len(value.indices) and all(
        as_bare_axis(index) is axis for index, axis in zip(value.indices, axes, strict=True)
    )
    alone = schedule.readers(value.tensor) == [stage] and once and plain
    return alone and rescaling is not None and rescaling.table is None


def _put(stage: EditedStage, value: Expr, other: Expr) -> None:
    """Look another value up."""
    computation = stage.state.computation
    bodies = tuple(transform(body, lambda node: other if node is value else None) for body in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))


def _by_one(schedule: Edit, value: Expr) -> Expr:
    """A value of 8 bits times 1, as a rescaling."""
    constants = schedule.state.constants
    one = next((tensor for tensor in constants if tensor.name == NAME), None)
    if one is None:
        one = Tensor(NAME, (2,), "int32")
        schedule.update(constants={**constants, one: rescale_parameters(1.0)[0].astype(np.int32)})
    limits = DTYPES[value.dtype]
    total = (value.astype("int32") + one[0]).astype("int64") * (one[1] >> SHIFT_BITS).astype("int64")
    shifted = rounding_shift(total, (one[1] % (1 << SHIFT_BITS)).astype("int64"))
    return Cast(min(max(shifted, limits.minimum), limits.maximum), value.dtype)
