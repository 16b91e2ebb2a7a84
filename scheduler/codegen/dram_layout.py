"""DRAM layout: the address and the physical layout of each tensor, and the vectors as which each stage accesses it.

The host packs an input once for each layout that its consumers need. A tensor that the program itself stores and loads
again has one layout: that of the store, in column blocks wide enough for the widest vector that a consumer loads.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.memory import PAGE_BYTES
from lathe.frontend import Tensor
from lathe.frontend.expr.nodes import ReadAccess, Undef
from lathe.isa import Segment
from lathe.isa.layout_steps import LayoutStep
from lathe.isa.table import Opcode, placements
from lathe.scheduler.errors import BuildError, ScheduleError
from lathe.scheduler.isel.chunk import BufferView
from lathe.scheduler.layout.layout_assignment import LayoutAssignment
from lathe.scheduler.layout.layout_transfer import operand_layout
from lathe.scheduler.layout.match_gemm import gemm_operand_layout
from lathe.scheduler.layout.physical_layout import PhysicalLayout, scratchpad_layout, split_dims_of
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.storage_layout import stored_shape_and_layout
from lathe.scheduler.layout.store_forms import PLANES, forms_loadable_vectors, forms_weight_vectors
from lathe.scheduler.layout.vector_relayout import positions
from lathe.scheduler.layout.zero_padding_analysis import zero_padded_tensors
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.rewriting.index_maps import index_map
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, PARAMETERS, TABLES, WGT
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of
from lathe.scheduler.target.target import Target


class DramLayout:
    """The ``segments`` of inputs, constants, outputs and temporaries; ``place`` finds the buffer of a tensor."""

    def __init__(
        self,
        schedule: ScheduleView,
        config: HardwareConfig,
        plan: LayoutAssignment,
        constants: Mapping[str, NDArray[Any]],
        views: Mapping[Tensor, Tensor],
    ) -> None:
        self.schedule = schedule
        self.config = config
        self.target = Target(config)
        self.plan = plan
        self.lanes = plan.layouts
        self.constants = constants
        self.views = views
        self.zeros_behind = zero_padded_tensors(schedule, plan)
        self.segments: list[Segment] = []
        self._places: dict[tuple[Tensor, StageView], BufferView] = {}
        self._shared: dict[StorageBuffer, tuple[int, PhysicalLayout]] = {}
        self._recurrent = (
            {stage for group in recurrence_groups(schedule) for stage in group} if schedule.has_recurrences else set()
        )
        self._address = PAGE_BYTES
        self.grain = max(PAGE_BYTES, config.wgt_element_bytes, config.acc_element_bytes)
        """The alignment of segments in bytes."""
        for tensor in _placeholders(schedule):
            self._add_placeholder(tensor)
        self._wholes = concat_slices(schedule)
        self._together = concat_groups(schedule)
        self._stored: dict[Tensor, tuple[int, PhysicalLayout]] = {}
        for stage in schedule.stages:
            if stage.state.scope == DRAM:
                for tensor in stage.state.tensors:
                    self._add_stored(tensor, stage)

    def place(self, tensor: Tensor, stage: StageView) -> BufferView | None:
        """Where the stage reads or writes the tensor in DRAM, in vectors of the scratchpad that it moves to or from."""
        return self._places.get((tensor, stage))

    def _segment(
        self, tensor: Tensor, role: str, form: PhysicalLayout, storage: str, cells: tuple[LayoutStep, ...] = ()
    ) -> int:
        """Add a segment; returns its address."""
        viewed = self.views.get(tensor, tensor)
        transformed = self.schedule.layouts.get(viewed, TensorLayout(viewed))
        named = transformed.tensor
        layout = form.layout(named, storage, (*transformed.array_steps, *cells))
        address = self._address = -(-self._address // self.grain) * self.grain
        taken = {segment.name for segment in self.segments}
        name, count = named.name, 1
        while name in taken:
            count += 1
            name = f"{named.name}.{count}"
        elements = placements(self.config, Opcode.LOAD)["dram_base"].highest + 1
        limit = self.config.uop_element_bytes * elements  # micro-ops and instructions come last
        if address + layout.nbytes >= limit:
            raise BuildError(
                f"Cannot place tensor {name!r} in DRAM: it would end at byte {address + layout.nbytes}, and "
                f"instructions cannot address byte {limit} and above. Build several smaller programs.",
                kind="machine",
            )
        speculative = role in ("output", "temporary") and self._is_loaded_early(tensor, transformed)
        self.segments.append(Segment(name, role, address, layout.nbytes, layout, named.name, speculative))
        self._address += layout.nbytes
        return address

    def _is_loaded_early(self, tensor: Tensor, layout: TensorLayout) -> bool:
        """Whether a cell may be loaded before it is complete, or without ever being stored.

        That happens to states of recurrences, to padding without a value, and to cells outside a condition. A stage in
        a loop does not compute padding that its consumers do not read, even with a value.
        """
        stage = self.schedule.producer(tensor)
        location = None if stage is None else stage.state.attachment
        in_loop = location is not None and not location.loops
        pads = [pad for pad in layout.pads if pad is not None]
        unset = any(in_loop or pad.value is None or isinstance(pad.value, Undef) for pad in pads)
        return unset or stage in self._recurrent or (stage is not None and stage.id in self.schedule.speculatable)

    def _add_placeholder(self, tensor: Tensor) -> None:
        named = self.views.get(tensor, tensor)
        role = "constant" if named.name in self.constants else "input"
        addresses: dict[object, int] = {}
        for stage, form, scope in self._forms(tensor):
            storage = "int32" if scope in (ACC, PARAMETERS) and tensor.dtype != "int8" else ""
            key = (_bytes_of(form), storage)
            if key not in addresses:
                addresses[key] = self._segment(tensor, role, form, storage)
            size = form.element.lanes * (4 if storage else 1)
            self._places[tensor, stage] = _view(form, addresses[key] // size, storage, zeros=True)

    def _forms(self, tensor: Tensor) -> list[tuple[StageView, PhysicalLayout, str]]:
        """How each consumer of a placeholder needs it: stage, layout and scratchpad."""
        found: dict[StageView, tuple[PhysicalLayout, str]] = {}
        for stage in self.schedule.consumers(tensor):
            for access in stage.state.computation.reads:
                if access.tensor is not tensor:
                    continue
                own, scope = self._needed_layout(stage, access)
                outside = split_dims_of(self.schedule, tensor.shape, own)
                form = scratchpad_layout(tensor.shape, own, self.target.vector_type_in(scope), outside)
                if found.setdefault(stage, (form, scope)) != (form, scope):
                    raise BuildError(
                        f"Cannot lay out input {tensor.name!r} for stage {stage.name}: two reads of the stage need "
                        "different layouts. Give the program two inputs, and pass the array twice.",
                        kind="limit",
                    )
        return [(stage, form, scope) for stage, (form, scope) in found.items()]

    def _needed_layout(self, stage: StageView, access: ReadAccess) -> tuple[VectorLayout, str]:
        """The vector layout and the scratchpad in which a stage needs a tensor that it reads."""
        computation = stage.state.computation
        gemm = self.plan.gemms[stage.tensor]
        if gemm is not None and (access.node is gemm.data or access.node is gemm.weight):
            scope = self.target.memory_of(gemm, access.node).name
            return gemm_operand_layout(gemm, scope, self.config), scope
        lanes = operand_layout(computation, access, self.lanes[stage.tensor], self.config)
        scope = own_operands(computation, self.config).get(access.node, stage.state.scope)
        return lanes, ACC if scope == DRAM else scope

    def _add_stored(self, tensor: Tensor, stage: StageView) -> None:
        """Lay out a tensor that the program stores, once, so that the vectors of each consumer are contiguous."""
        if tensor in self._stored:
            return
        own = self.target.acc.vector_type
        scopes = {consumer: consumer.state.scope for consumer in self.schedule.consumers(tensor)}
        for consumer, scope in scopes.items():
            if scope in (PARAMETERS, TABLES):
                what = "parameters" if scope == PARAMETERS else "table"
                raise BuildError(
                    f"{what} {consumer.name} must be an input of the program, not {tensor.name!r}, which {stage.name} "
                    f"computes: STORE cannot write vectors of {scope}. Compute it on the host, or build two programs.",
                    kind="machine",
                )
        consumers = [each for one in self._together.get(tensor, (tensor,)) for each in self.schedule.consumers(one)]
        widest = max(
            self.target.vector_type_in(scope).cols for scope in (DRAM, *(each.state.scope for each in consumers))
        )
        storage = "planes" if tensor.dtype in PLANES else ""
        role = "output" if tensor in self.schedule.outputs else "temporary"
        lanes, tallest = self.lanes[tensor], own.rows
        weights: VectorLayout | None = None
        for consumer in (consumer for consumer, scope in scopes.items() if scope == WGT):
            wanted = self._as_weights(tensor, stage, consumer)
            if weights is not None and wanted != weights:
                raise BuildError(
                    f"Cannot load {tensor.name!r} as weights {consumer.name}: a stored tensor has one layout, but "
                    f"these weights need rows along dimension {wanted.rows}, and those of another GEMM along dimension "
                    f"{weights.rows}. Make the other operand of one GEMM the weights.",
                    kind="limit",
                )
            lanes, tallest, weights = wanted, self.target.weights.vector_type.rows, wanted

        converted = any(self.lanes[each.tensor].conversions == 0 for each in consumers)
        ordered = (
            converted or lanes.conversions is not None
        )  # stored in the order that layout conversion needs or returns
        if ordered:
            widest = own.span  # whole blocks for all consumers

        def form(scope: str, turns: int | None) -> PhysicalLayout:
            element = self.target.vector_type_in(scope)
            view, along = stored_shape_and_layout(self.schedule, stage, tensor, lanes, element)
            along = replace(along, conversions=turns)
            whole = self._wholes.get(tensor)  # the tensor that this one is a slice of
            outside = split_dims_of(self.schedule, view if whole is None else whole[0].tensor.shape, along)
            group, stack = widest // element.cols, max(tallest // element.rows, 1)
            apart = positions(self.config) if ordered and turns is None and group > 1 else ()
            return PhysicalLayout(view, along, element, group, stack, outside, positions=apart)

        own_form = form(DRAM, lanes.conversions)
        address = self._stored_segment(tensor, stage, role, own_form, storage)
        self._stored[tensor] = address, own_form
        for user, scope in {stage: DRAM, **scopes}.items():
            turns = lanes.conversions if scope == DRAM else self.lanes[user.tensor].conversions
            seen = form(scope, turns)
            as_stored = turns is not None and turns == (lanes.conversions or 0)
            if not as_stored and not forms_loadable_vectors(self.config, lanes, scope, tensor.shape):
                raise BuildError(
                    f"Cannot load tensor {tensor.name!r} to {scope}: it is stored in vectors of {own.cols} columns, "
                    f"but those of {scope} have {seen.element.cols}, which takes a layout conversion on a machine with "
                    f"batch {own.rows}. Compute it outside the loops of its consumers, where it can be converted; or "
                    "use a machine with block_in equal to block_out, or with batch 1.",
                    kind="machine",
                )
            self._places[tensor, user] = _view(seen, address // seen.element.lanes, storage, self._zeros(tensor, seen))

    def _stored_segment(self, tensor: Tensor, stage: StageView, role: str, form: PhysicalLayout, storage: str) -> int:
        """The address of a tensor that the program stores: in a segment of its own, or of a user buffer.

        A slice of another tensor is stored in the segment of that tensor, whose outermost dimension is column blocks.
        """
        if tensor in self._wholes:
            whole, begin = self._wholes[tensor]
            self._add_stored(whole.tensor, whole)
            address, around = self._stored[whole.tensor]
            assert replace(form, view=around.view) == around, f"{tensor.name} has another layout than {whole.name}"
            blocks = begin // form.step(form.order[0])
            return address + blocks * around.whole()[0][form.order[0]] * form.element.lanes
        stored = stage.state.storage
        if stored is None:
            return self._segment(tensor, role, form, storage)
        users = user_buffers_of(self.schedule.stages)[stored.buffer].users
        if role == "output":
            if len(users) > 1:
                raise BuildError(
                    f"buffer {stored.buffer.name} of output {tensor.name!r} must hold this output only, since the host "
                    f"reads it from dram, not {' and '.join(each.name for each in users)}. Store the others in another "
                    "buffer.",
                    kind="legality",
                )
            return self._segment(tensor, role, form, storage, host_steps(stage, form.view))
        if stored.buffer not in self._shared:
            cells = Tensor(stored.buffer.name, form.view, tensor.dtype)
            self._shared[stored.buffer] = self._segment(cells, role, form, storage), form
        address, first = self._shared[stored.buffer]
        if first != form:
            raise BuildError(
                f"stages stored in buffer {stored.buffer.name} must have one layout in dram, not different ones for "
                f"the consumers of {' and '.join(each.name for each in users)}. Store them in separate buffers.",
                kind="limit",
            )
        return address

    def _zeros(self, tensor: Tensor, form: PhysicalLayout) -> bool:
        """Whether a stored tensor has zeros after its last column, up to the end of the vectors of a layout."""
        cols = form.lanes.cols
        if cols is None or tensor not in self.zeros_behind:
            return False
        return self.target.acc.vector_type.filled(form.view[cols]) == form.element.filled(form.view[cols])

    def _as_weights(self, tensor: Tensor, stage: StageView, consumer: StageView) -> VectorLayout:
        """The vector layout of a computed tensor that is read as weights: its stored vectors are rows of weights."""
        lanes, wanted = self.lanes[tensor], self.lanes[consumer.tensor]
        if not forms_weight_vectors(self.config, lanes, wanted):
            gemm = next(iter(self.schedule.consumers(consumer.tensor)), consumer)
            raise BuildError(
                f"weights of {gemm.name} must be an input of the program, not {tensor.name!r}, which {stage.name} "
                "computes in a vector layout that cannot be loaded as weights. Make the other operand the weights, or "
                "build two programs.",
                kind="limit",
            )
        return wanted


def _view(form: PhysicalLayout, base: int, storage: str, zeros: bool) -> BufferView:
    return BufferView(DRAM, form, base, (0,) * len(form.view), form.view, storage, zeros)


def _placeholders(schedule: ScheduleView) -> list[Tensor]:
    """The placeholders that the stages read, each once, in order."""
    reads = (read.tensor for stage in schedule.stages for read in stage.state.computation.reads)
    return [tensor for tensor in dict.fromkeys(reads) if tensor.computation is None]


def _bytes_of(form: PhysicalLayout) -> object:
    """A key that is equal for layouts with the same bytes: it ignores lanes that do not exist or hold one value."""
    rows, cols = form.element.rows, form.element.cols
    own = (form.lanes.rows if rows > 1 else None, form.lanes.cols if cols > 1 else None)
    spread = (
        form.element.spread_rows and rows > 1 and own[0] is None,
        form.element.spread_cols and cols > 1 and own[1] is None,
    )
    return (
        form.view,
        form.order,
        own,
        form.lanes.conversions,
        rows,
        cols,
        form.group,
        form.stack,
        form.positions,
        spread,
    )


def packed_bytes(segment: Segment, array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a constant's segment."""
    assert segment.layout is not None, f"segment {segment.name} has no layout"
    return segment.layout.pack(np.asarray(array)).view(np.uint8).reshape(-1)


