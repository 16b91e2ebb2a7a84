"""Insert cache reads: acc stages read scratchpad copies of operands in DRAM, loaded at a loop where they fit."""

from collections.abc import Sequence

from lathe.frontend import Axis, Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Read, ReadAccess, axes_of
from lathe.scheduler.layout.accumulate_in_place import added_to_loaded
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.layout_transfer import operand_layout
from lathe.scheduler.layout.match_gemm import GemmMatch, gemm_operand_layout
from lathe.scheduler.layout.vector_type import VectorType, vector_type_of
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.passes.hoist_loads import hoist_loads
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_single_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, VectorLayout, initial_state
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import FusionGroup, is_copy, is_padding_of_user_reduction
from lathe.scheduler.tiling.problem import LoadedOperand


def insert_cache_reads(schedule: Edit, target: Target) -> None:
    """Insert caches for what acc stages still read from DRAM; hoist loads out of recurrences where they fit."""
    loads: list[EditedStage] = []
    for stage in schedule.stages:
        if stage.state.scope == target.acc.name and target.computes(stage.state.pragma) and not stage.state.copy_of:
            loads += _load_operands(schedule, stage, target)
    if schedule.has_recurrences:
        hoist_loads(schedule, target, loads)


def _load_operands(schedule: Edit, stage: EditedStage, target: Target) -> list[EditedStage]:
    """Insert loads of what an acc stage in the user's loops still reads from DRAM, just outside its chunks."""
    if is_copy(stage):
        return []
    state = stage.state
    location = state.attachment
    if location is not None:
        location = ComputeAt(
            location.enclosing, location.axis
        )  # of all that is read there, whatever region the stage is
    if state.pragma_axis is not None and state.leaves.index(state.pragma_axis) > 0:
        location = ComputeAt(stage.id, state.leaves[state.leaves.index(state.pragma_axis) - 1])
    gemm = assign_layouts(schedule, target.config).gemms[stage.tensor]
    producers = [schedule.producer(read.tensor) for read in state.computation.reads]
    pads = [each for each in producers if each is not None and is_padding_of_user_reduction(schedule, target, each)]
    operands = operands_of(schedule, target, stage, gemm, FusionGroup(stage, [], pads), [])
    for operand in operands:
        operand.stage.change(attachment=location)
    sink_loads(schedule, operands)
    return [operand.stage for operand in operands]


def operands_of(
    schedule: Edit,
    target: Target,
    stage: EditedStage,
    gemm: GemmMatch | None,
    group: FusionGroup,
    computing: list[EditedStage],
    shared: Sequence[LoadedOperand] = (),
) -> list[LoadedOperand]:
    """The stages that load what a stage reads from DRAM: paddings of its group, or new caches.

    ``shared``: loads for other stages in the same tiles, which also serve this one where it reads the same. They are
    returned, too.
    """
    computed = {tensor for inner in computing for tensor in inner.state.tensors}
    operands = list(shared)
    cached_as: dict[tuple[Tensor, str, tuple[object, ...]], Tensor] = {}
    recurrence = (
        next((each for each in recurrence_groups(schedule) if stage in each), []) if schedule.has_recurrences else []
    )
    replacements: dict[Read, Tensor] = {}
    for read in stage.state.computation.reads:
        tensor = read.tensor
        slot = next((n for n, each in enumerate(operands) if each.stage.tensor is tensor), None)
        if slot is not None and stage not in operands[slot].consumers:  # a padding that is loaded already
            operands[slot] = LoadedOperand(operands[slot].stage, (*operands[slot].consumers, stage))
            continue
        if tensor in computed or schedule.scope_of(tensor) != DRAM:
            continue
        scope = target.memory_of(gemm, read.node, stage.state.computation).name
        exact = any(tensor in each.state.tensors for each in recurrence)  # cells between two reads may not exist yet
        key = tensor, scope, tuple(str(index) if exact else frozenset(axes_of(index)) for index in read.indices)
        if key in cached_as:  # reads along other axes are of another slice of the tensor
            replacements[read.node] = cached_as[key]
            continue
        pad = next((each for each in group.pads if tensor in each.state.tensors), None)
        if pad is not None:
            pad.change(scope=scope)
            operands.append(LoadedOperand(pad, (stage,)))
            cached_as[key] = replacements[read.node] = tensor
            continue
        layout = _operand_layout(schedule, stage, gemm, read, target)
        slot = None if recurrence else _find_loaded(operands, stage, scope, read.node, layout, target)
        if slot is not None:
            operands[slot] = LoadedOperand(operands[slot].stage, (*operands[slot].consumers, stage))
            cached_as[key] = replacements[read.node] = operands[slot].stage.tensor
            continue
        axes = tuple(Axis(axis.name, axis.extent) for axis in _axes_like(tensor))
        copy = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.{scope}"), axes, whole=True)
        cached = schedule.new(initial_state(copy, scope, copies=tensor))
        first = added_to_loaded(schedule, stage, tensor) or stage
        schedule.insert(cached, before=first)
        operands.append(LoadedOperand(cached, (stage,)))
        cached_as[key] = replacements[read.node] = cached.tensor
    if replacements:
        stage.change(computation=redirect_single_reads(stage.state.computation, replacements))
    return operands


