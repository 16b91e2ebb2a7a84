"""Tensors in DRAM: how each lies there, at which address, and as which elements each stage sees it.

An input is laid out by the host once for each form that its readers need. What the program itself stores and loads
again has one form: that of the store, in columns wide enough for the widest element that a reader takes from it.
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
from lathe.scheduler.codegen.concat_aliases import stored_together, wholes_of_parts
from lathe.scheduler.codegen.output_unpacking import host_steps
from lathe.scheduler.errors import BuildError
from lathe.scheduler.isel.chunk import BufferView
from lathe.scheduler.layout.layout_assignment import LayoutAssignment
from lathe.scheduler.layout.layout_transfer import lanes_read
from lathe.scheduler.layout.match_gemm import lanes_of_operand
from lathe.scheduler.layout.physical_layout import PhysicalLayout, form_in, outside_of
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.storage_layout import shape_and_lanes
from lathe.scheduler.layout.store_forms import PLANES, stores_make_elements, stores_make_weights
from lathe.scheduler.layout.vector_relayout import positions
from lathe.scheduler.layout.zero_padding_analysis import tensors_with_zeros_behind
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, PARAMETERS, TABLES, WGT
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_ir.user_buffers import storages_of
from lathe.scheduler.target.target import Target


class DramLayout:
    """``segments`` of inputs, constants, outputs and temporaries; ``place`` says where a stage finds a tensor."""

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
        self.lanes = plan.known
        self.constants = constants
        self.views = views
        self.zeros_behind = tensors_with_zeros_behind(schedule, plan)
        self.segments: list[Segment] = []
        self._places: dict[tuple[Tensor, StageView], BufferView] = {}
        self._shared: dict[StorageBuffer, tuple[int, PhysicalLayout]] = {}
        self._circling = (
            {stage for circle in recurrence_groups(schedule) for stage in circle} if schedule.has_recurrences else set()
        )
        self._address = PAGE_BYTES
        self.grain = max(PAGE_BYTES, config.wgt_element_bytes, config.acc_element_bytes)
        """Segments begin at multiples of so many bytes."""
        for tensor in _placeholders(schedule):
            self._add_placeholder(tensor)
        self._wholes = wholes_of_parts(schedule)
        self._together = stored_together(schedule)
        self._stored: dict[Tensor, tuple[int, PhysicalLayout]] = {}
        for stage in schedule.stages:
            if stage.state.scope == DRAM:
                for tensor in stage.state.tensors:
                    self._add_stored(tensor, stage)

    def place(self, tensor: Tensor, stage: StageView) -> BufferView | None:
        """Where the stage reads or writes the tensor in DRAM, in elements of the scratchpad at the other end."""
        return self._places.get((tensor, stage))

    def _segment(
        self, tensor: Tensor, role: str, form: PhysicalLayout, storage: str, cells: tuple[LayoutStep, ...] = ()
    ) -> int:
        """Add a segment; its address."""
        seen = self.views.get(tensor, tensor)
        transformed = self.schedule.layouts.get(seen, TensorLayout(seen))
        named = transformed.tensor
        layout = form.layout(named, storage, (*transformed.reorderings, *cells))
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
                f"tensors of a program must end below byte {limit} of DRAM, {name!r} not at byte "
                f"{address + layout.nbytes}: instructions cannot name later addresses. Build the program in parts.",
                kind="machine",
            )
        early = role in ("output", "temporary") and self._is_loaded_early(tensor, transformed)
        self.segments.append(Segment(name, role, address, layout.nbytes, layout, named.name, early))
        self._address += layout.nbytes
        return address

    def _is_loaded_early(self, tensor: Tensor, layout: TensorLayout) -> bool:
        """Whether an element may be loaded before it is whole, or where there is none.

        States go round, padding may hold nothing, and conditions may leave cells out. Padding with a contract is not
        made where a stage computes what others read, and these do not read it.
        """
        maker = self.schedule.maker(tensor)
        place = None if maker is None else maker.state.attachment
        parts = place is not None and not place.loops
        pads = [pad for pad in layout.pads if pad is not None]
        blank = any(parts or pad.value is None or isinstance(pad.value, Undef) for pad in pads)
        return blank or maker in self._circling or (maker is not None and maker.id in self.schedule.speculatable)

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
            self._places[tensor, stage] = _place(form, addresses[key] // size, storage, zeros=True)

    def _forms(self, tensor: Tensor) -> list[tuple[StageView, PhysicalLayout, str]]:
        """How each reader of a placeholder needs it: stage, form and scratchpad."""
        found: dict[StageView, tuple[PhysicalLayout, str]] = {}
        for stage in self.schedule.readers(tensor):
            for access in stage.state.computation.reads:
                if access.tensor is not tensor:
                    continue
                own, scope = self._wanted(stage, access)
                outside = outside_of(self.schedule, tensor.shape, own)
                form = form_in(tensor.shape, own, self.target.element_in(scope), outside)
                if found.setdefault(stage, (form, scope)) != (form, scope):
                    raise BuildError(
                        f"input {tensor.name!r} must be laid out in one way for stage {stage.name}, not differently "
                        "for two of its reads. Give the program two inputs and pass the array twice.",
                        kind="limit",
                    )
        return [(stage, form, scope) for stage, (form, scope) in found.items()]

    def _wanted(self, stage: StageView, access: ReadAccess) -> tuple[VectorLayout, str]:
        """The lanes in which a stage needs what it reads, and the scratchpad."""
        computation = stage.state.computation
        product = self.plan.products[stage.tensor]
        if product is not None and (access.node is product.data or access.node is product.weight):
            scope = self.target.memory_of(product, access.node).name
            return lanes_of_operand(product, scope, self.config), scope
        lanes = lanes_read(computation, access, self.lanes[stage.tensor], self.config)
        scope = own_operands(computation, self.config).get(access.node, stage.state.scope)
        return lanes, ACC if scope == DRAM else scope

    def _add_stored(self, tensor: Tensor, stage: StageView) -> None:
        """A tensor that the program stores, in one form for all: what makes an element of any reader's adjoins."""
        if tensor in self._stored:
            return
        own = self.target.near.element
        scopes = {reader: reader.state.scope for reader in self.schedule.readers(tensor)}
        for reader, scope in scopes.items():
            if scope in (PARAMETERS, TABLES):
                what = "parameters" if scope == PARAMETERS else "table"
                raise BuildError(
                    f"{what} {reader.name} must be an input of the program, "
                    f"not {tensor.name!r}, which {stage.name} computes: stores make no elements of {scope}. Compute it "
                    "before, or build the program in two parts.",
                    kind="machine",
                )
        readers = [each for one in self._together.get(tensor, (tensor,)) for each in self.schedule.readers(one)]
        widest = max(self.target.element_in(scope).cols for scope in (DRAM, *(each.state.scope for each in readers)))
        storage = "planes" if tensor.dtype in PLANES else ""
        role = "output" if tensor in self.schedule.outputs else "temporary"
        lanes, tallest = self.lanes[tensor], own.rows
        weights: VectorLayout | None = None
        for reader in (reader for reader, scope in scopes.items() if scope == WGT):
            wanted = self._as_weights(tensor, stage, reader)
            if weights is not None and wanted != weights:
                raise BuildError(
                    f"weights {reader.name} must be the same rows of {tensor.name!r} as its other weights, as a stored "
                    f"tensor has one form, not rows along dimension {wanted.rows} instead of {weights.rows}. Make the "
                    "other operand of one product the weights.",
                    kind="limit",
                )
            lanes, tallest, weights = wanted, self.target.weights.element.rows, wanted

        turned = any(self.lanes[each.tensor].turns == 0 for each in readers)
        ordered = turned or lanes.turns is not None  # as it is, or in the end, it lies as turns need it
        if ordered:
            widest = own.span  # in whole blocks, whoever reads it

        def form(scope: str, turns: int | None) -> PhysicalLayout:
            element = self.target.element_in(scope)
            view, along = shape_and_lanes(self.schedule, stage, tensor, lanes, element)
            along = replace(along, turns=turns)
            whole = self._wholes.get(tensor)  # whose elements the tensor's lie among
            outside = outside_of(self.schedule, view if whole is None else whole[0].tensor.shape, along)
            group, stack = widest // element.cols, max(tallest // element.rows, 1)
            apart = positions(self.config) if ordered and turns is None and group > 1 else ()
            return PhysicalLayout(view, along, element, group, stack, outside, positions=apart)

        own_form = form(DRAM, lanes.turns)
        address = self._stored_segment(tensor, stage, role, own_form, storage)
        self._stored[tensor] = address, own_form
        for user, scope in {stage: DRAM, **scopes}.items():
            turns = lanes.turns if scope == DRAM else self.lanes[user.tensor].turns
            seen = form(scope, turns)
            as_it_lies = turns is not None and turns == (lanes.turns or 0)
            if not as_it_lies and not stores_make_elements(self.config, lanes, scope, tensor.shape):
                raise BuildError(
                    f"tensor {tensor.name!r}, which the program stores and loads again to {scope}, must have elements "
                    f"of equal columns in out and {scope} on a machine with a batch of {own.rows}, not {own.cols} and "
                    f"{seen.element.cols}. Compute it outside of the loops of its readers, where its elements can be "
                    "turned; or use a machine with block_in equal to block_out, or with batch 1.",
                    kind="machine",
                )
            self._places[tensor, user] = _place(seen, address // seen.element.lanes, storage, self._zeros(tensor, seen))

    def _stored_segment(self, tensor: Tensor, stage: StageView, role: str, form: PhysicalLayout, storage: str) -> int:
        """The segment of a tensor that the program stores: its own, or that of a buffer of the user's.

        A part of another tensor lies in the segment of that: blocks of columns come before all others.
        """
        if tensor in self._wholes:
            whole, begin = self._wholes[tensor]
            self._add_stored(whole.tensor, whole)
            address, around = self._stored[whole.tensor]
            assert replace(form, view=around.view) == around, f"{tensor.name} lies otherwise than {whole.name}"
            blocks = begin // form.step(form.order[0])
            return address + blocks * around.whole()[0][form.order[0]] * form.element.lanes
        kept = stage.state.storage
        if kept is None:
            return self._segment(tensor, role, form, storage)
        users = storages_of(self.schedule.stages)[kept.buffer].users
        if role == "output":
            if len(users) > 1:
                raise BuildError(
                    f"buffer {kept.buffer.name} of output {tensor.name!r} must hold nothing else in dram, where the "
                    f"host takes the output from, not {' and '.join(each.name for each in users)}. Store the others in "
                    "another buffer.",
                    kind="legality",
                )
            return self._segment(tensor, role, form, storage, host_steps(stage, form.view))
        if kept.buffer not in self._shared:
            cells = Tensor(kept.buffer.name, form.view, tensor.dtype)
            self._shared[kept.buffer] = self._segment(cells, role, form, storage), form
        address, first = self._shared[kept.buffer]
        if first != form:
            raise BuildError(
                f"stages stored in buffer {kept.buffer.name} must lie in dram in one way, for the same readers, not "
                f"differently for {' and '.join(each.name for each in users)}. Store them in buffers of their own.",
                kind="limit",
            )
        return address

    def _zeros(self, tensor: Tensor, form: PhysicalLayout) -> bool:
        """Whether a stored tensor has zeros behind its last column, as far as the elements of a form go."""
        cols = form.lanes.cols
        if cols is None or tensor not in self.zeros_behind:
            return False
        return self.target.near.element.filled(form.view[cols]) == form.element.filled(form.view[cols])

    def _as_weights(self, tensor: Tensor, stage: StageView, reader: StageView) -> VectorLayout:
        """The lanes of a computed tensor whose stored elements are the rows of elements of weights."""
        lanes, wanted = self.lanes[tensor], self.lanes[reader.tensor]
        if not stores_make_weights(self.config, lanes, wanted):
            product = next(iter(self.schedule.readers(reader.tensor)), reader)
            raise BuildError(
                f"weights of {product.name} must be an input of the program, not {tensor.name!r}, which {stage.name} "
                "computes in other lanes than those of weights. Make the other operand the weights, or build the "
                "program in two parts.",
                kind="limit",
            )
        return wanted


def _place(form: PhysicalLayout, base: int, storage: str, zeros: bool) -> BufferView:
    return BufferView(DRAM, form, base, (0,) * len(form.view), form.view, storage, zeros)


def _placeholders(schedule: ScheduleView) -> list[Tensor]:
    """The placeholders that the stages read now, each once, in order."""
    reads = (read.tensor for stage in schedule.stages for read in stage.state.computation.reads)
    return [tensor for tensor in dict.fromkeys(reads) if tensor.computation is None]


def _bytes_of(form: PhysicalLayout) -> object:
    """What two forms with the same bytes have in common: lanes that exist, and what fills those without values."""
    rows, cols = form.element.rows, form.element.cols
    own = (form.lanes.rows if rows > 1 else None, form.lanes.cols if cols > 1 else None)
    spread = (
        form.element.spread_rows and rows > 1 and own[0] is None,
        form.element.spread_cols and cols > 1 and own[1] is None,
    )
    return (form.view, form.order, own, form.lanes.turns, rows, cols, form.group, form.stack, form.positions, spread)


def packed_bytes(segment: Segment, array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a constant's segment."""
    assert segment.layout is not None, f"segment {segment.name} has no layout"
    return segment.layout.pack(np.asarray(array)).view(np.uint8).reshape(-1)
