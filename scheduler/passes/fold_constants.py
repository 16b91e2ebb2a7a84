"""Fold constants: evaluate operations on constants alone, remove identities such as ``x + 0`` and ``max(x, -128)``."""

from dataclasses import replace

from lathe.scheduler.isel.select_rule import has_user_rule
from lathe.scheduler.rewriting.constant_folding import fold_expr
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target


def fold_constants(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Fold the bodies of stages, in place, except those with a user rule, which may match unfolded operations."""
    for stage in schedule.stages:
        computation = stage.state.computation
        if has_user_rule(stage.state):
            continue
        bodies = tuple(map(fold_expr, computation.bodies))
        if any(new is not old for new, old in zip(bodies, computation.bodies, strict=True)):
            stage.change(computation=replace(computation, bodies=bodies))


def is_folded(stage: StageView) -> bool:
    """Whether no foldable operation is left."""
    state = stage.state
    return has_user_rule(state) or all(fold_expr(each) is each for each in state.computation.bodies)
