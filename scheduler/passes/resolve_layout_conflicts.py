"""Resolve layout conflicts: change vector layouts or insert identity GEMMs until producers and consumers agree.

Layout assignment takes one stage after the other and gives each the layout with the fewest empty lanes. Where a later
stage cannot read that, this searches for the cheapest change that reduces the conflicts: another layout for the
producer or the consumer, alone or with all that it reads, through GEMMs as well; a GEMM computed on the ALU; another
host layout of an input; or an identity GEMM in between, which moves values to other lanes. When no single change helps,
both stages get the scalar layout, one value per vector, which every stage can read. Where even that does not help, as
for a consumer that the user has placed, the conflict stays, and code generation reports it. So the search terminates.
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
from lathe.scheduler.layout.layout_conflicts import layout_obstacles
from lathe.scheduler.layout.layout_transfer import operand_layout
from lathe.scheduler.layout.match_gemm import GemmMatch, ends_with, gemm_operand_layout, reads_operand_memory
from lathe.scheduler.layout.store_forms import forms_loadable_vectors, forms_weight_vectors
from lathe.scheduler.layout.vector_type import largest_block
from lathe.scheduler.layout.zero_padding_analysis import is_loaded_with_zeros, is_program_input, zero_padded_tensors
from lathe.scheduler.passes.align_input_slices import align_input, is_original_input, misaligned_elements
from lathe.scheduler.passes.identity_gemm import insert_identity_gemm
from lathe.scheduler.passes.insert_layout_conversions import can_convert_layout
from lathe.scheduler.passes.lower_sum_to_gemm import undo_sum_to_gemm
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.strided_access import StridedElements
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import StageState, VectorLayout
from lathe.scheduler.target.target import Target

LARGEST_IDENTITY = 256
"""The largest extent for which an identity GEMM is tried: its work and weights grow with the square of that."""
LARGEST_SELECTION = 1024
"""The same where a slice starts within a vector, so that no other layout helps."""


def resolve_layout_conflicts(schedule: Edit, target: Target) -> None:
    """Change layouts of unscheduled stages, in place, that conflict with those of producers or consumers.

    Identity matrices that this adds become constants of the program.
    """
    resolver = _Resolver(schedule, target)
    resolver.run()
    identities = {tensor: _identity(*each) for each, tensor in resolver.identities.items()}
    schedule.update(constants={**schedule.state.constants, **identities})
    undo_sum_to_gemm(schedule, target)


def _identity(extent: int, selected: StridedElements) -> NDArray[np.int8]:
    columns = selected.first + selected.step * np.arange(selected.count)
    return np.eye(extent, dtype=np.int8)[:, columns]


def find_layout_conflict(schedule: Edit, target: Target) -> str | None:
    """A tensor that is computed in one layout and read in another, by stages of which one is free to change."""
    resolver = _Resolver(schedule, target)
    _, conflicts = resolver.find_conflicts()
    free = (each for each in conflicts if resolver.is_free(each.producer) or resolver.is_free(each.consumer))
    one = next(free, None)
    return None if one is None else f"{one.consumer.name} reads {one.tensor.name} in another layout than it has"


def count_layout_conflicts(schedule: Edit, target: Target) -> int:
    """The number of layout conflicts, by weight, in the layouts that are assigned so far."""
    return sum(map(_weight, _Resolver(schedule, target).find_conflicts()[1]))


@dataclass(frozen=True)
class _Conflict:
    """``consumer`` reads ``tensor``, at ``reads``, in another vector layout than ``producer`` computes it in."""

    producer: EditedStage
    consumer: EditedStage
    tensor: Tensor
    reads: tuple[Read, ...]


def _weight(one: _Conflict) -> int:
    """The weight of a conflict: double for 32-bit values, which no GEMM can move to other lanes."""
    return 1 if one.tensor.dtype == "int8" else 2


class _Resolver:
    def __init__(self, schedule: Edit, target: Target) -> None:
        self.schedule = schedule
        self.target = target
        self.step = largest_block(target.config)
        self.identities: dict[tuple[int, StridedElements], Tensor] = {}
        self.scalar: set[EditedStage] = set()
        """Stages that only the scalar layout helped: with another layout again, the search would not terminate."""

    def run(self) -> None:
        unresolvable: set[tuple[EditedStage, EditedStage, Tensor]] = set()
        while True:
            plan, conflicts = self.find_conflicts()
            unseen = (each for each in conflicts if (each.producer, each.consumer, each.tensor) not in unresolvable)
            one = next((each for each in unseen if self.is_free(each.producer) or self.is_free(each.consumer)), None)
            if one is None:
                return
            best: tuple[float, Callable[[], None]] | None = None
            for change in (*self._alignments(one), *self._relayouts(one), *self._gemms(one, plan)):
                before = self.schedule.state
                change()
                changed, rest = self.find_conflicts()
                cost = sum(self._cost(stage, changed) for stage in self.schedule.stages) * (1 + sum(map(_weight, rest)))
                self.schedule.reset_to(before)
                if self._keeps_gemms(plan, changed) and len(rest) < len(conflicts) and (best is None or cost < best[0]):
                    best = cost, change
            if best is not None:
                best[1]()
                continue
            scalar = {stage: self._scalar(stage, plan) for stage in (one.producer, one.consumer) if self.is_free(stage)}
            if all(stage.state == state for stage, state in scalar.items()):
                unresolvable.add((one.producer, one.consumer, one.tensor))
            for stage, state in scalar.items():
                stage.put(state)
            self.scalar |= scalar.keys()

    def _keeps_gemms(self, plan: LayoutAssignment, changed: LayoutAssignment) -> bool:
        """Whether stages with an operand in a GEMM scratchpad that were GEMMs still are."""
        placed = (stage.tensor for stage in self.schedule.stages if reads_operand_memory(stage))
        return all(changed.gemms[each] is not None or plan.gemms[each] is None for each in placed)

    def is_free(self, stage: EditedStage) -> bool:
        """Whether a stage may get another layout: the user has fixed nothing of it, and it is not scalar already."""
        state = stage.state
        if state.is_vectorized or stage in self.scalar:
            return False
        is_scalar = state.vector_layout == VectorLayout(None, None) and (
            state.on_alu or match_gemm_operands(state.computation) is None
        )
        return state.scope == DRAM and state.pragma is None and not is_scalar

    def find_conflicts(self) -> tuple[LayoutAssignment, list[_Conflict]]:
        """The layout assignment as decided so far, and its conflicts."""
        plan = assign_layouts(self.schedule, self.target.config)
        zeros = zero_padded_tensors(self.schedule, plan)
        conflicts: list[_Conflict] = []
        weights: dict[Tensor, VectorLayout] = {}
        for stage in self.schedule.stages:
            gemm = plan.gemms[stage.state.tensor]
            if gemm is not None:
                for read in self._unfit_operands(gemm, plan, zeros, weights):
                    conflicts.append(
                        _Conflict(self.schedule.producer(read.tensor) or stage, stage, read.tensor, (read,))
                    )
                continue
            for tensor in layout_obstacles(stage.state, plan.layouts, self.target.acc.vector_type, self.target.config):
                reads = tuple(read.node for read in stage.state.computation.reads if read.tensor is tensor)
                conflicts.append(_Conflict(self.schedule.producer(tensor) or stage, stage, tensor, reads))
        return plan, conflicts

    def _unfit_operands(
        self, gemm: "GemmMatch", plan: LayoutAssignment, zeros: set[Tensor], weights: dict[Tensor, VectorLayout]
    ) -> list[Read]:
        """Computed operands of a GEMM that are stored in another layout than it loads.

        ``weights`` collects the layouts of weights: a stored tensor has one form for all consumers, so all GEMMs with
        the same weights need the same rows.
        """
        target, config = self.target, self.target.config
        unfit: list[Read] = []
        unpadded: list[bool] = []  # whether the host adds no zeros after the reduced elements of an operand
        for memory, read in ((target.data, gemm.data), (target.weights, gemm.weight)):
            tensor = read.tensor
            ours = not is_program_input(self.schedule, tensor)
            unpadded.append(ours or (gemm.inner is not None and not ends_with(read, gemm.inner)))
            producer = self.schedule.producer(tensor)
            if producer is None:
                continue
            actual, wanted = plan.layouts[tensor], gemm_operand_layout(gemm, memory.name, config)
            if memory is target.weights:
                fits = not ours or forms_weight_vectors(config, actual, wanted)
                fits = fits and (not ours or weights.setdefault(tensor, wanted) == wanted)
            else:
                fits = actual.cols == wanted.cols and (memory.vector_type.rows == 1 or actual.rows == wanted.rows)
                if ours and not forms_loadable_vectors(config, actual, memory.name, tensor.shape):
                    fits = fits and actual.cols is not None and can_convert_layout(self.schedule, tensor)
            if is_loaded_with_zeros(self.schedule, tensor):
                fits = fits and not layout_obstacles(producer.state, {tensor: wanted}, memory.vector_type, config)
            unfit += [read] * (not fits)
        if not unfit and all(unpadded) and not self._is_covered(gemm, zeros):
            computed = self.schedule.producer(gemm.weight.tensor) is not None
            unfit.append(gemm.weight if computed else gemm.data)
        return unfit

    def _is_covered(self, gemm: "GemmMatch", zeros: set[Tensor]) -> bool:
        """Whether the lanes along the reduction hold values or zeros throughout, in one operand at least."""
        if gemm.inner is None:
            return False
        extent = gemm.inner.extent
        whole = self.target.data.vector_type.filled(extent)
        if whole == extent:
            return True
        as_stored = self.target.acc.vector_type.filled(extent)
        return as_stored == whole and bool({gemm.data.tensor, gemm.weight.tensor} & zeros)

    def _relayouts(self, one: _Conflict) -> Iterator[Callable[[], None]]:
        """Other layouts for the producer or the consumer, alone or with all that it reads."""
        possible_lanes = self.target.acc.vector_type.possible_lanes
        for stage in dict.fromkeys((one.producer, one.consumer)):
            if not self.is_free(stage):
                continue
            state = stage.state
            has_choice = match_gemm_operands(state.computation) is not None and not reads_operand_memory(stage)
            for on_alu in (False, True) if has_choice else (state.on_alu,):
                for lanes in possible_lanes(range(len(state.computation.axes))):
                    if (lanes, on_alu) != (state.vector_layout, state.on_alu):
                        yield partial(stage.put, replace(state, vector_layout=lanes, on_alu=on_alu))
            if match_gemm_operands(state.computation) is None:
                for lanes in possible_lanes(range(len(state.computation.axes))):
                    yield partial(self._put_all, stage, lanes)

    def _put_all(self, stage: EditedStage, lanes: VectorLayout, done: tuple[EditedStage, ...] = ()) -> None:
        """Give a stage a layout, and its operands the layouts that follow from that, through GEMMs as well.

        ``done``: the stages that already have one on the way here, as around a recurrence, and keep it.
        """
        stage.change(vector_layout=lanes)
        done = *done, stage
        for tensor, wanted in self._operand_layouts(stage, lanes):
            owner = self.schedule.producer(tensor)
            if owner is not None and owner not in done and self.is_free(owner) and owner.state.vector_layout != wanted:
                self._put_all(owner, wanted, done)

    def _operand_layouts(self, stage: EditedStage, lanes: VectorLayout) -> Iterator[tuple[Tensor, VectorLayout]]:
        """The operands of a stage, each in the layout that goes with the stage's own."""
        config = self.target.config
        computation = stage.state.computation
        if match_gemm_operands(computation) is None or stage.state.on_alu:
            for access in computation.reads:
                yield access.tensor, operand_layout(computation, access, lanes, config)
            return
        gemm = assign_layouts(self.schedule, config).gemms[stage.tensor]
        if gemm is not None:
            for memory, read in ((self.target.data, gemm.data), (self.target.weights, gemm.weight)):
                yield read.tensor, gemm_operand_layout(gemm, memory.name, config)

    def _gemms(self, one: _Conflict, plan: LayoutAssignment) -> Iterator[Callable[[], None]]:
        """An identity GEMM in between, in any layout."""
        tensor, cols = one.tensor, plan.layouts[one.tensor].cols if one.producer is not one.consumer else None
        states = (one.producer.state, one.consumer.state)
        if one.producer is one.consumer or tensor.dtype != "int8" or any(state.attachment for state in states):
            return
        if not self.is_free(one.consumer) and one.consumer.state.vector_layout != VectorLayout(None, None):
            return
        for dim in range(tensor.ndim) if cols is None else (cols,):
            slice_ = misaligned_elements(one.reads, dim, self.step)
            if tensor.shape[dim] > (LARGEST_SELECTION if slice_ else LARGEST_IDENTITY):
                continue
            for lanes in self.target.acc.vector_type.possible_lanes(range(tensor.ndim)):
                yield partial(self._convert, one, dim, slice_, lanes, cols is None)

    def _convert(
        self, one: _Conflict, dim: int, slice_: StridedElements | None, lanes: VectorLayout, on_alu: bool
    ) -> None:
        extent = one.tensor.shape[dim]
        selected = slice_ or StridedElements(0, 1, extent)
        key = extent, selected
        if key not in self.identities:
            name = fresh_name(self.schedule, f"identity{extent}", [each.name for each in self.identities.values()])
            self.identities[key] = Tensor(name, (extent, selected.count), "int8")
        insert_identity_gemm(self.schedule, one.consumer, one.reads, dim, selected, self.identities[key], lanes, on_alu)

    def _alignments(self, one: _Conflict) -> Iterator[Callable[[], None]]:
        """Host layouts of an input in which what is read starts at a vector boundary."""
        if one.producer is not one.consumer or not is_original_input(self.schedule, one.tensor):
            return
        for dim in range(one.tensor.ndim):
            slice_ = misaligned_elements(one.reads, dim, self.step)
            if slice_ is not None:
                yield partial(align_input, self.schedule, one.consumer, one.reads, dim, slice_, self.step)

    def _scalar(self, stage: EditedStage, plan: LayoutAssignment) -> StageState:
        gemm = plan.gemms[stage.state.tensor]
        on_alu = gemm is None or self.schedule.producer(gemm.weight.tensor) is not None
        on_alu = on_alu and not reads_operand_memory(stage)
        return replace(stage.state, vector_layout=VectorLayout(None, None), on_alu=on_alu)

    def _cost(self, stage: EditedStage, plan: LayoutAssignment) -> float:
        """Estimated cycles of a stage."""
        computation, lanes = stage.state.computation, plan.layouts[stage.state.tensor]
        gemm, element = plan.gemms[stage.state.tensor], self.target.acc.vector_type
        vectors = prod(-(-axis.extent // element.block(lanes, dim)) for dim, axis in enumerate(computation.axes))
        if gemm is not None:
            return vectors * (gemm.steps(computation, self.target.config) + 1)
        taps = prod(axis.extent for axis in computation.reduce_axes)
        return vectors * (2 + 4 * taps if computation.reduce_axes else 2)
