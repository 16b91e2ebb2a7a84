"""Evaluation of one tiling: the loop at which each operand is loaded, and the estimated cycles.

Loading an operand at the outermost loop that it fits moves the fewest bytes. That is not always fastest: the first tile
waits for all loads before it, while a slice for each tile may be loaded during the tile before.
"""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from lathe.isa import AluOp
from lathe.scheduler.allocation.weight_buffer_depth import WEIGHT_SLOTS
from lathe.scheduler.cost.cost_model import OperandLoads, TileWork, cycles_with_gemm, cycles_without_gemm
from lathe.scheduler.cost.stage_cost import alu_issue_cycles
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.memories import PARAMETERS, TABLES
from lathe.scheduler.tiling.footprint_model import TilingModel
from lathe.scheduler.tiling.fusion_groups import is_padding
from lathe.scheduler.tiling.problem import LoadedOperand, Tiling

MAX_SLICES = 96
"""Greatest number of LOADs that the prologue splits a load into."""
STEPS_OF_COPY = 1 + alu_issue_cycles(AluOp.ADD, immediate=False)
"""Cycles of a vector that the ALU computes, but not in option of one loaded for the tile: a reset and an addition."""
MICRO_OP = 1 / 2
"""Cycles that loading a micro-op takes."""
CLOSE = 5 / 4
"""Other load levels are tried if a tiling costs less than this many times the least cost so far."""
EXTRA_TRAFFIC = 1.5
"""Another load level may load this many times as many vectors, so that the first tile starts earlier."""

LoadOption: TypeAlias = tuple[int, int, int, int]
"""A load level: vectors loaded in total, minus the number of loops outside, vectors per load, that number of loops."""


def evaluated(
    model: TilingModel,
    tile: tuple[int, ...],
    order: tuple[int, ...],
    inner: dict[EditedStage, int],
    acc: int,
    limit: float,
) -> Tiling | None:
    """The tiling with load levels and cost; None if it does not fit, or costs at least ``limit`` cycles."""
    return _Evaluation(model, tile, order, inner, acc).tiling(limit)


def fits(model: TilingModel, tile: tuple[int, ...], inner: dict[EditedStage, int], acc: int) -> bool:
    """Whether all operands fit if each is loaded at the innermost loop possible, which depends on no loop order."""
    free = model.capacity.copy()
    free[model.acc_memory.name] -= acc
    whole, parts = model.boxes(tile, {}), model.boxes(tile, inner)
    for operand in model.problem.operands:
        stage, reader = operand.stage, operand.only_consumer
        cut = reader in inner and model.reduction_tiles(reader, inner[reader]) > 1
        free[stage.state.scope] -= model.count(stage, (parts if cut else whole)[stage])
    return min(free.values()) >= 0


