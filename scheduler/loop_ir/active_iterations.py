"""Which iterations of a stage's loops are carried out: those in which the stage, or what is computed there, has work.

A condition on a domain (or on loops) that fails for a whole iteration leaves it out, with all other stages that are
computed in it. The loop nest is built so, and legality must not count on what such an iteration would have made.
"""

from collections.abc import Collection

import islpy as isl

from lathe.frontend.arith.linear import Bound, FloorDivision, Linear, LoopVariable, bound_range, bound_variables
from lathe.scheduler.loop_ir.bounds_inference import eliminate
from lathe.scheduler.loop_ir.instances import InstanceSpace
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.loop_ir.warmup_stages import fills
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import same_place


def conditions_at(
    placement: StageRegion, level: int, constraints: list[Bound], together: Collection[LoopVariable]
) -> list[Bound]:
    """What must be >= 0 for an iteration of a stage's loop ``level`` to be carried out, as far as that loop decides it.

    ``constraints`` are those of the stage's instances. A condition on the domain that inner loops take part in leaves
    an iteration out if it holds for none of theirs. Loops that others share go on where this stage has come to its end.
    """
    variables = placement.loops.variables
    if set(variables[level:]) & set(together):
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


def innermost_shared(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> set[LoopVariable]:
    """The innermost loops of those that stages run together, as far as the stages that have them are placed."""
    found: set[LoopVariable] = set()
    for stage in schedule.stages:
        place = stage.state.attachment
        if place is not None and place.loops and schedule.at(place) in placed:
            host = placed[schedule.at(place)]
            found.add(max(host.loops.of_leaf[place.axis], key=[*host.prefix, *host.loops.variables].index))
    return found


def carried_out(placement: StageRegion, placed: dict[StageView, StageRegion]) -> isl.Set | None:
    """The iterations of the loops around a stage that are carried out; None for all of them."""
    together = innermost_shared(placement.stage.schedule, placed)
    bounds: list[Bound] = []
    pieces: list[list[list[Bound]]] = []
    guest, attachment = placement, placement.state.attachment
    while attachment is not None:
        host = placed[placement.stage.schedule.at(attachment)]
        constraints, variables = host.certain_constraints(), host.loops.variables
        depth = sum(variable in guest.prefix for variable in variables)
        for level in range(depth):
            found = conditions_at(host, level, constraints, together)
            if level == depth - 1 and _fills_there(guest, variables[level]):
                found = [each for each in found if not may_grow(each, variables[level])]
            bounds += found
        if host.pieces is not None:
            visible = set(placement.prefix)
            own = [[each for each in piece if each.variables() <= visible] for piece in host.pieces]
            pieces.append([list(piece) for piece in own])
        guest, attachment = host, host.state.attachment
    if not bounds and not pieces:
        return None
    space = InstanceSpace(placement.prefix, "instance")
    points = space.box(placement.box)
    for bound in bounds:
        points = space.not_negative(bound, points)
    for choices in pieces:
        some = isl.Set.empty(space.space)
        for piece in choices:
            part = points
            for condition in piece:
                part = space.not_negative(condition, part)
            some = some.union(part)
        points = some
    return points


def _fills_there(guest: StageRegion, variable: LoopVariable) -> bool:
    """Whether a stage is carried out in iterations of a loop in which nothing is, but that reuse buffers fill."""
    schedule = guest.stage.schedule
    kept = [
        each
        for each in schedule.stages
        if each.state.reuse and same_place(each.state.attachment, guest.state.attachment)
    ]
    return guest.prefix[-1] is variable and bool(kept) and fills(schedule, guest.stage)
