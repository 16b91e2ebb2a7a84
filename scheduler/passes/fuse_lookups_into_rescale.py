"""Fuse lookups into RESCALE: a lookup absorbs the rescale that it alone reads; any other lookup rescales by 1.

RESCALE is the only instruction that performs lookups, on its result. So a lookup of a value that is not rescaled first
rescales it by 1.
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
from lathe.scheduler.isel.select_rule import has_user_rule
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.rewriting.match_rescale import match_rescale, table_index
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target

NAME = "rescale.one"


def fuse_lookups_into_rescale(schedule: Edit, target: Target) -> None:
    """Index every lookup with a rescaled value, in place, on machines with lookup tables."""
    if LOOKUP not in target.config.extensions:
        return
    for stage in schedule.stages:
        value = _unscaled_index(stage)
        if value is None:
            continue
        producer = schedule.producer(value.tensor) if isinstance(value, Read) else None
        if isinstance(value, Read) and producer is not None and _is_fusable(schedule, producer, stage, value):
            axes = producer.state.computation.axes
            point: dict[Axis, Expr] = dict(zip(axes, value.indices, strict=True))
            _replace_index(stage, value, substitute(producer.state.computation.bodies[0], point))
            schedule.remove(producer)
        else:
            _replace_index(stage, value, _unit_rescale(schedule, value))


def is_rescaled(stage: StageView) -> bool:
    """Whether a stage is not a lookup, or one that is indexed by a rescaled value."""
    return _unscaled_index(stage) is None


def _unscaled_index(stage: StageView) -> Expr | None:
    """The index of a stage's lookup if it is not the result of a rescale, else None."""
    computation = stage.state.computation
    body = computation.bodies[0]
    if len(computation.bodies) > 1 or not isinstance(body, Read) or has_user_rule(stage.state):
        return None
    value = table_index(body)
    return value if value is not None and isinstance(value, Read) and match_rescale(body) is None else None


def _is_fusable(schedule: Edit, producer: EditedStage, stage: EditedStage, value: Read) -> bool:
    """Whether ``producer`` is a rescale whose only consumer is the lookup ``stage``, element by element."""
    state = producer.state
    if producer is stage or not is_unscheduled(producer) or has_user_rule(state) or schedule.attached(producer):
        return False
    if len(state.computation.bodies) > 1 or any(tensor in schedule.outputs for tensor in state.tensors):
        return False
    rescaling = match_rescale(state.computation.bodies[0])
    once = sum(read.tensor is value.tensor for read in stage.state.computation.reads) == 1
    axes = stage.state.computation.axes
    plain = len(axes) == len(value.indices) and all(
        as_bare_axis(index) is axis for index, axis in zip(value.indices, axes, strict=True)
    )
    alone = schedule.consumers(value.tensor) == [stage] and once and plain
    return alone and rescaling is not None and rescaling.table is None


def _replace_index(stage: EditedStage, value: Expr, replacement: Expr) -> None:
    """Replace the index of a lookup."""
    computation = stage.state.computation
    bodies = tuple(transform(body, lambda node: replacement if node is value else None) for body in computation.bodies)
    stage.change(computation=replace(computation, bodies=bodies))


def _unit_rescale(schedule: Edit, value: Expr) -> Expr:
    """An 8-bit value rescaled by 1."""
    constants = schedule.state.constants
    one = next((tensor for tensor in constants if tensor.name == NAME), None)
    if one is None:
        one = Tensor(NAME, (2,), "int32")
        schedule.update(constants={**constants, one: rescale_parameters(1.0)[0].astype(np.int32)})
    limits = DTYPES[value.dtype]
    total = (value.astype("int32") + one[0]).astype("int64") * (one[1] >> SHIFT_BITS).astype("int64")
    shifted = rounding_shift(total, (one[1] % (1 << SHIFT_BITS)).astype("int64"))
    return Cast(min(max(shifted, limits.minimum), limits.maximum), value.dtype)
