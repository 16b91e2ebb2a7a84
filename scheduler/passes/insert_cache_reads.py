"""What is computed in acc reads scratchpads: operands are loaded where they fit, from where they are stored."""

from collections.abc import Sequence

from lathe.frontend import Axis, Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Read, ReadAccess, axes_of
from lathe.scheduler.layout.accumulate_in_place import added_to_loaded
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.layout_transfer import lanes_read
from lathe.scheduler.layout.match_gemm import GemmMatch, lanes_of_operand
from lathe.scheduler.layout.vector_type import VectorType, element_of
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.passes.hoist_loads import load_once
from lathe.scheduler.rewriting.rewrite import copy_of, reads_redirected
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, VectorLayout, initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import FusionGroup, is_copy, is_loaded_for_placed
from lathe.scheduler.tiling.problem import LoadedOperand


def insert_cache_reads(schedule: Edit, target: Target) -> None:
    """Caches for what stages in acc still read from DRAM, loaded before the loops of cycles where there is room."""
    loads: list[EditedStage] = []
    for stage in schedule.stages:
        if stage.state.scope == target.near.name and target.computes(stage.state.pragma) and not stage.state.copies:
            loads += _load_operands(schedule, stage, target)
    if schedule.has_recurrences:
        load_once(schedule, target, loads)


def _load_operands(schedule: Edit, stage: EditedStage, target: Target) -> list[EditedStage]:
    """What loads for a stage in acc, placed by the user, what it still reads from DRAM: just outside its chunks."""
    if is_copy(stage):
        return []
    state = stage.state
    place = state.attachment
    if place is not None:
        place = ComputeAt(place.host, place.axis)  # all that is read there, whatever part of the stage that is
    if state.pragma_axis is not None and state.leaves.index(state.pragma_axis) > 0:
        place = ComputeAt(stage.id, state.leaves[state.leaves.index(state.pragma_axis) - 1])
    product = assign_layouts(schedule, target.config).products[stage.tensor]
    makers = [schedule.maker(read.tensor) for read in state.computation.reads]
    pads = [maker for maker in makers if maker is not None and is_loaded_for_placed(schedule, target, maker)]
    operands = operands_of(schedule, target, stage, product, FusionGroup(stage, [], pads), [])
    for operand in operands:
        operand.stage.change(attachment=place)
    load_inside(schedule, operands)
    return [operand.stage for operand in operands]


def operands_of(
    schedule: Edit,
    target: Target,
    stage: EditedStage,
    product: GemmMatch | None,
    group: FusionGroup,
    computing: list[EditedStage],
    others: Sequence[LoadedOperand] = (),
) -> list[LoadedOperand]:
    """The stages that load what a computing stage reads from DRAM: paddings of the group, or new caches.

    ``others`` load for stages that are computed in the same tiles, and for this one, too, where it reads the same; they
    are returned as well.
    """
    made = {tensor for inner in computing for tensor in inner.state.tensors}
    operands = list(others)
    cached_as: dict[tuple[Tensor, str, tuple[object, ...]], Tensor] = {}
    circle = (
        next((each for each in recurrence_groups(schedule) if stage in each), []) if schedule.has_recurrences else []
    )
    instead: dict[Read, Tensor] = {}
    for read in stage.state.computation.reads:
        tensor = read.tensor
        number = next((n for n, each in enumerate(operands) if each.stage.tensor is tensor), None)
        if number is not None and stage not in operands[number].readers:  # a border that is loaded already
            operands[number] = LoadedOperand(operands[number].stage, (*operands[number].readers, stage))
            continue
        if tensor in made or schedule.scope_of(tensor) != DRAM:
            continue
        scope = target.memory_of(product, read.node, stage.state.computation).name
        alone = any(tensor in each.state.tensors for each in circle)  # around two reads are cells not made yet
        key = tensor, scope, tuple(str(index) if alone else frozenset(axes_of(index)) for index in read.indices)
        if key in cached_as:  # what moves along other axes is another part of the tensor
            instead[read.node] = cached_as[key]
            continue
        pad = next((each for each in group.pads if tensor in each.state.tensors), None)
        if pad is not None:
            pad.change(scope=scope)
            operands.append(LoadedOperand(pad, (stage,)))
            cached_as[key] = instead[read.node] = tensor
            continue
        wanted = _lanes_wanted(schedule, stage, product, read, target)
        number = None if circle else _loaded_by_another(operands, stage, scope, read.node, wanted, target)
        if number is not None:
            operands[number] = LoadedOperand(operands[number].stage, (*operands[number].readers, stage))
            cached_as[key] = instead[read.node] = operands[number].stage.tensor
            continue
        axes = tuple(Axis(axis.name, axis.extent) for axis in _axes_like(tensor))
        copy = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.{scope}"), axes, whole=True)
        cached = schedule.new(initial_state(copy, scope, copies=tensor))
        first = added_to_loaded(schedule, stage, tensor) or stage
        schedule.insert(cached, before=first)
        operands.append(LoadedOperand(cached, (stage,)))
        cached_as[key] = instead[read.node] = cached.tensor
    if instead:
        stage.change(computation=reads_redirected(stage.state.computation, instead))
    return operands


