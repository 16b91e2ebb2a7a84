"""Tilings of groups whose sink has loops of the user: these become the tile loops."""

from math import ceil, gcd

from lathe.frontend.arith.linear import LoopVariable
from lathe.scheduler.loop_ir.stage_loops import stage_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.tiling.footprint_model import TilingModel
from lathe.scheduler.tiling.problem import Tiling
from lathe.scheduler.tiling.search_space import reductions


def given_tiling(model: TilingModel) -> Tiling | None:
    """The tiling with as few user loops outside as fit, and the next one split further if possible, or None."""
    sink = model.problem.sink
    leaves = sink.state.leaves
    for depth in range(model.problem.least_depth, len(leaves) + 1):
        sizes = [0] if depth == len(leaves) else [0, *_cuts(model, leaves[depth])]
        for size in sizes:
            tile = _tile_inside(model, depth, size)
            elements = model.computing_elements(tile)
            if elements > model.capacity[model.acc_memory.name]:
                continue
            for inner in reductions(model):
                tiling = _fixed(model, tile, depth + (size > 0), inner, elements)
                if tiling is not None:
                    tiling.user_split = (leaves[depth], size) if size else None
                    return tiling
    return None


def _cuts(model: TilingModel, leaf: LoopAxis) -> list[int]:
    """Factors that a user loop may be split by so that tiles consist of whole vectors, the largest first."""
    state = model.problem.sink.state
    nominal = {root: root.source.extent for root in state.roots if root.source is not None}
    loops = stage_loops(state, nominal)
    variables = loops.of_leaf[leaf]
    if len(variables) != 1:
        return []
    extent, unit = variables[0].extent, 1
    for dim, root in enumerate(state.roots):
        step = loops.local[root].terms.get(variables[0], 0)
        block = model.acc_memory.vector_type.block(model.lanes_of_sink, dim)
        if step:
            unit = block // gcd(block, step)
    parts = ceil(extent / unit)
    sizes = {ceil(parts / n) * unit for n in range(2, parts + 1)}
    return sorted((size for size in sizes if size < extent), reverse=True)


def _tile_inside(model: TilingModel, depth: int, size: int) -> tuple[int, ...]:
    """The box that the loops inside the ``depth`` outermost ones cover, the outermost of them limited to ``size``."""
    state = model.problem.sink.state
    nominal = {root: root.source.extent for root in state.roots if root.source is not None}
    loops = stage_loops(state, nominal)
    extent = {v: v.extent for leaf in state.leaves[depth:] for v in loops.of_leaf[leaf]}
    if size:
        extent[loops.of_leaf[state.leaves[depth]][0]] = size
    tile = []
    for root in state.roots:
        steps = ((v, c) for v, c in loops.local[root].terms.items() if isinstance(v, LoopVariable))
        tile.append(min(1 + sum(abs(c) * (extent.get(v, 1) - 1) for v, c in steps), nominal[root]))
    return tuple(tile)


def _fixed(
    model: TilingModel, tile: tuple[int, ...], depth: int, inner: dict[EditedStage, int], acc: int
) -> Tiling | None:
    """The tiling with all loads in the innermost of ``depth`` tile loops; None if it does not fit."""
    boxes = model.boxes(tile, inner)
    free = model.capacity.copy()
    free[model.acc_memory.name] -= acc
    for operand in model.problem.operands:
        free[operand.stage.state.scope] -= model.count(operand.stage, boxes[operand.stage])
    if min(free.values()) < 0:
        return None
    rounds = {s: ceil(model.reduction[s].extent / size) for s, size in inner.items()}
    return Tiling(
        tile,
        tuple(range(len(tile))),
        depth,
        {operand.stage: depth for operand in model.problem.operands},
        {s: model.root(s) for s in inner if rounds[s] > 1},
        {s: size for s, size in inner.items() if rounds[s] > 1},
    )


__all__ = ["given_tiling"]
