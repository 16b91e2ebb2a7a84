"""Lanes that agree: other choices for stages whose lanes, as they were planned, do not go with their neighbours'.

The plan takes stage after stage and gives each the lanes that leave the fewest empty. Where a later stage cannot read
them so, this looks for the cheapest change that leads to fewer disagreements: other lanes for the stage that makes the
tensor or for the one that reads it, or a matrix product done on the ALU. When no single change helps, the two stages
do without lanes: one value per element, the same in all, which every stage can read. So there is always an end.
"""

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.scheduler.dead_lanes import comes_from_host, tensors_with_zeros_behind
from lathe.scheduler.lanes import LanePlan, obstacles_of, plan_lanes
from lathe.scheduler.physical import Lanes
from lathe.scheduler.products import factors, lanes_of_operand
from lathe.scheduler.segments import stores_make_weights
from lathe.scheduler.state import DRAM, StageState, replace

if TYPE_CHECKING:
    from lathe.scheduler.products import Product
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


def agree_on_lanes(schedule: "Schedule", config: HardwareConfig) -> None:
    """Decide lanes, in place, of untouched stages whose planned lanes disagree with what they read or are read by."""
    _Agreement(schedule, config).run()


class _Agreement:
    def __init__(self, schedule: "Schedule", config: HardwareConfig) -> None:
        self.schedule = schedule
        self.config = config
        self.maker = {tensor: stage for stage in schedule.stages for tensor in stage.state.tensors}

    def run(self) -> None:
        while True:
            plan, pairs = self._judged()
            pair = next((pair for pair in pairs if any(self._is_free(stage) for stage in pair)), None)
            if pair is None:
                return
            best: tuple[tuple[int, float], Stage, StageState] | None = None
            for stage, state in self._changes(pair):
                before = stage.state
                stage.state = state
                changed, left = self._judged()
                cost = (len(left), sum(self._work(each, changed) for each in self.schedule.stages))
                stage.state = before
                if best is None or cost < best[0]:
                    best = cost, stage, state
            if best is not None and best[0][0] < len(pairs):
                best[1].state = best[2]
                continue
            for stage in pair:
                if self._is_free(stage):
                    stage.state = self._without_lanes(stage, plan)

    def _is_free(self, stage: "Stage") -> bool:
        """Whether a stage may get other lanes: nobody has placed it, and it has not been left without any."""
        state = stage.state
        return state.scope == DRAM and state.pragma is None and state.lanes != Lanes(None, None)

    def _judged(self) -> "tuple[LanePlan, list[tuple[Stage, Stage]]]":
        """The plan as decided until now, and a pair (maker, reader) of stages for each disagreement."""
        plan = plan_lanes(self.schedule, self.config)
        zeros = tensors_with_zeros_behind(self.schedule, plan)
        pairs: list[tuple[Stage, Stage]] = []
        for stage in self.schedule.stages:
            product = plan.products[stage.state.tensor]
            if product is None:
                found = obstacles_of(stage.state, plan.known, self.config)
            else:
                found = self._unfit_operands(product, plan, zeros)
            pairs += [(self.maker.get(tensor, stage), stage) for tensor in found]
        return plan, pairs

    def _unfit_operands(self, product: "Product", plan: LanePlan, zeros: set[Tensor]) -> list[Tensor]:
        """Computed operands of a matrix product that do not lie as it needs them."""
        config, found = self.config, []
        stored: dict[str, bool] = {}
        for which, read in (("data", product.data), ("weight", product.weight)):
            tensor = read.tensor
            stored[which] = not comes_from_host(self.schedule, tensor)
            if tensor not in self.maker:
                continue
            have, wanted = plan.known[tensor], lanes_of_operand(product, which, config)
            if which == "weight" and stored[which]:
                fits = stores_make_weights(config, have, wanted)
            else:
                fits = have.cols == wanted.cols and (config.batch == 1 or which == "weight" or have.rows == wanted.rows)
                mixed = config.batch > 1 and config.block_in != config.block_out
                fits = fits and not (stored[which] and mixed and have != Lanes(None, None))
            found += [tensor] * (not fits)
        if not found and all(stored.values()) and not self._covers(product, zeros):
            found.append(product.weight.tensor)
        return found

    def _covers(self, product: "Product", zeros: set[Tensor]) -> bool:
        """Whether the summed lanes hold values or zeros throughout, in one operand at least."""
        if product.inner is None:
            return False
        config, extent = self.config, product.inner.extent
        whole = -(-extent // config.block_in) * config.block_in
        if whole == extent:
            return True
        as_stored = -(-extent // config.block_out) * config.block_out
        return as_stored == whole and bool({product.data.tensor, product.weight.tensor} & zeros)

    def _changes(self, pair: "tuple[Stage, Stage]") -> "Iterator[tuple[Stage, StageState]]":
        """Other states for either stage."""
        for stage in dict.fromkeys(pair):
            if not self._is_free(stage):
                continue
            state = stage.state
            dims = range(len(state.computation.axes))
            for on_alu in (False, True) if factors(state.computation) is not None else (state.on_alu,):
                for cols in (*reversed(dims), None):
                    for rows in (None, *dims) if self.config.batch > 1 else (None,):
                        lanes = Lanes(rows, cols)
                        if (rows is None or rows != cols) and (lanes, on_alu) != (state.lanes, state.on_alu):
                            yield stage, replace(state, lanes=lanes, on_alu=on_alu)

    def _without_lanes(self, stage: "Stage", plan: LanePlan) -> StageState:
        product = plan.products[stage.state.tensor]
        on_alu = product is None or product.weight.tensor in self.maker
        return replace(stage.state, lanes=Lanes(None, None), on_alu=on_alu)

    def _work(self, stage: "Stage", plan: LanePlan) -> float:
        """Cycles that a stage takes, about."""
        computation, lanes = stage.state.computation, plan.known[stage.state.tensor]
        product = plan.products[stage.state.tensor]
        blocks = {lanes.rows: self.config.batch, lanes.cols: self.config.block_out}
        elements = prod(-(-axis.extent // blocks.get(dim, 1)) for dim, axis in enumerate(computation.axes))
        steps = prod(axis.extent for axis in computation.reduce_axes)
        if product is None:
            return elements * (2 + 4 * steps if computation.reduce_axes else 2)
        if product.inner is not None:
            steps = steps // product.inner.extent * -(-product.inner.extent // self.config.block_in)
        return elements * (steps + 1)
