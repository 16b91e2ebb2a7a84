"""What a tiling costs, and at which of its loops each operand is loaded.

The fewest elements in all are loaded where an operand is kept longest. That is not always quickest: a first tile waits
for all that is loaded before it, and a part for each tile may hide behind the tile before.
"""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from lathe.isa import AluOp
from lathe.scheduler.allocation.weight_buffer_depth import PLACES
from lathe.scheduler.cost.cost_model import (
    OperandLoads,
    TileWork,
    cycles_with_product,
    cycles_without_product,
)
from lathe.scheduler.cost.issue_cycles import steps_of_alu
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.memories import PARAMETERS, TABLES
from lathe.scheduler.tiling.footprint_model import TilingModel
from lathe.scheduler.tiling.fusion_groups import is_padding
from lathe.scheduler.tiling.problem import LoadedOperand, Tiling

MOST_PARTS = 96
STEPS_OF_COPY = 1 + steps_of_alu(AluOp.ADD, immediate=False)
"""Of an element that the ALU makes, where it overwrites none that was loaded for the tile: a reset, and an addition."""
MICRO_OP = 1 / 2
"""Cycles that a micro-op takes to be loaded."""
CLOSE = 5 / 4
"""How many times the least cost so far a tiling may cost for other places of its loads to be looked at."""
AGAIN = 1.5
"""How many times the fewest elements may be loaded for the sake of an earlier first tile."""

LoadPlace: TypeAlias = tuple[int, int, int, int]
"""Elements that are loaded in all, minus the number of loops outside, elements at a time, that number."""


def evaluated(
    model: TilingModel,
    tile: tuple[int, ...],
    order: tuple[int, ...],
    inner: dict[EditedStage, int],
    acc: int,
    limit: float,
) -> Tiling | None:
    """What a tiling costs; None if it does not fit, or costs no less than ``limit`` cycles."""
    return _Evaluation(model, tile, order, inner, acc).tiling(limit)


def fits(model: TilingModel, tile: tuple[int, ...], inner: dict[EditedStage, int], acc: int) -> bool:
    """Whether all operands fit if each is loaded at the innermost loop it can be, whatever the order of the loops."""
    room = model.rooms.copy()
    room[model.near.name] -= acc
    whole, parts = model.boxes(tile, {}), model.boxes(tile, inner)
    for operand in model.problem.operands:
        stage, reader = operand.stage, operand.only_reader
        cut = reader in inner and model.parts_of(reader, inner[reader]) > 1
        room[stage.state.scope] -= model.count(stage, (parts if cut else whole)[stage])
    return min(room.values()) >= 0


