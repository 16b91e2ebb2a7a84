"""Tile and fuse unscheduled stages: tile the stored stage of a fusion group, compute the others in its tile loops."""

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
from lathe.scheduler.passes.insert_cache_reads import operands_of, sink_loads
from lathe.scheduler.passes.load_residual_via_gemm import is_identity_gemm
from lathe.scheduler.primitives.stage_through_acc import distribute_sync, stage_through_acc
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.derating import NO_DERATING
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import SubSchedule
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState
from lathe.scheduler.target.target import Target, with_derated_memory, withheld_vectors
from lathe.scheduler.tiling.apply import apply_tiling
from lathe.scheduler.tiling.fusion_groups import FusionGroup, groups_of, split_group
from lathe.scheduler.tiling.problem import LoadedOperand, Tiling, TilingProblem
from lathe.scheduler.tiling.search import choose_tiling

CUT_GAIN = 0.98
"""A group is cut only below this fraction of its cost: at the cut, stages wait for stores and first loads."""
TilingCallback: TypeAlias = Callable[[TilingProblem], None]
"""Called with the tiling problem of a group before its tiles are chosen."""


@dataclass(frozen=True)
class TileAndFuse:
    """The pass: tiles one fusion group after the other.

    ``refused`` collects the stages of groups that cannot be tiled, instead of raising the error; ``callback`` is called
    with the tiling problem of each group before its tiles are chosen.
    """

    refused: dict[StageId, LatheError] | None = None
    callback: TilingCallback | None = None

    def __call__(self, schedule: Edit, target: Target) -> None:
        for group in groups_of(schedule, target):
            try:
                _tile_group(schedule, group, target, self.callback)
            except LatheError as error:
                if self.refused is None:
                    raise
                self.refused.update((stage.id, error) for stage in (*group.pads, *group.inner, group.sink))


def _tile_group(schedule: Edit, group: FusionGroup, target: Target, looker: TilingCallback | None) -> float:
    """Tile a group, whole or cut at stages that are stored and loaded again; returns the estimated cycles.

    A group is cut where no tile of it fits, and between its GEMMs where the parts take fewer estimated cycles: a tile
    with several GEMMs needs the operands of all in the scratchpads, and is small where these are. If a cut is better
    than none, the best one is made, and its parts are considered in turn.
    """
    before = schedule.state
    try:
        with schedule.transaction():
            cost = _tile_whole_group(schedule, group, target, looker)
    except CapacityError as refusal:
        return _tile_fitting_parts(schedule, group, target, looker, refusal)
    best, limit, best_cut = schedule.state, cost * CUT_GAIN, None
    for stage in _gemm_cuts(schedule, group, target):
        schedule.reset_to(before)
        try:
            parts = sum(
                _tile_whole_group(schedule, part, target, looker) for part in split_group(schedule, group, stage)
            )
        except LatheError:
            continue
        if parts < limit:
            cost = limit = parts
            best, best_cut = schedule.state, stage
    schedule.reset_to(before)
    if best_cut is not None and any(_gemm_cuts(schedule, part, target) for part in group.cut(best_cut)):
        return sum(_tile_group(schedule, part, target, looker) for part in split_group(schedule, group, best_cut))
    schedule.reset_to(best)
    return cost


def _tile_fitting_parts(
    schedule: Edit, group: FusionGroup, target: Target, looker: TilingCallback | None, refusal: CapacityError
) -> float:
    """Tile the parts of a group of which no tile fits, cut at the first stage where theirs do."""
    before = schedule.state
    for stage in _all_cuts(group):
        schedule.reset_to(before)
        try:
            return sum(_tile_group(schedule, part, target, looker) for part in split_group(schedule, group, stage))
        except LatheError:
            continue
    schedule.reset_to(before)
    raise refusal from None


def _all_cuts(group: FusionGroup) -> list[EditedStage]:
    """The stages where a group may be cut: those that store bytes before those of wider values, the last ones first."""
    in_bytes = [each for each in group.inner if each.tensor.dtype in ("int8", "uint8")]
    return [*reversed(in_bytes), *(each for each in reversed(group.inner) if each not in in_bytes)]


def _gemm_cuts(schedule: Edit, group: FusionGroup, target: Target) -> list[EditedStage]:
    """Stages of bytes where a cut leaves a GEMM in both parts; identity GEMMs of residuals do not count."""
    gemms = [each for each in (*group.inner, group.sink) if match_gemm_operands(each.state.computation) is not None]
    if len(gemms) < 2:
        return []
    products = assign_layouts(schedule, target.config).gemms
    counted = [each for each in gemms if products[each.tensor] is not None and not is_identity_gemm(each)]
    if len(counted) < 2:
        return []
    found = []
    for stage in _all_cuts(group):
        *_, head, tail = group.cut(stage)
        both = all(any(each in counted for each in (*part.inner, part.sink)) for part in (head, tail))
        if stage.tensor.dtype in ("int8", "uint8") and both:
            found.append(stage)
    return found