class _Evaluation:
    """One tiling under evaluation; ``inner``: reduction tile sizes; ``acc``: accumulators that it needs."""

    def __init__(
        self, model: TilingModel, tile: tuple[int, ...], order: tuple[int, ...], inner: dict[EditedStage, int], acc: int
    ) -> None:
        self.model, self.tile, self.order, self.inner, self.acc = model, tile, order, inner, acc
        self.loops = model.tile_loops(tile, order)
        self.rounds = {stage: model.reduction_tiles(stage, size) for stage, size in inner.items()}
        self.innermost = model.boxes(tile, inner)
        self.options = [self._options(n, operand) for n, operand in enumerate(model.problem.operands)]
        self.least = [min(option[2] for option in options) for options in self.options]

    def _rounds(self, operand: LoadedOperand) -> int:
        """The number of reduction tiles in which an operand is read."""
        return 1 if operand.only_consumer is None else self.rounds.get(operand.only_consumer, 1)

    def _options(self, number: int, operand: LoadedOperand) -> list[LoadOption]:
        """The levels at which an operand may be loaded; the innermost is a reduction tile, if there are several."""
        options, rounds = self.loops.options[number], self._rounds(operand)
        if rounds == 1:
            return options
        count, depth = self.model.count(operand.stage, self.innermost[operand.stage]), len(self.order)
        return [*options[:-1], (self.loops.tiles * rounds * count, -depth, count, depth)]

    def tiling(self, limit: float) -> Tiling | None:
        """The tiling with the cheapest load levels; None if it does not fit, or costs at least ``limit`` cycles."""
        selection: list[LoadOption] = []
        cost = self._cost(selection)
        if cost is None or cost >= limit * CLOSE:
            return None
        for number, operand in enumerate(self.model.problem.operands):
            if operand.stage.state.scope in (PARAMETERS, TABLES):
                continue
            first = selection[number]
            for option in self.options[number][first[3] + 1 :]:
                if option[0] > EXTRA_TRAFFIC * first[0]:
                    continue
                trial = [*selection[:number], option, *selection[number + 1 :]]
                trial_cost = self._cost(trial)
                if trial_cost is not None and trial_cost < cost:
                    selection, cost = trial, trial_cost
        if cost >= limit:
            return None
        model, rounds = self.model, self.rounds
        levels = {operand.stage: option[3] for operand, option in zip(model.problem.operands, selection, strict=True)}
        reduce_axis = {stage: model.root(stage) for stage in self.inner if rounds[stage] > 1}
        reduce_tile = {stage: size for stage, size in self.inner.items() if rounds[stage] > 1}
        single = {
            stage: [(model.root(stage, axis), model.grain(stage, axis)) for axis in axes]
            for stage, axes in model.single.items()
        }
        return Tiling(
            self.tile, self.order, len(self.order), levels, reduce_axis, reduce_tile, single, cost, model.adjoining
        )

    def _cost(self, selection: list[LoadOption]) -> float | None:
        """Cycles with these load levels, None if they do not fit; an empty list gets the levels that load the least."""
        model, depth = self.model, len(self.order)
        free = model.capacity.copy()
        free[model.acc_memory.name] -= self.acc
        least = [option[2] for option in selection] if selection else self.least
        for operand, elements in zip(model.problem.operands, least, strict=True):
            free[operand.stage.state.scope] -= elements
        if min(free.values()) < 0:
            return None
        loads: list[OperandLoads] = []
        chosen: list[LoadOption] = []
        for number, operand in enumerate(model.problem.operands):
            scope = operand.stage.state.scope
            free[scope] += least[number]  # the least that later operands take stays reserved
            options = [selection[number]] if selection else self.options[number]
            fitting = [option for option in options if option[2] <= free[scope]]
            doubled = [option for option in fitting if option[2] * (2 if option[3] else 1) <= free[scope]]
            best = min(doubled or fitting)
            if scope in (PARAMETERS, TABLES):  # their loads drain the pipeline: as few as possible
                best = min(fitting, key=lambda each: (each[0], each[3]))
            twice = best in doubled
            chosen.append(best)
            free[scope] -= best[2] * (2 if twice and best[3] else 1)
            loads.append(self._loads(operand, best, twice))
        selection[:] = chosen
        stages = [operand.stage for operand in model.problem.operands]
        levels = {stage: option[3] for stage, option in zip(stages, chosen, strict=True)}
        replaced = [each for stage, each in zip(stages, loads, strict=True) if stage in model.addends]
        copied = sum(
            STEPS_OF_COPY * model.count(stage, self.innermost[stage])
            for stage, operands in model.loaded_only.items()
            if all(levels[each] < depth for each in operands)
        )
        in_place = bool(model.loaded_only) and not copied  # the result overwrites the operand
        free_for_result = model.capacity[model.acc_memory.name] - self.acc if in_place else free[model.acc_memory.name]
        work = TileWork(
            tiles=self.loops.tiles,
            parts=max(self.rounds.values(), default=1),
            steps=self.loops.steps + copied,
            stored=self.loops.stored,
            stores=self.loops.stores,
            planes=model.planes,
            single_buffered=self.acc > free_for_result or not all(each.double_buffered for each in replaced),
            ends=model.ends_in_parts,
            multi_buffered=any(map(self._is_multi_buffered, model.problem.operands, loads)),
        )
        cost = (cycles_with_gemm if model.gemms else cycles_without_gemm)(model.config, loads, work)
        return cost + self._micro_ops(levels) * MICRO_OP

    def _is_multi_buffered(self, operand: LoadedOperand, loads: OperandLoads) -> bool:
        """Whether an operand is weights of each reduction tile that are multi-buffered (``weight_buffer_depth.py``)."""
        rounds, steps = self._rounds(operand), self.loops.steps
        of_weights = operand.stage.state.scope == self.model.problem.target.weights.name
        often = of_weights and loads.double_buffered and loads.times == self.loops.tiles * rounds
        return often and rounds > 1 and rounds % WEIGHT_SLOTS == 0 and steps / 2 < loads.cycles * rounds <= steps

    def _loads(self, operand: LoadedOperand, option: LoadOption, doubled: bool) -> OperandLoads:
        model, stage, (loads, _, count, level) = self.model, operand.stage, option
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
            self._slices(operand, box, rounds) if level < depth else 1,
            instructions,
            stage in model.addends,
        )

    def _slices(self, operand: LoadedOperand, box: Sequence[int], rounds: int) -> float:
        """The size of a load relative to its first slice if it is split by reduction tile; the last may be smaller."""
        physical, reader = self.model.physical[operand.stage], operand.only_consumer
        outside = prod(physical.blocks(dim, 0, box[dim]) for dim in (physical.lanes.rows,) if dim is not None)
        if is_padding(operand.stage, with_zeros=False) or 2 * outside * rounds > MAX_SLICES:
            return 1
        if reader is None or reader not in self.inner:
            return rounds
        extent = self.model.reduction[reader].extent
        rest = extent % self.inner[reader]
        return extent / (extent - rest) if rest else rounds

    def _micro_ops(self, levels: dict[EditedStage, int]) -> float:
        """Estimated micro-ops of GEMMs: rows and columns are loops, and each buffer slot has its own sequence."""
        count = 0.0
        model, loops, depth = self.model, self.loops, len(self.order)
        for stage in model.gemms:
            product = model.plan.gemms[stage.tensor]
            assert product is not None, f"{stage.name} is no GEMM"
            box = loops.boxes[-1][stage]
            column = model.physical[stage].lanes.cols
            blocks = 1 if column is None else model.physical[stage].blocks(column, 0, box[column])
            steps = product.steps(stage.state.computation, model.config) * blocks
            parts = self.rounds.get(stage, 1)
            operands = (each.stage for each in model.problem.operands if stage in each.consumers)
            weights = next((each for each in operands if each.state.scope == model.problem.target.weights.name), None)
            resident = weights is not None and levels[weights] < depth
            count += steps * (2 if loops.tiles > 1 else 1) * (2 if resident else 2 / parts if parts > 1 else 1)
        return count


__all__ = ["evaluated", "fits"]