class _Evaluation:
    def __init__(
        self,
        model: TilingModel,
        tile: tuple[int, ...],
        order: tuple[int, ...],
        inner: dict[EditedStage, int],
        acc: int,
    ) -> None:
        self.model, self.tile, self.order, self.inner, self.acc = model, tile, order, inner, acc
        self.loops = model.tile_loops(tile, order)
        self.rounds = {stage: model.parts_of(stage, size) for stage, size in inner.items()}
        self.innermost = model.boxes(tile, inner)
        self.options = [self._options(n, operand) for n, operand in enumerate(model.problem.operands)]
        self.least = [min(option[2] for option in options) for options in self.options]

    def _rounds(self, operand: LoadedOperand) -> int:
        """In how many parts of a reduction an operand is read, one after the other."""
        return 1 if operand.only_reader is None else self.rounds.get(operand.only_reader, 1)

    def _options(self, number: int, operand: LoadedOperand) -> list[LoadPlace]:
        """Where an operand may be loaded; innermost, a part of the reduction at a time."""
        options, rounds = self.loops.options[number], self._rounds(operand)
        if rounds == 1:
            return options
        count, depth = self.model.count(operand.stage, self.innermost[operand.stage]), len(self.order)
        return [*options[:-1], (self.loops.tiles * rounds * count, -depth, count, depth)]

    def tiling(self, limit: float) -> Tiling | None:
        """The tiling with each operand where it costs least; None if it does not fit or costs too much."""
        places: list[LoadPlace] = []
        cost = self._cost(places)
        if cost is None or cost >= limit * CLOSE:
            return None
        for number, operand in enumerate(self.model.problem.operands):
            if operand.stage.state.scope in (PARAMETERS, TABLES):
                continue
            first = places[number]
            for option in self.options[number][first[3] + 1 :]:
                if option[0] > AGAIN * first[0]:
                    continue
                trial = [*places[:number], option, *places[number + 1 :]]
                instead = self._cost(trial)
                if instead is not None and instead < cost:
                    places, cost = trial, instead
        if cost >= limit:
            return None
        model, rounds = self.model, self.rounds
        levels = {operand.stage: place[3] for operand, place in zip(model.problem.operands, places, strict=True)}
        reduce_axis = {stage: model.root(stage) for stage in self.inner if rounds[stage] > 1}
        reduce_tile = {stage: size for stage, size in self.inner.items() if rounds[stage] > 1}
        single = {
            stage: [(model.root(stage, axis), model.grain(stage, axis)) for axis in axes]
            for stage, axes in model.single.items()
        }
        return Tiling(
            self.tile, self.order, len(self.order), levels, reduce_axis, reduce_tile, single, cost, model.adjoining
        )

    def _cost(self, places: list[LoadPlace]) -> float | None:
        """Cycles with operands loaded in these places; None if they do not fit.

        An empty list gets the places where the fewest elements are loaded.
        """
        model, depth = self.model, len(self.order)
        room = model.rooms.copy()
        room[model.near.name] -= self.acc
        least = [place[2] for place in places] if places else self.least
        for operand, elements in zip(model.problem.operands, least, strict=True):
            room[operand.stage.state.scope] -= elements
        if min(room.values()) < 0:
            return None
        found: list[OperandLoads] = []
        chosen: list[LoadPlace] = []
        for number, operand in enumerate(model.problem.operands):
            scope = operand.stage.state.scope
            room[scope] += least[number]  # what comes behind it has room for the least that it takes
            options = [places[number]] if places else self.options[number]
            fitting = [option for option in options if option[2] <= room[scope]]
            doubled = [option for option in fitting if option[2] * (2 if option[3] else 1) <= room[scope]]
            best = min(doubled or fitting)
            if scope in (PARAMETERS, TABLES):  # whose loads wait for the pipeline to drain: as few as possible
                best = min(fitting, key=lambda each: (each[0], each[3]))
            twice = best in doubled
            chosen.append(best)
            room[scope] -= best[2] * (2 if twice and best[3] else 1)
            found.append(self._loads(operand, best, twice))
        places[:] = chosen
        stages = [operand.stage for operand in model.problem.operands]
        levels = {stage: place[3] for stage, place in zip(stages, chosen, strict=True)}
        replaced = [loads for stage, loads in zip(stages, found, strict=True) if stage in model.added_to]
        copied = sum(
            STEPS_OF_COPY * model.count(stage, self.innermost[stage])
            for stage, operands in model.loaded_only.items()
            if all(levels[each] < depth for each in operands)
        )
        in_place = bool(model.loaded_only) and not copied  # the operand's slots are the result's
        room_of_result = model.rooms[model.near.name] - self.acc if in_place else room[model.near.name]
        work = TileWork(
            tiles=self.loops.tiles,
            parts=max(self.rounds.values(), default=1),
            steps=self.loops.steps + copied,
            stored=self.loops.stored,
            stores=self.loops.stores,
            planes=model.planes,
            alone=self.acc > room_of_result or not all(each.doubled for each in replaced),
            ends=model.ends_in_parts,
            ahead=any(map(self._runs_ahead, model.problem.operands, found)),
        )
        cost = (cycles_with_product if model.gemms else cycles_without_product)(model.config, found, work)
        return cost + self._micro_ops(levels) * MICRO_OP

    def _runs_ahead(self, operand: LoadedOperand, loads: OperandLoads) -> bool:
        """Whether weights are loaded part by part in places enough for loads to run ahead."""
        rounds, steps = self._rounds(operand), self.loops.steps
        of_weights = operand.stage.state.scope == self.model.problem.target.weights.name
        often = of_weights and loads.doubled and loads.times == self.loops.tiles * rounds
        return often and rounds > 1 and rounds % PLACES == 0 and steps / 2 < loads.cycles * rounds <= steps

    def _loads(self, operand: LoadedOperand, place: LoadPlace, doubled: bool) -> OperandLoads:
        model, stage, (loads, _, count, level) = self.model, operand.stage, place
        depth, rounds = len(self.order), self._rounds(operand)
        box: Sequence[int] = self.loops.boxes[level][stage] if level else stage.tensor.shape
        if rounds > 1 and level == depth:
            box = self.innermost[stage]
        cycles, instructions = model.load_of(stage, tuple(box), count)
        return OperandLoads(
            model.problem.target.memories[stage.state.scope].unit,
            cycles,
            loads / max(count, 1),
            doubled,
            self._parts(operand, box, rounds) if level < depth else 1,
            instructions,
            stage in model.added_to,
        )

    def _parts(self, operand: LoadedOperand, box: Sequence[int], rounds: int) -> float:
        """How many times the first part of a load the whole is, where parts come each when a reduction needs it.

        Of parts that leave a rest, all but that are one.
        """
        physical, reader = self.model.physical[operand.stage], operand.only_reader
        outside = prod(physical.blocks(dim, 0, box[dim]) for dim in (physical.lanes.rows,) if dim is not None)
        if is_padding(operand.stage, with_zeros=False) or 2 * outside * rounds > MOST_PARTS:
            return 1
        if reader is None or reader not in self.inner:
            return rounds
        extent = self.model.reduction[reader].extent
        rest = extent % self.inner[reader]
        return extent / (extent - rest) if rest else rounds

    def _micro_ops(self, levels: dict[EditedStage, int]) -> float:
        """How many micro-ops products take, about: rows and columns are loops, and each place a sequence of its own."""
        count = 0.0
        model, loops, depth = self.model, self.loops, len(self.order)
        for stage in model.gemms:
            product = model.plan.products[stage.tensor]
            assert product is not None, f"{stage.name} is no product"
            box = loops.boxes[-1][stage]
            column = model.physical[stage].lanes.cols
            blocks = 1 if column is None else model.physical[stage].blocks(column, 0, box[column])
            steps = product.steps(stage.state.computation, model.config) * blocks
            parts = self.rounds.get(stage, 1)
            operands = (each.stage for each in model.problem.operands if stage in each.readers)
            weights = next((each for each in operands if each.state.scope == model.problem.target.weights.name), None)
            resident = weights is not None and levels[weights] < depth
            count += steps * (2 if loops.tiles > 1 else 1) * (2 if resident else 2 / parts if parts > 1 else 1)
        return count


__all__ = ["evaluated", "fits"]
