"""Active iterations: those iterations of a stage's loops that are executed, since the stage may have work in them.

An iteration is skipped, with all stages computed in it, where a condition on a domain (or on loops) fails for all of
it. The loop nest is built so, and legality must not rely on values that a skipped iteration would have computed.
"""

from collections.abc import Collection

import islpy as isl

from lathe.frontend.arith.linear import Bound, FloorDivision, Linear, LoopVariable, bound_range, bound_variables
from lathe.scheduler.loop_ir.bounds_inference import eliminate
from lathe.scheduler.loop_ir.instances import InstanceSpace
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.loop_ir.warmup_stages import runs_in_warmup
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import same_loop


def conditions_at(
    placement: StageRegion, level: int, constraints: list[Bound], fused: Collection[LoopVariable]
) -> list[Bound]:
    """The bounds that must be >= 0 for an iteration of a stage's loop ``level`` to run, as far as this loop decides it.

    ``constraints`` are those of the stage's instances. A domain condition that involves inner loops skips an iteration
    if it fails for all of theirs. Fused loops are not skipped: they continue after this stage's last iteration.
    """
    variables = placement.loops.variables
    if set(variables[level:]) & set(fused):
        return []
    variable, deeper = variables[level], set(variables[level + 1 :])
    mine = [each for each in constraints if variable in bound_variables(each)]
    found = [each for each in mine if not bound_variables(each) & deeper]
    visible = {*placement.prefix, *variables[: level + 1]}
    for each in placement.domain_bounds():
        if each in mine and each not in found:
            best = eliminate(each, visible, placement.box, "high")
            if variable in bound_variables(best) and bound_range(best, placement.box)[0] < 0:
                found.append(best)
    return found


def may_grow(bound: Bound, variable: LoopVariable) -> bool:
    """Whether a bound may be negative in early iterations of a loop and not in later ones."""
    if isinstance(bound, Linear):
        divided = [atom for atom in bound.terms if isinstance(atom, FloorDivision)]
        return bound.terms.get(variable, 0) > 0 or any(variable in atom.numerator.variables() for atom in divided)
    return any(may_grow(inner, variable) for inner in bound.bounds)


def innermost_fused(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> set[LoopVariable]:
    """The innermost of the fused loops of each fused stage, for those whose enclosing stages are placed."""
    found: set[LoopVariable] = set()
    for stage in schedule.stages:
        location = stage.state.attachment
        if location is not None and location.loops and schedule.at(location) in placed:
            anchor = placed[schedule.at(location)]
            found.add(max(anchor.loops.of_leaf[location.axis], key=[*anchor.prefix, *anchor.loops.variables].index))
    return found


def executed_iterations(placement: StageRegion, placed: dict[StageView, StageRegion]) -> isl.Set | None:
    """The iterations of the loops around a stage that are executed; None for all of them."""
    fused = innermost_fused(placement.stage.schedule, placed)
    bounds: list[Bound] = []
    pieces: list[list[list[Bound]]] = []
    inner, attachment = placement, placement.state.attachment
    while attachment is not None:
        anchor = placed[placement.stage.schedule.at(attachment)]
        constraints, variables = anchor.certain_constraints(), anchor.loops.variables
        depth = sum(variable in inner.prefix for variable in variables)
        for level in range(depth):
            conditions = conditions_at(anchor, level, constraints, fused)
            if level == depth - 1 and _runs_in_warmup_of(inner, variables[level]):
                conditions = [each for each in conditions if not may_grow(each, variables[level])]
            bounds += conditions
        if anchor.pieces is not None:
            visible = set(placement.prefix)
            own = [[each for each in piece if each.variables() <= visible] for piece in anchor.pieces]
            pieces.append([list(piece) for piece in own])
        inner, attachment = anchor, anchor.state.attachment
    if not bounds and not pieces:
        return None
    space = InstanceSpace(placement.prefix, "instance")
    points = space.box(placement.box)
    for bound in bounds:
        points = space.not_negative(bound, points)
    for choices in pieces:
        union = isl.Set.empty(space.space)
        for piece in choices:
            subset = points
            for condition in piece:
                subset = space.not_negative(condition, subset)
            union = union.union(subset)
        points = union
    return points


def _runs_in_warmup_of(inner: StageRegion, variable: LoopVariable) -> bool:
    """Whether a stage also runs in those iterations of a loop that only fill reuse buffers (warm-up)."""
    schedule = inner.stage.schedule
    reused = [
        each
        for each in schedule.stages
        if each.state.reuse and same_loop(each.state.attachment, inner.state.attachment)
    ]
    return inner.prefix[-1] is variable and bool(reused) and runs_in_warmup(schedule, inner.stage)
