"""Application of a tiling to a fusion group: the sink's loops are split, all other stages computed in its tiles."""

from dataclasses import replace

from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import Fuse, LoopAxis, Split
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState
from lathe.scheduler.tiling.problem import Tiling, TilingProblem


def apply_tiling(problem: TilingProblem, tiling: Tiling) -> None:
    """Split the sink's loops, and attach computing stages to its tile loops and operands to their load levels."""
    sink = problem.sink
    if not problem.has_user_loops:
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
        if tiling.user_split is not None:
            leaf, size = tiling.user_split
            first, second = LoopAxis(f"{leaf.name}o", "data"), LoopAxis(f"{leaf.name}i", "data")
            position = sink.state.leaves.index(leaf)
            leaves = (*sink.state.leaves[:position], first, second, *sink.state.leaves[position + 1 :])
            relations_cut = (*sink.state.relations, Split(leaf, first, second, size))
            sink.change(leaves=leaves, relations=relations_cut)
        levels = list(sink.state.leaves[: tiling.depth])
        sink.put(_with_merged_loops(sink.state, tiling.depth))
    attached_at = ComputeAt(sink.id, levels[-1]) if levels else sink.state.attachment
    reducing: dict[EditedStage, LoopAxis] = {}
    for stage in problem.computing:
        stage.change(attachment=attached_at)
        axis = tiling.reduce_axis.get(stage)
        if axis is not None:
            reducing[stage] = _split_reduction(stage, axis, tiling.reduce_tile[stage])
            for other, size in tiling.other_reduce_tiles.get(stage, ()):
                _split_reduction(stage, other, size)
    for operand in problem.operands:
        level = tiling.level[operand.stage]
        attachment: ComputeAt | None
        reader = operand.only_consumer
        if level == len(levels) and reader is not None and reader in reducing:
            attachment = ComputeAt(reader.id, reducing[reader])
        elif level == 0 or not levels:
            attachment = None
        else:
            attachment = ComputeAt(sink.id, levels[min(level, len(levels)) - 1])
        operand.stage.change(attachment=attachment, contiguous=tiling.contiguous.get(operand.stage))
    _move_before_sink(problem)


def _with_merged_loops(state: StageState, depth: int) -> StageState:
    """The stage with its loops inside the tile, which only store it, merged again where all results of a split are."""
    outside = set(state.leaves[:depth])
    relations = list(state.relations)
    leaves = list(state.leaves)
    merged = True
    while merged:
        merged = False
        for relation in reversed(relations):
            if isinstance(relation, Split):
                results, sources = [relation.outer, relation.inner], [relation.parent]
            elif isinstance(relation, Fuse):
                results, sources = [relation.fused], [relation.outer, relation.inner]
            else:
                continue  # reversed and skewed loops are not undone
            if all(each in leaves and each not in outside for each in results):
                position = min(leaves.index(each) for each in results)
                leaves[position:position] = sources
                leaves = [leaf for leaf in leaves if leaf not in results]
                relations.remove(relation)
                merged = True
                break
    return replace(state, leaves=tuple(leaves), relations=tuple(relations))


def _split_reduction(stage: EditedStage, root: LoopAxis, tile: int) -> LoopAxis:
    state: StageState = stage.state
    if root not in state.leaves:  # the user has split the reduction: its first loop becomes the outermost one
        first = state.reduce_leaves[0]
        stage.put(replace(state, leaves=(first, *(leaf for leaf in state.leaves if leaf is not first))))
        return first
    outer, inner = LoopAxis(f"{root.name}o", "reduce"), LoopAxis(f"{root.name}i", "reduce")
    leaves = (outer, *(inner if leaf is root else leaf for leaf in state.leaves))
    stage.put(replace(state, leaves=leaves, relations=(*state.relations, Split(root, outer, inner, tile))))
    return outer


def _move_before_sink(problem: TilingProblem) -> None:
    """Move operands and computing stages directly before the sink, each after those that it reads."""
    schedule = problem.schedule
    moved = [*(operand.stage for operand in problem.operands), *problem.computing]
    ordered = [stage for stage in schedule.stages if stage in moved]
    rest = [stage for stage in schedule.stages if stage not in moved]
    position = rest.index(problem.sink)
    schedule.reorder_stages([*rest[:position], *ordered, *rest[position:]])
