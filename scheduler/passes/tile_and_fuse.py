"""Groups of stages that no command has touched: the stored one is tiled, the others are computed in its tile loops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lathe.configs import LatheError
from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.errors import BuildError, CapacityError
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.passes.insert_cache_reads import load_inside, operands_of
from lathe.scheduler.passes.load_residual_via_gemm import is_brought
from lathe.scheduler.primitives.stage_through_acc import keep_loops, write_through_acc
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.derating import ALL_THERE_IS
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import SubSchedule
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState
from lathe.scheduler.target.derated_target import behind_memory, elements_spared
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.apply import apply_tiling
from lathe.scheduler.tiling.fusion_groups import FusionGroup, cut_apart, groups_of
from lathe.scheduler.tiling.problem import LoadedOperand, Tiling, TilingProblem
from lathe.scheduler.tiling.search import choose_tiling

CUT = 0.98
"""The part of a group's cost that its parts may take to be cut: between them stores and first loads are waited for."""
TilingCallback: TypeAlias = Callable[[TilingProblem], None]
"""Who looks at the problem of a group's tiles before they are chosen."""


@dataclass(frozen=True)
class TileAndFuse:
    """Completes group after group; ``refused`` gets the stages of those that cannot be, which are left open then.

    ``looker`` is shown the problem of each group's tiles before these are chosen.
    """

    refused: dict[StageId, LatheError] | None = None
    looker: TilingCallback | None = None

    def __call__(self, schedule: Edit, target: Target) -> None:
        for group in groups_of(schedule, target):
            try:
                _complete(schedule, group, target, self.looker)
            except LatheError as error:
                if self.refused is None:
                    raise
                self.refused.update((stage.id, error) for stage in (*group.pads, *group.inner, group.sink))


def _complete(schedule: Edit, group: FusionGroup, target: Target, looker: TilingCallback | None) -> float:
    """Complete a group, or the parts of it: one of its stages is stored and loaded again. The estimated cycles.

    It is cut where it has no tile that fits, and between its products where the parts are estimated to be quicker: a
    tile of several products has operands of all of them in the scratchpads, and is small where these are. Where one
    cut is better than none, the best one is made, and its parts are looked at in turn.
    """
    before = schedule.state
    try:
        with schedule.transaction():
            cost = _complete_group(schedule, group, target, looker)
    except CapacityError as refusal:
        return _complete_where_it_fits(schedule, group, target, looker, refusal)
    best, limit, place = schedule.state, cost * CUT, None
    for stage in _cuts(schedule, group, target):
        schedule.reset_to(before)
        try:
            parts = sum(_complete_group(schedule, part, target, looker) for part in cut_apart(schedule, group, stage))
        except LatheError:
            continue
        if parts < limit:
            cost = limit = parts
            best, place = schedule.state, stage
    schedule.reset_to(before)
    if place is not None and any(_cuts(schedule, part, target) for part in group.cut(place)):
        return sum(_complete(schedule, part, target, looker) for part in cut_apart(schedule, group, place))
    schedule.reset_to(best)
    return cost


def _complete_where_it_fits(
    schedule: Edit, group: FusionGroup, target: Target, looker: TilingCallback | None, refusal: CapacityError
) -> float:
    """Complete the parts of a group that has no tile which fits, cut at the first stage where they do."""
    before = schedule.state
    for stage in _all_cuts(group):
        schedule.reset_to(before)
        try:
            return sum(_complete(schedule, part, target, looker) for part in cut_apart(schedule, group, stage))
        except LatheError:
            continue
    schedule.reset_to(before)
    raise refusal from None


def _all_cuts(group: FusionGroup) -> list[EditedStage]:
    """Where a group may be cut: what stores bytes rather than wider values, and of these the last that is computed."""
    in_bytes = [each for each in group.inner if each.tensor.dtype in ("int8", "uint8")]
    return [*reversed(in_bytes), *(each for each in reversed(group.inner) if each not in in_bytes)]


def _cuts(schedule: Edit, group: FusionGroup, target: Target) -> list[EditedStage]:
    """Stages of bytes that parts with a product each can be cut at; products that bring an operand belong to others."""
    possible = [each for each in (*group.inner, group.sink) if match_gemm_operands(each.state.computation) is not None]
    if len(possible) < 2:
        return []
    products = assign_layouts(schedule, target.config).products
    made = [each for each in possible if products[each.tensor] is not None and not is_brought(each)]
    if len(made) < 2:
        return []
    found = []
    for stage in _all_cuts(group):
        *_, first, rest = group.cut(stage)
        both = all(any(each in made for each in (*part.inner, part.sink)) for part in (first, rest))
        if stage.tensor.dtype in ("int8", "uint8") and both:
            found.append(stage)
    return found