def _tile_whole_group(schedule: Edit, group: FusionGroup, target: Target, looker: TilingCallback | None) -> float:
    """Set the scopes, caches, tiles and compute locations of one group; returns the estimated cycles."""
    if len(group.sink.state.tensors) > 1:
        names = ", ".join(tensor.name for tensor in group.sink.state.tensors)
        raise BuildError(
            f"Cannot schedule the loops of stage {group.sink.name} on a machine: it has several outputs ({names}), but "
            "a stage on a machine computes one. Give each output a computation of its own.",
            kind="limit",
        )
    given = group.sink.state
    guests = schedule.attached(group.sink)
    sink, writer = stage_through_acc(schedule, group.sink)
    least_depth = max(_reattach_guests(given, sink, writer, guests), distribute_sync(given, sink, writer))
    computing = [*group.inner, writer]
    for stage in computing:
        stage.change(scope=target.acc.name)
    operands: list[LoadedOperand] = []
    products = assign_layouts(schedule, target.config).gemms
    for stage in computing:
        gemm = products[stage.tensor]
        operands = operands_of(schedule, target, stage, gemm, group, computing, operands)
    is_scheduled = given.has_changed_loops or bool(guests)
    problem = TilingProblem(
        schedule, target, sink, computing, operands, tuple(given.leaves), is_scheduled, least_depth=least_depth
    )
    if looker is not None:
        looker(problem)
    cost = _tile(problem, guests)
    sink_loads(schedule, operands)
    return cost


def _reattach_guests(given: StageState, sink: EditedStage, writer: EditedStage, guests: Sequence[EditedStage]) -> int:
    """Reattach stages that are computed in a stage's loops, which are now those of a copy to DRAM and its acc writer.

    Those in data loops stay with the copy; those in reduction loops go to the writer, whose loops down to there become
    outermost. Returns how many loops of the copy must enclose the writer.
    """
    depth = 0
    for guest in guests:
        location = guest.state.attachment
        assert location is not None
        if location.axis.kind == "data":
            depth = max(depth, sink.state.leaves.index(location.axis) + 1)
            continue
        leaves = writer.state.leaves
        axis = next(leaf for leaf in leaves if leaf is location.axis or _same_root(leaf, location.axis))
        reduce_leaves = [leaf for leaf in leaves if leaf.kind == "reduce"]
        outermost = reduce_leaves[: reduce_leaves.index(axis) + 1]
        ordered = (*outermost, *(leaf for leaf in leaves if leaf not in outermost))
        writer.change(leaves=ordered)
        guest.change(attachment=ComputeAt(writer.id, axis))
        before = given.leaves[: given.leaves.index(location.axis)]
        depth = max(depth, sum(leaf.kind == "data" for leaf in before))
    return depth


def _same_root(leaf: LoopAxis, other: LoopAxis) -> bool:
    return leaf.source is not None and leaf.source is other.source


def derated(problem: TilingProblem) -> TilingProblem:
    """The same problem on the derated machine that tiles are chosen for, which may be smaller than the real one."""
    derating = problem.schedule.state.derating
    if derating == NO_DERATING:
        return problem
    target = Target(with_derated_memory(problem.target.config, derating))
    spare = {name: count + problem.reserved.get(name, 0) for name, count in withheld_vectors(target, derating).items()}
    return replace(problem, target=target, reserved=spare)


def _choose(problem: TilingProblem) -> Tiling:
    """The cheapest tiling on the derated machine or, if none fits there, on the whole machine."""
    smaller = derated(problem)
    try:
        return choose_tiling(smaller)
    except CapacityError:
        if smaller is problem:
            raise
        return choose_tiling(problem)


def _tile(problem: TilingProblem, guests: Sequence[EditedStage]) -> float:
    """Apply the cheapest tiling whose buffers fit: the search counts the largest, the allocator all that are live."""
    moved = {problem.sink, *problem.computing, *guests, *(operand.stage for operand in problem.operands)}
    for stage in reversed(problem.schedule.stages):  # with stages in their loops, which come before enclosing ones
        if stage.state.attachment is not None and stage.enclosing in moved:
            moved.add(stage)
    config = problem.target.config
    layouts = assign_layouts(problem.schedule, config).layouts
    refusal: CapacityError | None = None
    before = {stage: stage.state for stage in moved}
    while True:
        try:
            apply_tiling(problem, tiling := _choose(problem))
        except CapacityError:
            if refusal is not None:
                raise refusal from None
            raise
        part = SubSchedule(problem.schedule, [stage for stage in problem.schedule.stages if stage in moved])
        physical = {stage: physical_of(stage, layouts, config) for stage in part.stages}
        try:
            blocks = build_nest(part, largest_blocks=True)
            buffers_of(part, config, blocks, physical, find_aliases(part, config))
        except CapacityError as error:
            refusal = error
            problem.reserved[error.scope] = problem.reserved.get(error.scope, 0) + error.excess
            for stage, state in before.items():
                stage.put(state)
        else:
            return tiling.cost
