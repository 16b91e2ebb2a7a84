"""A tiling applied to a group: the sink's loops split, everything else placed in its tiles."""

from dataclasses import replace

from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import Fuse, LoopAxis, Split
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState
from lathe.scheduler.tiling.problem import Tiling, TilingProblem


def apply_tiling(problem: TilingProblem, tiling: Tiling) -> None:
    """Split the sink's loops, put the computing stages into its tiles and the operands where the tiling says."""
    sink = problem.sink
    if not problem.given:
        state = sink.state
        outer: list[LoopAxis] = []
        inner: list[LoopAxis] = []
        relations = list(state.relations)
        pairs = {}
        for root, size in zip(state.roots, tiling.tile, strict=True):
            first, second = LoopAxis(f"{root.name}o", "data"), LoopAxis(f"{root.name}i", "data")
            relations.append(Split(root, first, second, size))
            pairs[root] = (first, second)
        outer = [pairs[state.roots[dim]][0] for dim in tiling.order]
        inner = [pairs[root][1] for root in state.roots]
        sink.put(replace(state, leaves=(*outer, *inner), relations=tuple(relations)))
        levels = outer
    else:
        if tiling.cut is not None:
            leaf, size = tiling.cut
            first, second = LoopAxis(f"{leaf.name}o", "data"), LoopAxis(f"{leaf.name}i", "data")
            place = sink.state.leaves.index(leaf)
            leaves = (*sink.state.leaves[:place], first, second, *sink.state.leaves[place + 1 :])
            relations_cut = (*sink.state.relations, Split(leaf, first, second, size))
            sink.change(leaves=leaves, relations=relations_cut)
        levels = list(sink.state.leaves[: tiling.depth])
        sink.put(_rejoined(sink.state, tiling.depth))
    attached_at = ComputeAt(sink.id, levels[-1]) if levels else None
    reducing: dict[EditedStage, LoopAxis] = {}
    for stage in problem.computing:
        stage.change(attachment=attached_at)
        axis = tiling.reduce_axis.get(stage)
        if axis is not None:
            reducing[stage] = _split_reduction(stage, axis, tiling.reduce_tile[stage])
            for other, size in tiling.single.get(stage, ()):
                _split_reduction(stage, other, size)
    for operand in problem.operands:
        level = tiling.level[operand.stage]
        attachment: ComputeAt | None
        reader = operand.only_reader
        if level == len(levels) and reader is not None and reader in reducing:
            attachment = ComputeAt(reader.id, reducing[reader])
        elif level == 0 or not levels:
            attachment = None
        else:
            attachment = ComputeAt(sink.id, levels[min(level, len(levels)) - 1])
        operand.stage.change(attachment=attachment, contiguous=tiling.adjoining.get(operand.stage))
    _in_order(problem)


def _rejoined(state: StageState, depth: int) -> StageState:
    """The loops inside the tile, which only store it, put back together where no part of an axis is outside."""
    outside = set(state.leaves[:depth])
    relations = list(state.relations)
    leaves = list(state.leaves)
    joined = True
    while joined:
        joined = False
        for relation in reversed(relations):
            if isinstance(relation, Split):
                parts, whole = [relation.outer, relation.inner], [relation.parent]
            elif isinstance(relation, Fuse):
                parts, whole = [relation.fused], [relation.outer, relation.inner]
            else:
                continue  # what runs backwards or along diagonals stays so
            if all(part in leaves and part not in outside for part in parts):
                place = min(leaves.index(part) for part in parts)
                leaves[place:place] = whole
                leaves = [leaf for leaf in leaves if leaf not in parts]
                relations.remove(relation)
                joined = True
                break
    return replace(state, leaves=tuple(leaves), relations=tuple(relations))


def _split_reduction(stage: EditedStage, root: LoopAxis, tile: int) -> LoopAxis:
    state: StageState = stage.state
    if root not in state.leaves:  # the user has split the reduction: the loop given first comes outermost
        first = state.reduce_leaves[0]
        stage.put(replace(state, leaves=(first, *(leaf for leaf in state.leaves if leaf is not first))))
        return first
    outer, inner = LoopAxis(f"{root.name}o", "reduce"), LoopAxis(f"{root.name}i", "reduce")
    leaves = (outer, *(inner if leaf is root else leaf for leaf in state.leaves))
    stage.put(replace(state, leaves=leaves, relations=(*state.relations, Split(root, outer, inner, tile))))
    return outer


def _in_order(problem: TilingProblem) -> None:
    """Operands and computing stages directly before the sink, in the order in which they read each other."""
    schedule = problem.schedule
    moved = [*(operand.stage for operand in problem.operands), *problem.computing]
    ordered = [stage for stage in schedule.stages if stage in moved]
    rest = [stage for stage in schedule.stages if stage not in moved]
    position = rest.index(problem.sink)
    schedule.reorder_stages([*rest[:position], *ordered, *rest[position:]])