def _complete_group(schedule: Edit, group: FusionGroup, target: Target, looker: TilingCallback | None) -> float:
    """Scopes, caches, tiles and places of one group; the estimated cycles."""
    if len(group.sink.state.tensors) > 1:
        names = ", ".join(tensor.name for tensor in group.sink.state.tensors)
        raise BuildError(
            f"loops of stage {group.sink.name} must be left as they were made, since it has several outputs ({names}), "
            "which the machine computes one after the other. Give each a computation of its own to schedule its loops.",
            kind="limit",
        )
    given = group.sink.state
    guests = schedule.attached(group.sink)
    sink, writer = write_through_acc(schedule, group.sink)
    least_depth = max(_follow_loops(given, sink, writer, guests), keep_loops(given, sink, writer))
    computing = [*group.inner, writer]
    for stage in computing:
        stage.change(scope=target.near.name)
    operands: list[LoadedOperand] = []
    products = assign_layouts(schedule, target.config).products
    for stage in computing:
        product = products[stage.tensor]
        operands = operands_of(schedule, target, stage, product, group, computing, operands)
    loops_given = given.is_touched or bool(guests)
    problem = TilingProblem(
        schedule, target, sink, computing, operands, tuple(given.leaves), loops_given, least_depth=least_depth
    )
    if looker is not None:
        looker(problem)
    cost = _tile(problem, guests)
    load_inside(schedule, operands)
    return cost


def _follow_loops(given: StageState, sink: EditedStage, writer: EditedStage, guests: Sequence[EditedStage]) -> int:
    """Keep stages that were placed in a stage's loops there, now that these are shared by a copy and its writer.

    Those in data loops stay with the copy, those in reduction loops go to the writer, whose loops up to there come
    outermost. Returns how many loops of the copy the writer must be inside of.
    """
    depth = 0
    for guest in guests:
        place = guest.state.attachment
        assert place is not None
        if place.axis.kind == "data":
            depth = max(depth, sink.state.leaves.index(place.axis) + 1)
            continue
        leaves = writer.state.leaves
        axis = next(leaf for leaf in leaves if leaf is place.axis or _same_root(leaf, place.axis))
        reduce_leaves = [leaf for leaf in leaves if leaf.kind == "reduce"]
        outermost = reduce_leaves[: reduce_leaves.index(axis) + 1]
        ordered = (*outermost, *(leaf for leaf in leaves if leaf not in outermost))
        writer.change(leaves=ordered)
        guest.change(attachment=ComputeAt(writer.id, axis))
        before = given.leaves[: given.leaves.index(place.axis)]
        depth = max(depth, sum(leaf.kind == "data" for leaf in before))
    return depth


def _same_root(leaf: LoopAxis, other: LoopAxis) -> bool:
    return leaf.source is not None and leaf.source is other.source


def with_less(problem: TilingProblem) -> TilingProblem:
    """The same on the machine that tiles are chosen for, which may have less than the one that runs them."""
    less = problem.schedule.state.derating
    if less == ALL_THERE_IS:
        return problem
    target = Target(behind_memory(problem.target.config, less))
    spare = {name: count + problem.spare.get(name, 0) for name, count in elements_spared(target, less).items()}
    return replace(problem, target=target, spare=spare)


def _chosen(problem: TilingProblem) -> Tiling:
    """The cheapest tiling with less, or, if none fits there, with all there is."""
    smaller = with_less(problem)
    try:
        return choose_tiling(smaller)
    except CapacityError:
        if smaller is problem:
            raise
        return choose_tiling(problem)


def _tile(problem: TilingProblem, guests: Sequence[EditedStage]) -> float:
    """The cheapest tiling whose buffers do fit: the estimate counts the largest, the allocator what lives together."""
    moved = {problem.sink, *problem.computing, *guests, *(operand.stage for operand in problem.operands)}
    for stage in reversed(problem.schedule.stages):  # and what is computed in their loops: hosts come behind it
        if stage.state.attachment is not None and stage.host in moved:
            moved.add(stage)
    config = problem.target.config
    lanes = assign_layouts(problem.schedule, config).known
    refusal: CapacityError | None = None
    before = {stage: stage.state for stage in moved}
    while True:
        try:
            apply_tiling(problem, tiling := _chosen(problem))
        except CapacityError:
            if refusal is not None:
                raise refusal from None
            raise
        part = SubSchedule(problem.schedule, [stage for stage in problem.schedule.stages if stage in moved])
        physical = {stage: physical_of(stage, lanes, config) for stage in part.stages}
        try:
            blocks = build_nest(part, largest_blocks=True)
            buffers_of(part, config, blocks, physical, find_aliases(part, config))
        except CapacityError as error:
            refusal = error
            problem.spare[error.scope] = problem.spare.get(error.scope, 0) + error.excess
            for stage, state in before.items():
                stage.put(state)
        else:
            return tiling.cost
