"""Tile sizes, loop order and load places for one group, by an estimate of cycles.

Everything is tried within small sets of candidates: for each dimension the sizes that cut it into 1, 2, 3, … equal
parts (whole blocks along lanes), a few orders of the tile loops, and for each operand the loops at which it fits. What
the estimate (``evaluate.py``, ``cost_model.py``) makes cheapest is then checked exactly by the allocator.
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
from lathe.scheduler.tiling.memo_key import signature_of
from lathe.scheduler.tiling.problem import Tiling, TilingProblem
from lathe.scheduler.tiling.search_space import has_given_reduction, orders, reductions, sizes
from lathe.scheduler.tiling.user_tiles import given_tiling

CUTS = ("channels", "longest", "every")
"""How reductions are cut in parts: along the channels; if need be along the longest axis, or step by step along all."""
NEAR_STEPS = 1.1
"""How many times the compute unit's steps a tiling may cost for no other cut to be tried."""
INSTEAD = 0.95
"""The part of what the first cut costs that another one may cost to be taken: estimates are no measurements."""


def choose_tiling(problem: TilingProblem) -> Tiling:
    """The cheapest tiling found. Raises CapacityError if not even the smallest tiles fit."""
    for narrow in (False, True):
        for cut in CUTS:
            models = _models(problem, cut, narrow)
            best = given_tiling(models[0]) if problem.given else next(iter(_cheapest(models)), None)
            if best is not None and (problem.given or cut != CUTS[0]):
                return best
            if best is not None:
                return _with_longest(problem, models[0], best)
    raise CapacityError(_refusal(models[-1]), kind="machine")


def cheapest_tilings(problem: TilingProblem, count: int) -> list[Tiling]:
    """So many of the cheapest tilings that fit, the cheapest first, of loops that are left open.

    Of tilings of one estimate with the same tiles only the first counts: their order is that of loops of one iteration.
    """
    for narrow in (False, True):
        for cut in CUTS:
            found = _cheapest(_models(problem, cut, narrow), count)
            if found:
                return found
    return []


def _with_longest(problem: TilingProblem, model: TilingModel, best: Tiling) -> Tiling:
    """A tiling with reductions cut along the longest axis instead of the channels, if that is cheaper by far.

    Parts may be any number of rows of a kernel then, so that there is room for the next one where all rows of a block
    of channels leave none. What hardly waits for loads is left as it is.
    """
    if best.cost <= NEAR_STEPS * model.tile_loops(model.full, tuple(range(len(model.full)))).steps:
        return best
    models = _models(problem, "longest", model.narrow)
    if models[0].reduction == model.reduction:
        return best
    other = next(iter(_cheapest(models)), best)
    return other if other.cost < INSTEAD * best.cost else best


def _models(problem: TilingProblem, cut: str, narrow: bool) -> list[TilingModel]:
    """The group's model, and another if in that one data are loaded as they were stored, in groups of elements."""
    model = TilingModel(problem, cut, narrow)
    return [model, TilingModel(problem, cut, narrow, apart=True)] if model.adjoining else [model]


@dataclass(frozen=True)
class _Choice:
    """A tiling as numbers: of which model, and what it was evaluated with; parts of reductions in their order."""

    model: int
    tile: tuple[int, ...]
    order: tuple[int, ...]
    inner: tuple[int, ...]
    elements: int

    def tiling(self, models: Sequence[TilingModel]) -> Tiling:
        """The tiling for a group that is like the one for which it was chosen."""
        model = models[self.model]
        inner = dict(zip(model.reduction, self.inner, strict=True)) if self.inner else {}
        found = evaluated(model, self.tile, self.order, inner, self.elements, inf)
        assert found is not None, f"tile {self.tile} of {model.problem.sink.name} fits no more"
        return found


_CHOSEN: OrderedDict[Hashable, tuple[_Choice, ...]] = OrderedDict()
"""What has been chosen for groups by their signatures, the last used at the end."""
MOST_CHOSEN = 1024


def _cheapest(models: Sequence[TilingModel], count: int = 1) -> list[Tiling]:
    """The first of the cheapest; tiles whose computation alone takes longer than what has been found are left out.

    Groups that are alike are searched once.
    """
    if models[0].problem.given or any(has_given_reduction(model) for model in models):
        return [choice.tiling(models) for choice in _searched(models, count)]
    key = (count, tuple(signature_of(model) for model in models))
    if key not in _CHOSEN:
        _CHOSEN[key] = tuple(_searched(models, count))
        if len(_CHOSEN) > MOST_CHOSEN:
            _CHOSEN.popitem(last=False)
    _CHOSEN.move_to_end(key)
    return [choice.tiling(models) for choice in _CHOSEN[key]]


def _searched(models: Sequence[TilingModel], count: int) -> list[_Choice]:
    found: dict[tuple[object, ...], tuple[float, _Choice]] = {}
    for number, model in enumerate(models):
        _add_cheapest(number, model, count, found)
    return [choice for _, choice in sorted(found.values(), key=lambda each: each[0])]


def _add_cheapest(
    number: int, model: TilingModel, count: int, found: dict[tuple[object, ...], tuple[float, _Choice]]
) -> None:
    limit = max((cost for cost, _ in found.values()), default=inf) if len(found) == count else inf
    parts, loops = reductions(model), orders(model)
    for tile in combinations(*(sizes(model, dim) for dim in range(len(model.full)))):
        elements = model.computing_elements(tile)
        if elements > model.rooms[model.near.name] or (least := model.least_cost(tile)) >= limit:
            continue
        in_order: dict[tuple[int, ...], float] = {}
        for inner in parts:
            if least + model.least_cost_of_parts(tile, inner) * (1 - ROUNDING) >= limit:
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
                found.setdefault((tile, tuple(inner.values()), tiling.cost), (tiling.cost, choice))
                if len(found) > count:
                    del found[max(found, key=lambda key: found[key][0])]
                if len(found) == count:
                    limit = max(cost for cost, _ in found.values())


def _refusal(model: TilingModel) -> str:
    tile = tuple(sizes(model, dim)[-1] for dim in range(len(model.full)))
    reduction = {stage: min(axis.extent, model.grain(stage, axis)) for stage, axis in model.reduction.items()}
    boxes = model.boxes(tile, reduction)
    parts = []
    for memory in model.problem.target.memories.values():
        need = sum(
            model.count(operand.stage, boxes[operand.stage])
            for operand in model.problem.operands
            if operand.stage.state.scope == memory.name
        )
        if memory is model.near:
            need += max(model.count(stage, boxes[stage]) for stage in model.problem.computing)
        name, depth = memory.name, memory.depth
        if need > depth:
            parts.append(f"{name} holds {depth} elements and the smallest tile takes {need}, {need - depth} too many")
    detail = "; ".join(parts) or "the loops given leave no smaller tile"
    return (
        f"tile of {model.problem.sink.name} on machine {model.config.name!r} must fit its scratchpads, but {detail}. "
        "Use a machine with larger buffers, or split the computation."
    )


__all__ = ["cheapest_tilings", "choose_tiling"]
