"""Search space of the compiler's tiling search: tile sizes, orders of the tile loops, and reduction tile sizes."""

from itertools import product
from math import ceil, prod

from lathe.frontend.arith.linear import LoopVariable
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.stage_loops import stage_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.tiling.footprint_model import TilingModel

MOST_SIZES = 24
"""Numbers of tiles along a dimension that are tried one by one, before they are doubled."""
MOST_CUTS = 64
"""Greatest number of combinations of reduction tile sizes; a sum of six GEMMs over 64 channels would have 4,096."""


def sizes(model: TilingModel, dim: int) -> list[int]:
    """Tile sizes along a dimension of the sink, multiples of a vector of acc or of its consumers, the largest first."""
    full, block = model.full[dim], model.acc_memory.vector_type.block(model.lanes_of_sink, dim)
    if model.narrow:
        return [min(size * block, full) for size in equal_parts(ceil(full / block))]
    if dim == model.lanes_of_sink.cols and (model.has_diagonals or model.is_data(model.problem.sink.tensor)):
        block = max(block, model.reduction_lanes)  # vectors of inp may be wider than those of acc
    if dim in model.rows_of_weights:
        block = model.problem.target.weights.vector_type.rows
    return [min(size * block, full) for size in equal_parts(ceil(full / block))]


def orders(model: TilingModel) -> list[tuple[int, ...]]:
    """Orders of the tile loops: the channels after the first loop, innermost, or outermost."""
    plain = tuple(range(len(model.full)))
    cols = model.lanes_of_sink.cols
    if cols is None or len(plain) < 2:
        return [plain]
    rest = tuple(dim for dim in plain if dim != cols)
    first, others = rest[:1], rest[1:]
    return list(dict.fromkeys([(*first, cols, *others), (*rest, cols), (cols, *rest)]))


def reductions(model: TilingModel) -> list[dict[EditedStage, int]]:
    """Combinations of reduction tile sizes, by stage.

    All combinations, unless there are more than ``MOST_CUTS``: then those with the same number of tiles in all stages,
    as far as each can be tiled, or in all but one.
    """
    sizes_of: dict[EditedStage, list[int]] = {}
    for stage, axis in model.reduction.items():
        given = _given_reduction(stage, axis)
        if given is not None:
            sizes_of[stage] = [axis.extent, given]
            continue
        block = model.grain(stage, axis)
        sizes_of[stage] = [min(part * block, axis.extent) for part in equal_parts(ceil(axis.extent / block))]
    counts = [len(sizes) for sizes in sizes_of.values()]
    most = max(counts, default=1)
    if prod(counts) <= max(MOST_CUTS, most * (1 + sum(count - 1 for count in counts))):
        return [dict(zip(sizes_of, ways, strict=True)) for ways in product(*sizes_of.values())]
    tried: list[dict[EditedStage, int]] = []
    for number in range(most):
        alike = {stage: sizes[min(number, len(sizes) - 1)] for stage, sizes in sizes_of.items()}
        tried.append(alike)
        tried += [{**alike, stage: n} for stage, sizes in sizes_of.items() for n in sizes if n != alike[stage]]
    return list({tuple(ways.values()): ways for ways in tried}.values())


def has_given_reduction(model: TilingModel) -> bool:
    """Whether the user has split a reduction of the group."""
    return any(_given_reduction(stage, axis) is not None for stage, axis in model.reduction.items())


def _given_reduction(stage: EditedStage, axis: Axis) -> int | None:
    """The extent of a reduction axis that one iteration of its outermost loop covers, if the user has split it."""
    state = stage.state
    if not any(root.source is axis for root in state.roots if root not in state.leaves):
        return None
    nominal = {root: root.source.extent for root in state.roots if root.source is not None}
    loops = stage_loops(state, nominal)
    outermost = set(loops.of_leaf[state.reduce_leaves[0]])
    local = next(loops.local[root] for root in state.roots if root.source is axis)
    inside = [(c, v) for v, c in local.terms.items() if isinstance(v, LoopVariable) and v not in outermost]
    return min(1 + sum(abs(c) * (v.extent - 1) for c, v in inside), axis.extent)


def equal_parts(count: int) -> list[int]:
    """Tile sizes that divide ``count`` into 1, 2, 3, … nearly equal tiles, then 2ⁿ times as many; largest first."""
    numbers = list(range(1, min(count, MOST_SIZES) + 1))
    while 2 * numbers[-1] <= count:
        numbers.append(2 * numbers[-1])
    return sorted({ceil(count / n) for n in numbers} | {1}, reverse=True)


__all__ = ["equal_parts", "has_given_reduction", "orders", "reductions", "sizes"]
