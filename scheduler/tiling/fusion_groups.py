"""Fusion groups: stages computed together, of which the last is stored and the others stay in acc or are loaded.

A group ends in a stage that is stored to DRAM (an output, or one that a reduction, padding or several groups read) and
has the element-wise stages and the reduction before it. An ALU reduction over disjoint windows, such as 2×2 max
pooling, reads each value once, and is fused with its producer.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lathe.configs.encoding import PAD_VALUE
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Cast, Const, Select
from lathe.scheduler.layout.disjoint_windows import reads_disjoint_windows
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.spatial_dims import gathers
from lathe.scheduler.layout.zero_padding_analysis import is_program_input
from lathe.scheduler.rewriting.matchers import is_plain_read, match_gemm_operands
from lathe.scheduler.rewriting.rewrite import redirect_reads, with_new_axes
from lathe.scheduler.rewriting.undef import without_undef
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.target.target import Target


def is_unscheduled_stage(stage: EditedStage) -> bool:
    """Whether a stage is still to be scheduled by the passes: in DRAM, at the root, without a pragma."""
    state = stage.state
    return state.scope == DRAM and state.pragma is None and state.attachment is None


@dataclass
class FusionGroup:
    """Stages computed together: ``sink`` is stored, ``inner`` stay in acc, ``pads`` become loads with padding."""

    sink: EditedStage
    inner: list[EditedStage]
    pads: list[EditedStage]

    def cut(self, stage: EditedStage) -> "list[FusionGroup]":
        """Split the group after an inner stage, which is stored, and which the second group loads.

        A padding stage that both load becomes a group of its own; ``split_group`` duplicates it instead.
        """
        schedule, before = self.sink.schedule, {stage}
        for each in reversed(self.inner):  # producers precede their consumers
            if before & set(schedule.consumers(each.tensor)):
                before.add(each)
        first = FusionGroup(stage, [each for each in self.inner if each in before and each is not stage], [])
        rest = FusionGroup(self.sink, [each for each in self.inner if each not in before], [])
        stored: list[FusionGroup] = []
        for pad in self.pads:
            readers = set(schedule.consumers(pad.tensor))
            if readers <= before:
                first.pads.append(pad)
            elif readers & before:
                stored.append(FusionGroup(pad, [], []))
            else:
                rest.pads.append(pad)
        return [*stored, first, rest]


def split_group(schedule: Edit, group: FusionGroup, stage: EditedStage) -> list[FusionGroup]:
    """Split a group after an inner stage, and duplicate padding stages that both groups load; the two groups."""
    *shared, first, rest = group.cut(stage)
    for pad in (each.sink for each in shared):
        computation = with_new_axes(pad.state.computation, fresh_name(schedule, f"{pad.name}.again"))
        duplicate = schedule.insert(
            replace(initial_state(computation), vector_layout=pad.state.vector_layout), before=pad
        )
        instead = {pad.tensor: duplicate.tensor}
        for reader in (*first.inner, first.sink):
            if pad.tensor in {read.tensor for read in reader.state.computation.reads}:
                reader.change(computation=redirect_reads(reader.state.computation, instead))
        first.pads.append(duplicate)
        rest.pads.append(pad)
    return [first, rest]


def is_padding(stage: StageView, with_zeros: bool = True) -> bool:
    """Whether a stage is padding: it copies data under a condition and is 0 elsewhere, as a LOAD with padding does.

    Unless ``with_zeros``, it may be any constant elsewhere: in acc, copies and constant fills compute that.
    """
    if len(stage.state.computation.bodies) != 1:
        return False
    body = stage.state.computation.bodies[0]
    has_select = False
    while isinstance(body, Select | Cast):
        if isinstance(body, Cast):
            body = body.operand
            continue
        has_select = True
        plain = body.otherwise
        while isinstance(plain, Cast):
            plain = plain.operand
        if not isinstance(plain, Const) or (with_zeros and plain.value != 0):
            return False
        body = body.then
    return has_select and is_plain_read(body)


def groups_of(schedule: Edit, target: Target) -> list[FusionGroup]:
    """The fusion groups of all stages that are still to be scheduled, in program order."""
    open_stages = [
        stage for stage in schedule.stages if is_unscheduled_stage(stage) and not _copies_scratchpad(schedule, stage)
    ]
    pads = {stage: readers for stage in open_stages if (readers := _loaded_for(schedule, target, stage, open_stages))}
    placed = [stage for stage in open_stages if is_padding_of_user_reduction(schedule, target, stage)]
    open_stages = [stage for stage in open_stages if stage not in placed]
    while True:
        groups, sink_of = _groups_without(schedule, open_stages, pads)
        apart = [pad for pad, readers in pads.items() if len({sink_of[reader] for reader in readers}) > 1]
        if not apart:
            break
        for pad in apart:  # several groups load it, so it is stored
            del pads[pad]
    for pad, (reader, *_) in pads.items():
        groups[sink_of[reader]].pads.append(pad)
    return [groups[stage] for stage in open_stages if stage in groups]


def is_padding_of_user_reduction(schedule: Edit, target: Target, stage: EditedStage) -> bool:
    """Whether an unscheduled stage becomes a load with padding for a reduction that the user computes in acc."""
    readers = schedule.consumers(stage.tensor) if is_unscheduled_stage(stage) else []
    placed = len(readers) == 1 and readers[0].state.scope == target.acc.name and not readers[0].state.copy_of
    return placed and target.computes(readers[0].state.pragma) and bool(_loaded_for(schedule, target, stage, readers))


def _loaded_for(
    schedule: Edit, target: Target, stage: EditedStage, open_stages: Sequence[EditedStage]
) -> Sequence[EditedStage]:
    """The reductions that a stage can be loaded for, with padding; none if it is computed instead."""
    readers = schedule.consumers(stage.tensor)
    output = stage.tensor in schedule.outputs
    if output or not readers or stage.state.has_changed_loops or stage.state.storage is not None:
        return []
    if not is_padding(stage, with_zeros=False) and not is_plain_read(stage.state.computation.bodies[0]):
        return []
    for reader in readers:
        computation = reader.state.computation
        if sum(read.tensor is stage.tensor for read in computation.reads) > 1:
            return []  # both operands of a GEMM, which are loaded to different scratchpads
        if not computation.reduce_axes or reader not in open_stages:
            return []
        if reader.state.vector_layout is not None and reader.state.vector_layout.conversions is not None:
            return []  # layout conversions need vectors as they are stored
        if is_plain_read(stage.state.computation.bodies[0]):
            planned = assign_layouts(schedule, target.config).gemms[reader.tensor]
            if planned is None or not gathers(stage, planned, target.config):
                return []
            continue
        product = match_gemm_operands(computation) is not None
        if not (is_padding(stage) or not product or _can_pad_gemm_data(schedule, target, stage, reader)):
            return []
    return readers


def _groups_without(
    schedule: Edit, open_stages: list[EditedStage], pads: Collection[EditedStage]
) -> tuple[dict[EditedStage, FusionGroup], dict[EditedStage, EditedStage]]:
    """The groups by sink, and the sink of each stage, without the stages ``pads``, which are loads."""
    sink_of: dict[EditedStage, EditedStage] = {}
    groups: dict[EditedStage, FusionGroup] = {}
    for stage in reversed([each for each in open_stages if each not in pads]):
        readers = schedule.consumers(stage.tensor)
        sinks = {sink_of.get(reader) for reader in readers}
        fused = (
            len(sinks) == 1
            and None not in sinks
            and not any(tensor in schedule.outputs for tensor in stage.state.tensors)
            and not stage.state.has_changed_loops
            and len(stage.state.tensors) == 1
            and stage.state.storage is None
            and not stage.state.concat_of
            and not any(each.state.scope == DRAM for each in schedule.attached(stage))  # which need its own loops
            and all(_can_fuse(reader, stage, len(readers)) for reader in readers)
            and (len(readers) == 1 or not stage.tensor.dtype.startswith("u"))  # unsigned values wrap when stored
        )
        if fused:
            sink_of[stage] = sink_of[readers[0]]
            groups[sink_of[stage]].inner.insert(0, stage)
        else:
            sink_of[stage] = stage
            groups[stage] = FusionGroup(stage, [], [])
    return groups, sink_of


def _can_fuse(reader: EditedStage, stage: EditedStage, count: int) -> bool:
    """Whether a consumer, one of ``count``, can be fused with a stage and read it from accumulators."""
    if is_padding(reader) or reader.state.concat_of:
        return False
    if reader.state.computation.reduce_axes:
        return count == 1 and reads_disjoint_windows(reader, stage)
    return reads_elementwise(reader, stage)


def _can_pad_gemm_data(schedule: Edit, target: Target, stage: EditedStage, reader: EditedStage) -> bool:
    """Whether data of a GEMM may be loaded with padding that is not zero.

    Into acc they may, if the ALU multiplies. In inp the padding is in all lanes, also in those after the last channel,
    which affect the result unless the weights have zeros there.
    """
    product = assign_layouts(schedule, target.config).gemms[reader.tensor]
    if product is None:
        return True
    if PAD_VALUE not in target.config.extensions or product.data.tensor is not stage.tensor:
        return False
    whole = product.inner is not None and product.inner.extent % target.data.vector_type.cols == 0
    return whole or is_program_input(schedule, product.weight.tensor)


def _copies_scratchpad(schedule: Edit, stage: EditedStage) -> bool:
    """Whether a stage is a copy of a tensor that is in a scratchpad already."""
    reads = stage.state.computation.reads
    return len(reads) == 1 and is_copy(stage) and schedule.scope_of(reads[0].tensor) != DRAM


def reads_elementwise(reader: EditedStage, stage: EditedStage) -> bool:
    """Whether a consumer reads a stage at its own point only, so that fusion recomputes nothing."""
    axes = reader.state.computation.axes
    for read in reader.state.computation.reads:
        if read.tensor in stage.state.tensors:
            named = [as_bare_axis(index) for index in read.indices]
            if len(named) != len(axes) or any(a is not b for a, b in zip(named, axes, strict=False)):
                return False
    return True


def is_copy(stage: StageView) -> bool:
    """Whether a stage only copies data, perhaps with padding, so that LOADs can compute it."""
    body = without_undef(stage.state.computation.bodies[0])
    while isinstance(body, Cast):
        body = body.operand
    return is_plain_read(body) or is_padding(stage, with_zeros=False)
