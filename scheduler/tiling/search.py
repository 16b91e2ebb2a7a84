"""Tiling search: tile sizes, loop order and load levels of one fusion group with the least estimated cycles.

The search is exhaustive over a small space: for each dimension the sizes that divide it into 1, 2, 3, … equal tiles
(whole vectors along lanes), a few orders of the tile loops, and for each operand the loops at which it fits. The tiling
that the cost model (``evaluate.py``, ``cost_model.py``) ranks best is then checked exactly by the allocator.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import inf

from lathe.scheduler.cost.cost_model import ROUNDING
from lathe.scheduler.errors import CapacityError
from lathe.scheduler.tiling.evaluate import evaluated, fits
from lathe.scheduler.tiling.footprint_model import TilingModel
from lathe.scheduler.tiling.memo_key import memo_key
from lathe.scheduler.tiling.problem import Tiling, TilingProblem
from lathe.scheduler.tiling.search_space import has_given_reduction, orders, reductions, sizes
from lathe.scheduler.tiling.user_tiles import given_tiling

CUTS = ("channels", "longest", "every")
"""Which reduction axes are tiled: the channels, or, if no tiling fits, the longest axis, or every axis."""
NEARLY_COMPUTE_BOUND = 1.1
"""Another choice of axes is tried if a tiling costs more than this many times the cycles of the compute unit."""
GAIN = 0.95
"""Another choice of axes replaces the first one if it costs less than this fraction: estimates are inexact."""


def choose_tiling(problem: TilingProblem) -> Tiling:
    """The tiling with the least estimated cycles. Raises CapacityError if not even the smallest tiles fit."""
    for narrow in (False, True):
        for cut in CUTS:
            models = _models(problem, cut, narrow)
            best = given_tiling(models[0]) if problem.has_user_loops else next(iter(_cheapest(models)), None)
            if best is not None and (problem.has_user_loops or cut != CUTS[0]):
                return best
            if best is not None:
                return _or_longest_axis(problem, models[0], best)
    raise CapacityError(_refusal(models[-1]), kind="machine")


def cheapest_tilings(problem: TilingProblem, count: int) -> list[Tiling]:
    """The ``count`` cheapest tilings of a group without user loops, at most one with the same tiles and cost."""
    for narrow in (False, True):
        for cut in CUTS:
            tilings = _cheapest(_models(problem, cut, narrow), count)
            if tilings:
                return tilings
    return []


def _or_longest_axis(problem: TilingProblem, model: TilingModel, best: Tiling) -> Tiling:
    """A tiling with reductions tiled along the longest axis instead of the channels, if that is much cheaper.

    Then a tile may be some rows of a kernel, which can be double-buffered where all rows of a block of channels cannot.
    A tiling that hardly waits for loads is returned unchanged.
    """
    if best.cost <= NEARLY_COMPUTE_BOUND * model.tile_loops(model.full, tuple(range(len(model.full)))).steps:
        return best
    models = _models(problem, "longest", model.narrow)
    if models[0].reduction == model.reduction:
        return best
    other = next(iter(_cheapest(models)), best)
    return other if other.cost < GAIN * best.cost else best


def _models(problem: TilingProblem, cut: str, narrow: bool) -> list[TilingModel]:
    """The models to search: if operands may stay contiguous as stored, one with that and one without."""
    model = TilingModel(problem, cut, narrow)
    return [model, TilingModel(problem, cut, narrow, separate=True)] if model.adjoining else [model]


@dataclass(frozen=True)
class _Choice:
    """A tiling by the number of its model and the arguments of its evaluation, so that equal groups can share it."""

    model: int
    tile: tuple[int, ...]
    order: tuple[int, ...]
    inner: tuple[int, ...]
    elements: int

    def tiling(self, models: Sequence[TilingModel]) -> Tiling:
        """The tiling for a group with the same key as the one that it was chosen for."""
        model = models[self.model]
        inner = dict(zip(model.reduction, self.inner, strict=True)) if self.inner else {}
        tiling = evaluated(model, self.tile, self.order, inner, self.elements, inf)
        assert tiling is not None, f"cached tile {self.tile} of {model.problem.sink.name} does not fit"
        return tiling


_CHOSEN: OrderedDict[Hashable, tuple[_Choice, ...]] = OrderedDict()
"""Cached choices by the keys of groups, the most recently used last."""
MOST_CHOSEN = 1024
"""Greatest number of cached choices."""


def _cheapest(models: Sequence[TilingModel], count: int = 1) -> list[Tiling]:
    """The ``count`` cheapest tilings; from the cache, if an equal group has been searched before."""
    if models[0].problem.has_user_loops or any(has_given_reduction(model) for model in models):
        return [choice.tiling(models) for choice in _searched(models, count)]
    key = (count, tuple(memo_key(model) for model in models))
    if key not in _CHOSEN:
        _CHOSEN[key] = tuple(_searched(models, count))
        if len(_CHOSEN) > MOST_CHOSEN:
            _CHOSEN.popitem(last=False)
    _CHOSEN.move_to_end(key)
    return [choice.tiling(models) for choice in _CHOSEN[key]]


def _searched(models: Sequence[TilingModel], count: int) -> list[_Choice]:
    best: dict[tuple[object, ...], tuple[float, _Choice]] = {}
    for number, model in enumerate(models):
        _add_cheapest(number, model, count, best)
    return [choice for _, choice in sorted(best.values(), key=lambda each: each[0])]


def _add_cheapest(
    number: int, model: TilingModel, count: int, best: dict[tuple[object, ...], tuple[float, _Choice]]
) -> None:
    """Branch and bound: update ``best`` by a model's tilings, pruned by lower bounds on their cost."""
    limit = max((cost for cost, _ in best.values()), default=inf) if len(best) == count else inf
    parts, loops = reductions(model), orders(model)
    for tile in combinations(*(sizes(model, dim) for dim in range(len(model.full)))):
        elements = model.computing_elements(tile)
        if elements > model.capacity[model.acc_memory.name] or (least := model.least_cost(tile)) >= limit:
            continue
        in_order: dict[tuple[int, ...], float] = {}
        for inner in parts:
            if least + model.least_cost_of_reduction_tiles(tile, inner) * (1 - ROUNDING) >= limit:
                continue
            if not fits(model, tile, inner, elements):
                continue
            in_order = in_order or {order: model.least_cost_in_order(tile, order, least) for order in loops}
            for order in loops:
                if in_order[order] >= limit:
                    continue
                tiling = evaluated(model, tile, order, inner, elements, limit)
                if tiling is None:
                    continue
                choice = _Choice(number, tile, order, tuple(inner.values()), elements)
                best.setdefault((tile, tuple(inner.values()), tiling.cost), (tiling.cost, choice))
                if len(best) > count:
                    del best[max(best, key=lambda key: best[key][0])]
                if len(best) == count:
                    limit = max(cost for cost, _ in best.values())


def _refusal(model: TilingModel) -> str:
    tile = tuple(sizes(model, dim)[-1] for dim in range(len(model.full)))
    reduction = {stage: min(axis.extent, model.grain(stage, axis)) for stage, axis in model.reduction.items()}
    boxes = model.boxes(tile, reduction)
    excess = []
    for memory in model.problem.target.memories.values():
        need = sum(
            model.count(operand.stage, boxes[operand.stage])
            for operand in model.problem.operands
            if operand.stage.state.scope == memory.name
        )
        if memory is model.acc_memory:
            need += max(model.count(stage, boxes[stage]) for stage in model.problem.computing)
        name, depth = memory.name, memory.depth
        if need > depth:
            excess.append(f"{name} holds {depth} vectors, and the smallest tile takes {need}, {need - depth} too many")
    detail = "; ".join(excess) or "no tile within the user's loops fits its scratchpads"
    return (
        f"Cannot tile {model.problem.sink.name} on machine {model.config.name!r}: {detail}. "
        "Use a machine with larger buffers, or split the computation."
    )


__all__ = ["cheapest_tilings", "choose_tiling"]
