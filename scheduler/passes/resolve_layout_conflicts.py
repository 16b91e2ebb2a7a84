"""Lanes that agree: other choices for stages whose lanes, as they were planned, do not go with their neighbours'.

The plan takes stage after stage and gives each the lanes that leave the fewest empty. Where a later stage cannot read
them so, this looks for the cheapest change that leads to fewer disagreements: other lanes for the stage that makes the
tensor or for the one that reads it, by itself or with all that it reads, through products as well; a matrix product
done on the ALU; an input laid out once more; or a product with the identity in between, which moves values from lane to
lane. When no single change helps, the two stages do without lanes: one value per element, the same in all, which every
stage can read. Where even that does not help, as with a reader whose place is given, they are left so, and refused when
instructions are made. So there is always an end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.frontend.expr.nodes import Read
from lathe.scheduler.layout.layout_assignment import LayoutAssignment, assign_layouts
from lathe.scheduler.layout.layout_conflicts import obstacles_of
from lathe.scheduler.layout.layout_transfer import lanes_read
from lathe.scheduler.layout.match_gemm import GemmMatch, ends_with, has_placed_operand, lanes_of_operand
from lathe.scheduler.layout.store_forms import stores_make_elements, stores_make_weights
from lathe.scheduler.layout.vector_type import whole_elements
from lathe.scheduler.layout.zero_padding_analysis import (
    comes_from_host,
    is_loaded_with_zeros,
    tensors_with_zeros_behind,
)
from lathe.scheduler.passes.align_input_slices import may_be_shifted, shift_input, within_blocks
from lathe.scheduler.passes.identity_gemm import insert_identity_gemm
from lathe.scheduler.passes.insert_layout_conversions import can_convert_layout
from lathe.scheduler.passes.lower_sum_to_gemm import undo_sum_to_gemm
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.strided_access import Elements
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import StageState, VectorLayout
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target

LARGEST_IDENTITY = 256
"""The largest extent that a product with the identity is tried for: its work and weights grow with the square."""
LARGEST_SELECTION = 1024
"""The same where a part of a tensor begins within a block of lanes, so that no other lanes help."""


def resolve_layout_conflicts(schedule: Edit, target: Target) -> None:
    """Decide lanes, in place, of untouched stages whose planned lanes disagree with what they read or are read by.

    Identity matrices that this adds as inputs get their values.
    """
    agreement = _Agreement(schedule, target)
    agreement.run()
    identities = {tensor: _identity(*each) for each, tensor in agreement.identities.items()}
    schedule.update(constants={**schedule.state.constants, **identities})
    undo_sum_to_gemm(schedule, target)


def _identity(extent: int, selected: Elements) -> NDArray[np.int8]:
    columns = selected.first + selected.step * np.arange(selected.count)
    return np.eye(extent, dtype=np.int8)[:, columns]


def find_layout_conflict(schedule: Edit, target: Target) -> str | None:
    """A tensor that a stage makes in other lanes than another reads it in, where one of them is free to change."""
    agreement = _Agreement(schedule, target)
    _, found = agreement.judged()
    free = (each for each in found if agreement.is_free(each.maker) or agreement.is_free(each.reader))
    one = next(free, None)
    return None if one is None else f"{one.reader.name} reads {one.tensor.name} in other lanes than it is made in"


def layout_conflicts(schedule: Edit, target: Target) -> int:
    """How many tensors are read in other lanes than they are made in, each as it counts, as planned so far."""
    return sum(map(_weight, _Agreement(schedule, target).judged()[1]))


@dataclass(frozen=True)
class _Disagreement:
    """``reader`` reads tensor ``tensor``, at ``reads``, but not in the lanes in which ``maker`` makes it."""

    maker: EditedStage
    reader: EditedStage
    tensor: Tensor
    reads: tuple[Read, ...]


def _weight(one: _Disagreement) -> int:
    """What a disagreement counts that is left: twice over values of 32 bits, which no product brings to other lanes."""
    return 1 if one.tensor.dtype == "int8" else 2


class _Agreement:
    def __init__(self, schedule: Edit, target: Target) -> None:
        self.schedule = schedule
        self.target = target
        self.step = whole_elements(target.config)
        self.identities: dict[tuple[int, Elements], Tensor] = {}
        self.left_bare: set[EditedStage] = set()
        """Stages that nothing else helped: given lanes again, a product would come here again, and so for ever."""

    def run(self) -> None:
        left_alone: set[tuple[EditedStage, EditedStage, Tensor]] = set()
        while True:
            plan, found = self.judged()
            open_ = (each for each in found if (each.maker, each.reader, each.tensor) not in left_alone)
            one = next((each for each in open_ if self.is_free(each.maker) or self.is_free(each.reader)), None)
            if one is None:
                return
            best: tuple[float, Callable[[], None]] | None = None
            for change in (*self._shifts(one), *self._changes(one), *self._turns(one, plan)):
                before = self.schedule.state
                change()
                changed, left = self.judged()
                cost = sum(self._work(stage, changed) for stage in self.schedule.stages) * (1 + sum(map(_weight, left)))
                self.schedule.reset_to(before)
                if self._leaves_products(plan, changed) and len(left) < len(found) and (best is None or cost < best[0]):
                    best = cost, change
            if best is not None:
                best[1]()
                continue
            bare = {stage: self._without_lanes(stage, plan) for stage in (one.maker, one.reader) if self.is_free(stage)}
            if all(stage.state == state for stage, state in bare.items()):
                left_alone.add((one.maker, one.reader, one.tensor))
            for stage, state in bare.items():
                stage.put(state)
            self.left_bare |= bare.keys()

    def _leaves_products(self, plan: LayoutAssignment, changed: LayoutAssignment) -> bool:
        """Whether what was a product still is one, of stages with an operand where only products read."""
        placed = (stage.tensor for stage in self.schedule.stages if has_placed_operand(stage))
        return all(changed.products[each] is not None or plan.products[each] is None for each in placed)

    def is_free(self, stage: EditedStage) -> bool:
        """Whether a stage may get other lanes: nobody has placed it or its lanes, nor has it been left without any."""
        state = stage.state
        if state.is_vectorized or stage in self.left_bare:
            return False
        bare = state.lanes == VectorLayout(None, None) and (
            state.on_alu or match_gemm_operands(state.computation) is None
        )
        return state.scope == DRAM and state.pragma is None and not bare

    def judged(self) -> tuple[LayoutAssignment, list[_Disagreement]]:
        """The plan as decided until now, and what disagrees."""
        plan = assign_layouts(self.schedule, self.target.config)
        zeros = tensors_with_zeros_behind(self.schedule, plan)
        found: list[_Disagreement] = []
        weights: dict[Tensor, VectorLayout] = {}
        for stage in self.schedule.stages:
            product = plan.products[stage.state.tensor]
            if product is not None:
                for read in self._unfit_operands(product, plan, zeros, weights):
                    found.append(_Disagreement(self.schedule.maker(read.tensor) or stage, stage, read.tensor, (read,)))
                continue
            for tensor in obstacles_of(stage.state, plan.known, self.target.near.element, self.target.config):
                reads = tuple(read.node for read in stage.state.computation.reads if read.tensor is tensor)
                found.append(_Disagreement(self.schedule.maker(tensor) or stage, stage, tensor, reads))
        return plan, found

    def _unfit_operands(
        self, product: "GemmMatch", plan: LayoutAssignment, zeros: set[Tensor], weights: dict[Tensor, VectorLayout]
    ) -> list[Read]:
        """Computed operands of a matrix product that do not lie as it needs them.

        ``weights`` collects the lanes of tensors that are weights: a stored tensor has one form for all that read it,
        so the second product to read one as weights must want the same rows as the first.
        """
        target, config = self.target, self.target.config
        found: list[Read] = []
        cut_short: list[bool] = []  # operands without zeros of the host's behind what is summed
        for memory, read in ((target.data, product.data), (target.weights, product.weight)):
            tensor = read.tensor
            by_us = not comes_from_host(self.schedule, tensor)
            cut_short.append(by_us or (product.inner is not None and not ends_with(read, product.inner)))
            maker = self.schedule.maker(tensor)
            if maker is None:
                continue
            have, wanted = plan.known[tensor], lanes_of_operand(product, memory.name, config)
            if memory is target.weights:
                fits = not by_us or stores_make_weights(config, have, wanted)
                fits = fits and (not by_us or weights.setdefault(tensor, wanted) == wanted)
            else:
                fits = have.cols == wanted.cols and (memory.element.rows == 1 or have.rows == wanted.rows)
                if by_us and not stores_make_elements(config, have, memory.name, tensor.shape):
                    fits = fits and have.cols is not None and can_convert_layout(self.schedule, tensor)
            if is_loaded_with_zeros(self.schedule, tensor):
                fits = fits and not obstacles_of(maker.state, {tensor: wanted}, memory.element, config)
            found += [read] * (not fits)
        if not found and all(cut_short) and not self._covers(product, zeros):
            computed = self.schedule.maker(product.weight.tensor) is not None
            found.append(product.weight if computed else product.data)
        return found

    def _covers(self, product: "GemmMatch", zeros: set[Tensor]) -> bool:
        """Whether the summed lanes hold values or zeros throughout, in one operand at least."""
        if product.inner is None:
            return False
        extent = product.inner.extent
        whole = self.target.data.element.filled(extent)
        if whole == extent:
            return True
        as_stored = self.target.near.element.filled(extent)
        return as_stored == whole and bool({product.data.tensor, product.weight.tensor} & zeros)

    def _changes(self, one: _Disagreement) -> Iterator[Callable[[], None]]:
        """Other lanes for either stage, by itself or with all that it reads."""
        possible_lanes = self.target.near.element.possible_lanes
        for stage in dict.fromkeys((one.maker, one.reader)):
            if not self.is_free(stage):
                continue
            state = stage.state
            either = match_gemm_operands(state.computation) is not None and not has_placed_operand(stage)
            for on_alu in (False, True) if either else (state.on_alu,):
                for lanes in possible_lanes(range(len(state.computation.axes))):
                    if (lanes, on_alu) != (state.lanes, state.on_alu):
                        yield partial(stage.put, replace(state, lanes=lanes, on_alu=on_alu))
            if match_gemm_operands(state.computation) is None:
                for lanes in possible_lanes(range(len(state.computation.axes))):
                    yield partial(self._put_with_sources, stage, lanes)

    def _put_with_sources(self, stage: EditedStage, lanes: VectorLayout, given: tuple[EditedStage, ...] = ()) -> None:
        """Give a stage lanes, and what it reads those that these lead to, through products as well.

        ``given``: the stages that have lanes on the way here already, as around a recurrence, and keep them.
        """
        stage.change(lanes=lanes)
        given = *given, stage
        for tensor, wanted in self._wanted_by(stage, lanes):
            maker = self.schedule.maker(tensor)
            if maker is not None and maker not in given and self.is_free(maker) and maker.state.lanes != wanted:
                self._put_with_sources(maker, wanted, given)

    def _wanted_by(self, stage: EditedStage, lanes: VectorLayout) -> Iterator[tuple[Tensor, VectorLayout]]:
        """What a stage reads, and the lanes of it that go with its own, as they are now."""
        config = self.target.config
        computation = stage.state.computation
        if match_gemm_operands(computation) is None or stage.state.on_alu:
            for access in computation.reads:
                yield access.tensor, lanes_read(computation, access, lanes, config)
            return
        product = assign_layouts(self.schedule, config).products[stage.tensor]
        if product is not None:
            for memory, read in ((self.target.data, product.data), (self.target.weights, product.weight)):
                yield read.tensor, lanes_of_operand(product, memory.name, config)

    def _turns(self, one: _Disagreement, plan: LayoutAssignment) -> Iterator[Callable[[], None]]:
        """A product with the identity in between, of any lanes."""
        tensor, cols = one.tensor, plan.known[one.tensor].cols if one.maker is not one.reader else None
        states = (one.maker.state, one.reader.state)
        if one.maker is one.reader or tensor.dtype != "int8" or any(state.attachment for state in states):
            return
        if not self.is_free(one.reader) and one.reader.state.lanes != VectorLayout(None, None):
            return
        for dim in range(tensor.ndim) if cols is None else (cols,):
            within = within_blocks(one.reads, dim, self.step)
            if tensor.shape[dim] > (LARGEST_SELECTION if within else LARGEST_IDENTITY):
                continue
            for lanes in self.target.near.element.possible_lanes(range(tensor.ndim)):
                yield partial(self._turn, one, dim, within, lanes, cols is None)

    def _turn(self, one: _Disagreement, dim: int, within: Elements | None, lanes: VectorLayout, on_alu: bool) -> None:
        extent = one.tensor.shape[dim]
        selected = within or Elements(0, 1, extent)
        key = extent, selected
        if key not in self.identities:
            name = fresh_name(self.schedule, f"identity{extent}", [each.name for each in self.identities.values()])
            self.identities[key] = Tensor(name, (extent, selected.count), "int8")
        insert_identity_gemm(self.schedule, one.reader, one.reads, dim, selected, self.identities[key], lanes, on_alu)

    def _shifts(self, one: _Disagreement) -> Iterator[Callable[[], None]]:
        """An input laid out so that what is read of it begins with a block."""
        if one.maker is not one.reader or not may_be_shifted(self.schedule, one.tensor):
            return
        for dim in range(one.tensor.ndim):
            within = within_blocks(one.reads, dim, self.step)
            if within is not None:
                yield partial(shift_input, self.schedule, one.reader, one.reads, dim, within, self.step)

    def _without_lanes(self, stage: EditedStage, plan: LayoutAssignment) -> StageState:
        product = plan.products[stage.state.tensor]
        on_alu = product is None or self.schedule.maker(product.weight.tensor) is not None
        on_alu = on_alu and not has_placed_operand(stage)
        return replace(stage.state, lanes=VectorLayout(None, None), on_alu=on_alu)

    def _work(self, stage: EditedStage, plan: LayoutAssignment) -> float:
        """Cycles that a stage takes, about."""
        computation, lanes = stage.state.computation, plan.known[stage.state.tensor]
        product, element = plan.products[stage.state.tensor], self.target.near.element
        elements = prod(-(-axis.extent // element.block(lanes, dim)) for dim, axis in enumerate(computation.axes))
        if product is not None:
            return elements * (product.steps(computation, self.target.config) + 1)
        steps = prod(axis.extent for axis in computation.reduce_axes)
        return elements * (2 + 4 * steps if computation.reduce_axes else 2)