def _operand_layout(
    schedule: Edit, stage: EditedStage, gemm: GemmMatch | None, read: ReadAccess, target: Target
) -> VectorLayout:
    """The vector layout in which a stage reads a loaded operand."""
    computation = stage.state.computation
    if gemm is None:
        return operand_layout(
            computation, read, assign_layouts(schedule, target.config).layouts[stage.tensor], target.config
        )
    return gemm_operand_layout(gemm, target.memory_of(gemm, read.node, computation).name, target.config)


def _find_loaded(
    operands: Sequence[LoadedOperand], stage: EditedStage, scope: str, read: Read, lanes: VectorLayout, target: Target
) -> int | None:
    """The index of an operand that loads what a stage reads, in that layout, for another stage of its tiles already."""
    axes_read = _axes_read(stage, read)
    for index, operand in enumerate(operands):
        copy = operand.stage
        whole = copy.state.copy_of is read.tensor and copy.tensor.shape == read.tensor.shape
        if not whole or copy.state.scope != scope or stage in operand.consumers:
            continue
        consumer = operand.consumers[0]
        other_reads = [
            _axes_read(consumer, each.node)
            for each in consumer.state.computation.reads
            if each.tensor is operand.stage.tensor
        ]
        if not all(a == b or b is None for other in other_reads for a, b in zip(axes_read, other, strict=True)):
            continue
        loaded = assign_layouts(stage.schedule, target.config).layouts[copy.tensor]
        if _is_same_vector(vector_type_of(target.config, scope), loaded, lanes):
            return index
    return None


def _is_same_vector(vector: VectorType, one: VectorLayout, other: VectorLayout) -> bool:
    """Whether vectors of a memory hold the same values in both layouts."""
    sides = zip(vector.sides(one), vector.sides(other), strict=True)
    return one.conversions == other.conversions and all(a == b for (a, block), (b, _) in sides if block > 1)


def _axes_read(stage: EditedStage, read: Read) -> list[frozenset[int] | None]:
    """By dimension of what is read, the tile's data axes along which the index moves; None if all of it is read."""
    computation = stage.state.computation
    axes_read: list[frozenset[int] | None] = []
    for index, extent in zip(read.indices, read.tensor.shape, strict=True):
        axis = as_bare_axis(index)
        whole = axis in computation.reduce_axes and axis is not None and axis.extent == extent
        moving = axes_of(index)
        axes_read.append(None if whole else frozenset(n for n, each in enumerate(computation.axes) if each in moving))
    return axes_read


def _axes_like(tensor: Tensor) -> tuple[Axis, ...]:
    computation = tensor.computation
    if computation is not None and computation.shape == tensor.shape:  # else the tensor has a finer shape by now
        return computation.axes
    return tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(tensor.shape))


def sink_loads(schedule: Edit, operands: list[LoadedOperand]) -> None:
    """Move loads of values that are stored in loops around the consumer, or in its own, into these loops.

    But no further in than the consumer, which may share fewer of these loops and run before the rest begin.
    """
    for operand in operands:
        producers = [schedule.producer(read.tensor) for read in operand.stage.state.computation.reads]
        for producer in [producer for producer in producers if producer is not None and producer.state.scope == DRAM]:
            for consumer in operand.consumers:
                location = _location_around(producer.state.attachment, consumer)
                if location is not None and _is_outside(operand.stage.state.attachment, location, consumer):
                    operand.stage.change(attachment=ComputeAt(location.enclosing, location.axis))


def _location_around(location: ComputeAt | None, consumer: EditedStage) -> ComputeAt | None:
    """The innermost loop at or around a location that is a consumer's own or around it; None if there is none."""
    around = [consumer, *_enclosing_stages(consumer)]
    schedule = consumer.schedule
    while location is not None and schedule.at(location) not in around:
        location = schedule.at(location).state.attachment
    if location is None or schedule.at(location) is consumer:
        return location
    inner = around[around.index(schedule.at(location)) - 1].state.attachment
    assert inner is not None
    return inner if _is_outside(inner, location, consumer) else location


def _enclosing_stages(stage: EditedStage) -> list[EditedStage]:
    """The stages in whose loops a stage is computed, the innermost first."""
    return [] if stage.enclosing is None else [stage.enclosing, *_enclosing_stages(stage.enclosing)]


def _is_outside(now: ComputeAt | None, location: ComputeAt, stage: EditedStage) -> bool:
    """Whether ``now`` is outside ``location``: at the root, at a loop before that, or at one of an enclosing stage."""
    enclosing = stage.schedule.at(location)
    if now is None or now.enclosing is not location.enclosing:
        return now is None or stage.schedule.at(now) in _enclosing_stages(enclosing)
    return enclosing.state.leaves.index(now.axis) < enclosing.state.leaves.index(location.axis)