def host_steps(stage: StageView, view: tuple[int, ...]) -> tuple[LayoutStep, ...]:
    """How the host reads the cells of an output. Raises BuildError for a storage map that no reshaping inverts."""
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} is in no user buffer"
    try:
        found = index_map(storage.axes, list(storage.indices), (), stage.name)
    except ScheduleError:
        found = None
    if found is None or found.shape != view:
        raise BuildError(
            f"Cannot unpack output {stage.name!r} on the host: its storage map {storage} is not a one-to-one map of "
            f"its axes, or of axes split by constants, onto a buffer of shape {view}. Store a copy of it instead, with "
            f"s.cache_write({stage.name}, 'dram').",
            kind="limit",
        ) from None
    return found.steps()


def elided_concats(schedule: ScheduleView) -> frozenset[StageView]:
    """Stages that need no instructions: concatenations of stored slices, and scratchpad stages that only these read."""
    found: set[StageView] = set()
    for stage in reversed(schedule.stages):
        consumers = schedule.consumers(stage.tensor)
        unneeded = stage.state.scope != DRAM and consumers and all(each in found for each in consumers)
        if stage.state.concat_of or unneeded:
            found.add(stage)
    return frozenset(found)


def concat_groups(schedule: ScheduleView) -> dict[Tensor, tuple[Tensor, ...]]:
    """For each concatenation without copy, and each of its slices: all of these tensors, which share one layout."""
    groups = [(stage.tensor, *(operand for operand, _ in stage.state.concat_of)) for stage in schedule.stages]
    return {tensor: group for group in groups if len(group) > 1 for tensor in group}


def concat_slices(schedule: ScheduleView) -> dict[Tensor, tuple[StageView, int]]:
    """For each tensor stored as a slice of another: the stage of the other, and the slice's first column."""
    return {tensor: (stage, first) for stage in schedule.stages for tensor, first in stage.state.concat_of}
