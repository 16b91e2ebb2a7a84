"""What is tried for a group's tiles: sizes, orders of the tile loops, and how much of a reduction is one part."""

from itertools import product
from math import ceil, prod

from lathe.frontend.arith.linear import LoopVariable
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.stage_loops import stage_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.tiling.footprint_model import TilingModel

MOST_SIZES = 24
MOST_CUTS = 64
"""Ways to cut the reductions of a group that are tried, one with the other: a sum of six products over 64 has 4,096."""


def sizes(model: TilingModel, dim: int) -> list[int]:
    """Sizes of a tile along a dimension of the sink, whole blocks of lanes, the largest first.

    Blocks are those of whoever loads the result, unless the model is one of narrow tiles.
    """
    full, block = model.full[dim], model.near.element.block(model.lanes_of_sink, dim)
    if model.narrow:
        return [min(size * block, full) for size in equal_parts(ceil(full / block))]
    if dim == model.lanes_of_sink.cols and (model.has_diagonals or model.is_data(model.problem.sink.tensor)):
        block = max(block, model.summed)  # data are loaded as wider elements, or this is
    if dim in model.rows_of_weights:
        block = model.problem.target.weights.element.rows
    return [min(size * block, full) for size in equal_parts(ceil(full / block))]


def orders(model: TilingModel) -> list[tuple[int, ...]]:
    """Orders of the tile loops: the channels inside the first one, innermost, or outermost."""
    plain = tuple(range(len(model.full)))
    cols = model.lanes_of_sink.cols
    if cols is None or len(plain) < 2:
        return [plain]
    rest = tuple(dim for dim in plain if dim != cols)
    first, others = rest[:1], rest[1:]
    found = [(*first, cols, *others), (*rest, cols), (cols, *rest)]
    return list(dict.fromkeys(found))


def reductions(model: TilingModel) -> list[dict[EditedStage, int]]:
    """How much of its reduction axis each stage sums up in one part.

    All of one stage with all of another, unless there are more than ``MOST_CUTS`` ways: then all stages are cut in as
    many parts, as far as each goes, or all but one.
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
    found: list[dict[EditedStage, int]] = []
    for number in range(most):
        alike = {stage: sizes[min(number, len(sizes) - 1)] for stage, sizes in sizes_of.items()}
        found.append(alike)
        found += [{**alike, stage: n} for stage, sizes in sizes_of.items() for n in sizes if n != alike[stage]]
    return list({tuple(ways.values()): ways for ways in found}.values())


def has_given_reduction(model: TilingModel) -> bool:
    """Whether the user has split a reduction of the group."""
    return any(_given_reduction(stage, axis) is not None for stage, axis in model.reduction.items())


def _given_reduction(stage: EditedStage, axis: Axis) -> int | None:
    """How much of the reduction one iteration of its outermost loop covers, where the user has split it."""
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
    """The largest of 1, 2, 3, … nearly equal parts, then of twice as many each time; the largest first."""
    numbers = list(range(1, min(count, MOST_SIZES) + 1))
    while 2 * numbers[-1] <= count:
        numbers.append(2 * numbers[-1])
    return sorted({ceil(count / n) for n in numbers} | {1}, reverse=True)


__all__ = ["equal_parts", "has_given_reduction", "orders", "reductions", "sizes"]