def _lanes_wanted(
    schedule: Edit, stage: EditedStage, product: GemmMatch | None, read: ReadAccess, target: Target
) -> VectorLayout:
    """The lanes in which a stage reads an operand from where it is loaded."""
    computation = stage.state.computation
    if product is None:
        return lanes_read(computation, read, assign_layouts(schedule, target.config).known[stage.tensor], target.config)
    return lanes_of_operand(product, target.memory_of(product, read.node, computation).name, target.config)


def _loaded_by_another(
    operands: Sequence[LoadedOperand], stage: EditedStage, scope: str, read: Read, lanes: VectorLayout, target: Target
) -> int | None:
    """The number of an operand that loads what a stage reads, in such lanes, for another stage of its tiles already."""
    wanted = _part_read(stage, read)
    for number, operand in enumerate(operands):
        copy = operand.stage
        whole = copy.state.copies is read.tensor and copy.tensor.shape == read.tensor.shape
        if not whole or copy.state.scope != scope or stage in operand.readers:
            continue
        reader = operand.readers[0]
        parts = [
            _part_read(reader, each.node)
            for each in reader.state.computation.reads
            if each.tensor is operand.stage.tensor
        ]
        if not all(a == b or b is None for part in parts for a, b in zip(wanted, part, strict=True)):
            continue
        loaded = assign_layouts(stage.schedule, target.config).known[copy.tensor]
        if _is_same_element(element_of(target.config, scope), loaded, lanes):
            return number
    return None


def _is_same_element(element: VectorType, one: VectorLayout, other: VectorLayout) -> bool:
    """Whether elements of a memory hold the same values in either lanes."""
    sides = zip(element.sides(one), element.sides(other), strict=True)
    return one.turns == other.turns and all(a == b for (a, block), (b, _) in sides if block > 1)


def _part_read(stage: EditedStage, read: Read) -> list[frozenset[int] | None]:
    """For each dimension of what is read the data axes of the tile along which the index moves; None: all is read."""
    computation = stage.state.computation
    parts: list[frozenset[int] | None] = []
    for index, extent in zip(read.indices, read.tensor.shape, strict=True):
        axis = as_bare_axis(index)
        whole = axis in computation.reduce_axes and axis is not None and axis.extent == extent
        moving = axes_of(index)
        parts.append(None if whole else frozenset(n for n, each in enumerate(computation.axes) if each in moving))
    return parts


def _axes_like(tensor: Tensor) -> tuple[Axis, ...]:
    computation = tensor.computation
    if computation is not None and computation.shape == tensor.shape:  # or else it has been given a finer shape
        return computation.axes
    return tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(tensor.shape))


def load_inside(schedule: Edit, operands: list[LoadedOperand]) -> None:
    """Load what is made and stored in loops around its reader, or in its own, no further out than there.

    Nor further in than the reader is, which may run in fewer of these loops than the maker, before the rest begin.
    """
    for operand in operands:
        makers = [schedule.maker(read.tensor) for read in operand.stage.state.computation.reads]
        for maker in [maker for maker in makers if maker is not None and maker.state.scope == DRAM]:
            for reader in operand.readers:
                place = _place_around(maker.state.attachment, reader)
                if place is not None and _is_further_out(operand.stage.state.attachment, place, reader):
                    operand.stage.change(attachment=ComputeAt(place.host, place.axis))


def _place_around(place: ComputeAt | None, reader: EditedStage) -> ComputeAt | None:
    """The innermost loop of a place that is one of a reader's own or around it; None where there is none."""
    around = [reader, *_hosts(reader)]
    schedule = reader.schedule
    while place is not None and schedule.at(place) not in around:
        place = schedule.at(place).state.attachment
    if place is None or schedule.at(place) is reader:
        return place
    inside = around[around.index(schedule.at(place)) - 1].state.attachment
    assert inside is not None
    return inside if _is_further_out(inside, place, reader) else place


def _hosts(stage: EditedStage) -> list[EditedStage]:
    """The stages in whose loops a stage is computed, from the innermost on."""
    return [] if stage.host is None else [stage.host, *_hosts(stage.host)]


def _is_further_out(now: ComputeAt | None, place: ComputeAt, stage: EditedStage) -> bool:
    """Whether one loop is outside another: none at all, one that comes before it, or one of a stage around."""
    host = stage.schedule.at(place)
    if now is None or now.host is not place.host:
        return now is None or stage.schedule.at(now) in _hosts(host)
    return host.state.leaves.index(now.axis) < host.state.leaves.index(place.axis)
