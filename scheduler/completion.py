"""What a schedule leaves open, filled in: the default schedule.

Stages that no command has touched are grouped: a group ends in a stage that is stored to DRAM (an output, or what a
reduction, padding or several stages read) and holds the element-wise stages and the reduction before it, which stay in
the accumulators. Within a group the stored stage is tiled, everything else is computed in its tile loops, and operands
are loaded at the loop where they fit and are loaded least often.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.frontend import Axis, Tensor
from lathe.frontend.expressions import Read, axes_of
from lathe.scheduler.agreement import agree_on_lanes
from lathe.scheduler.aliasing import find_aliases
from lathe.scheduler.buffers import buffers_of
from lathe.scheduler.canonical import canonicalise
from lathe.scheduler.commands.cache import fresh_name
from lathe.scheduler.errors import BuildError, CapacityError
from lathe.scheduler.lanes import plan_lanes
from lathe.scheduler.nest import build_nest
from lathe.scheduler.physical import physical_of
from lathe.scheduler.products import Product, factors
from lathe.scheduler.rewrite import copy_of, reads_redirected, renamed_axes
from lathe.scheduler.schedule import Schedule
from lathe.scheduler.settling import settle
from lathe.scheduler.stage import Stage
from lathe.scheduler.state import (
    DRAM,
    Attachment,
    Fuse,
    LoopAxis,
    Relation,
    Split,
    StageState,
    initial_state,
    made_by,
)
from lathe.scheduler.tiling import Operand, Tiling, TilingProblem, choose_tiling


@dataclass
class Completed:
    """A schedule with nothing left open, the inputs that stand for reshaped ones, and the values of added ones."""

    schedule: Schedule
    views: Mapping[Tensor, Tensor]
    constants: Mapping[Tensor, NDArray[np.int8]]


def complete(schedule: Schedule, config: HardwareConfig) -> Completed:
    """A copy of the schedule in which every stage has scope and place for the machine.

    Stages with a pragma, a scratchpad scope or a place of their own stay as they are. Raises CapacityError if a stage
    whose loops are given does not fit, however far inside its operands are loaded.
    """
    copy = copied(schedule)
    settle(copy, config)
    views = canonicalise(copy)
    constants = agree_on_lanes(copy, config)
    for group in _groups(copy):
        _complete_group(copy, group, config)
    for stage in list(copy.stages):
        if stage.state.scope == "acc" and stage.state.pragma in (None, "gemm", "alu") and not stage.state.copies:
            _load_operands(copy, stage, config)
    return Completed(copy, views, constants)


def copied(schedule: Schedule) -> Schedule:
    """The same schedule with stages of its own."""
    copy = Schedule.__new__(Schedule)
    copy.outputs = schedule.outputs
    twins = {stage: Stage(copy, stage.state) for stage in schedule.stages}
    copy.stages = list(twins.values())
    for twin in copy.stages:
        attachment = twin.state.attachment
        if attachment is not None:
            twin.state = replace(twin.state, attachment=replace(attachment, stage=twins[attachment.stage]))
    return copy


def is_open(stage: Stage) -> bool:
    """Whether a stage waits for completion: in DRAM, at the root, without a pragma."""
    state = stage.state
    return state.scope == DRAM and state.pragma is None and state.attachment is None


@dataclass
class Group:
    """Stages computed together: ``sink`` is stored, ``inner`` stay in acc, ``pads`` are loaded with padding."""

    sink: Stage
    inner: list[Stage]
    pads: list[Stage]


def is_padding(stage: Stage, with_zeros: bool = True) -> bool:
    """Whether a stage only moves data, some of it under conditions: what a DMA with padding does.

    Unless ``with_zeros``, what stands elsewhere may be any constant: copies and constants together make it in acc.
    """
    from lathe.frontend.expressions import Cast, Const, Select

    if len(stage.state.computation.bodies) != 1:
        return False
    body = stage.state.computation.bodies[0]
    found = False
    while isinstance(body, Select | Cast):
        if isinstance(body, Cast):
            body = body.operand
            continue
        found = True
        plain = body.otherwise
        while isinstance(plain, Cast):
            plain = plain.operand
        if not isinstance(plain, Const) or (with_zeros and plain.value != 0):
            return False
        body = body.then
    return found and isinstance(body, Read)


def _groups(schedule: Schedule) -> list[Group]:
    open_stages = [stage for stage in schedule.stages if is_open(stage) and not _is_store(schedule, stage)]
    pads: dict[Stage, Stage] = {}
    for stage in open_stages:
        readers = schedule.readers(stage.tensor)
        output = stage.tensor in schedule.outputs
        if output or len(readers) != 1 or stage.state.is_touched:
            continue
        if sum(read.tensor is stage.tensor for read in readers[0].state.computation.reads) > 1:
            continue  # two operands of one product are loaded to two scratchpads
        if not is_padding(stage, with_zeros=factors(readers[0].state.computation) is not None):
            continue
        if readers[0].state.computation.reduce_axes and readers[0] in open_stages:
            pads[stage] = readers[0]
    computing = [stage for stage in open_stages if stage not in pads]
    sink_of: dict[Stage, Stage] = {}
    groups: dict[Stage, Group] = {}
    for stage in reversed(computing):
        readers = schedule.readers(stage.tensor)
        follows = readers[0] if len(readers) == 1 else None
        fused = (
            follows is not None
            and follows in sink_of
            and not any(tensor in schedule.outputs for tensor in stage.state.tensors)
            and not follows.state.computation.reduce_axes
            and not is_padding(follows)
            and not stage.state.is_touched
            and len(stage.state.tensors) == 1
            and _reads_elementwise(follows, stage)
        )
        if fused:
            assert follows is not None
            sink_of[stage] = sink_of[follows]
            groups[sink_of[stage]].inner.insert(0, stage)
        else:
            sink_of[stage] = stage
            groups[stage] = Group(stage, [], [])
    for pad, reader in pads.items():
        groups[sink_of[reader]].pads.append(pad)
    return [groups[stage] for stage in computing if stage in groups]


def _is_store(schedule: Schedule, stage: Stage) -> bool:
    """Whether a stage is already a copy out of a scratchpad, or a copy into one that somebody placed."""
    reads = stage.state.computation.reads
    return len(reads) == 1 and is_copy(stage) and schedule.scope_of(reads[0].tensor) != DRAM


def _reads_elementwise(reader: Stage, stage: Stage) -> bool:
    """Whether a reader needs, for each of its points, one cell that moves with them, so that fusing repeats nothing."""
    from lathe.scheduler.products import plain_axis

    axes = reader.state.computation.axes
    for read in reader.state.computation.reads:
        if read.tensor in stage.state.tensors:
            named = [plain_axis(index) for index in read.indices]
            if len(named) != len(axes) or any(a is not b for a, b in zip(named, axes, strict=False)):
                return False
    return True


def _complete_group(schedule: Schedule, group: Group, config: HardwareConfig) -> None:
    """Scopes, caches, tiles and places of one group."""
    if len(group.sink.state.tensors) > 1:
        names = ", ".join(tensor.name for tensor in group.sink.state.tensors)
        raise BuildError(
            f"loops of stage {group.sink.name} must be left as they were made, since it has several outputs ({names}), "
            "which the machine computes one after the other. Give each a computation of its own to schedule its loops."
        )
    given = group.sink.state
    guests = schedule.attached(group.sink)
    sink, writer = _write_through_acc(schedule, group.sink)
    least_depth = _follow_loops(given, sink, writer, guests)
    computing = [*group.inner, writer]
    for stage in computing:
        stage.state = replace(stage.state, scope="acc")
    operands: list[Operand] = []
    products = plan_lanes(schedule, config).products
    for stage in computing:
        product = products[stage.tensor]
        operands.extend(_operands(schedule, stage, product, group, computing))
    loops_given = given.is_touched or bool(guests)
    problem = TilingProblem(
        schedule, config, sink, computing, operands, tuple(given.leaves), loops_given, least_depth=least_depth
    )
    _tile(problem, guests)


def _follow_loops(given: StageState, sink: Stage, writer: Stage, guests: list[Stage]) -> int:
    """Keep stages that were placed in a stage's loops there, now that these are shared by a copy and its writer.

    Those in data loops stay with the copy, those in reduction loops go to the writer, whose loops up to there come
    outermost. Returns how many loops of the copy the writer must be inside of.
    """
    depth = 0
    for guest in guests:
        place = guest.state.attachment
        assert place is not None
        if place.axis.kind == "data":
            depth = max(depth, sink.state.leaves.index(place.axis) + 1)
            continue
        leaves = writer.state.leaves
        axis = next(leaf for leaf in leaves if leaf is place.axis or _same_root(leaf, place.axis))
        reduce_leaves = [leaf for leaf in leaves if leaf.kind == "reduce"]
        outermost = reduce_leaves[: reduce_leaves.index(axis) + 1]
        ordered = (*outermost, *(leaf for leaf in leaves if leaf not in outermost))
        writer.state = replace(writer.state, leaves=ordered)
        guest.state = replace(guest.state, attachment=Attachment(writer, axis))
        before = given.leaves[: given.leaves.index(place.axis)]
        depth = max(depth, sum(leaf.kind == "data" for leaf in before))
    return depth


def _same_root(leaf: LoopAxis, other: LoopAxis) -> bool:
    return leaf.source is not None and leaf.source is other.source


def _tile(problem: TilingProblem, guests: list[Stage]) -> None:
    """The cheapest tiling whose buffers do fit: the estimate counts the largest, the allocator what lives together."""
    moved = {problem.sink, *problem.computing, *guests, *(operand.stage for operand in problem.operands)}
    part = Schedule.__new__(Schedule)
    part.outputs = problem.schedule.outputs
    lanes = plan_lanes(problem.schedule, problem.config).known
    refusal: CapacityError | None = None
    before = {stage: stage.state for stage in moved}
    while True:
        try:
            apply_tiling(problem, choose_tiling(problem))
        except CapacityError:
            if refusal is not None:
                raise refusal from None
            raise
        part.stages = [stage for stage in problem.schedule.stages if stage in moved]
        physical = {stage: physical_of(stage, lanes, problem.config) for stage in part.stages}
        try:
            buffers_of(part, problem.config, build_nest(part, largest_blocks=True), physical, find_aliases(part))
        except CapacityError as error:
            refusal = error
            problem.spare[error.scope] = problem.spare.get(error.scope, 0) + error.excess
            for stage, state in before.items():
                stage.state = state
        else:
            return


def _write_through_acc(schedule: Schedule, stage: Stage) -> tuple[Stage, Stage]:
    """``cache_write`` to acc that also takes a stage whose loops were given: data loops stay with the copy."""
    state = stage.state
    computation = renamed_axes(state.computation, fresh_name(schedule, f"{state.tensor.name}.acc"))
    writer = Stage(schedule, replace(initial_state(computation, "acc"), lanes=state.lanes, on_alu=state.on_alu))
    reduce_relations = tuple(r for r in state.relations if _kind(r) == "reduce")
    reduce_leaves = [leaf for leaf in state.leaves if leaf.kind == "reduce"]
    reduce_roots = [root for root in state.roots if root.kind == "reduce"]
    if reduce_relations:
        data_roots = [root for root in writer.state.roots if root.kind == "data"]
        writer.state = replace(
            writer.state,
            roots=(*data_roots, *reduce_roots),
            leaves=(*data_roots, *reduce_leaves),
            relations=reduce_relations,
        )
    copy = copy_of(writer.tensor, state.computation.name, state.computation.axes)
    stage.state = replace(
        state,
        computation=copy,
        roots=tuple(root for root in state.roots if root.kind == "data"),
        leaves=tuple(leaf for leaf in state.leaves if leaf.kind == "data"),
        relations=tuple(r for r in state.relations if _kind(r) == "data"),
        copies=writer.tensor,
    )
    position = schedule.stages.index(stage)
    schedule.stages.insert(position, writer)
    return stage, writer


def _kind(relation: Relation) -> str:
    return made_by(relation)[0].kind


def _load_operands(schedule: Schedule, stage: Stage, config: HardwareConfig) -> None:
    """Caches for what a stage in acc, placed by the user, still reads from DRAM: loaded just outside its chunks."""
    if is_copy(stage):
        return
    state = stage.state
    place = state.attachment
    if state.pragma_axis is not None and state.leaves.index(state.pragma_axis) > 0:
        place = Attachment(stage, state.leaves[state.leaves.index(state.pragma_axis) - 1])
    product = plan_lanes(schedule, config).products[stage.tensor]
    for operand in _operands(schedule, stage, product, Group(stage, [], []), []):
        operand.stage.state = replace(operand.stage.state, attachment=place)


def is_copy(stage: Stage) -> bool:
    """Whether a stage only moves data, so that a DMA into the scratchpad is all it needs."""
    from lathe.frontend.expressions import Cast

    body = stage.state.computation.bodies[0]
    while isinstance(body, Cast):
        body = body.operand
    return isinstance(body, Read) or is_padding(stage, with_zeros=False)


def _operands(
    schedule: Schedule, stage: Stage, product: Product | None, group: Group, computing: list[Stage]
) -> list[Operand]:
    """The stages that load what a computing stage reads from DRAM: paddings of the group, or new caches."""
    made = {tensor for inner in computing for tensor in inner.state.tensors}
    operands: list[Operand] = []
    cached_as: dict[tuple[Tensor, str, tuple[frozenset[Axis], ...]], Tensor] = {}
    instead: dict[Read, Tensor] = {}
    for read in stage.state.computation.reads:
        tensor = read.tensor
        if tensor in made or schedule.scope_of(tensor) != DRAM:
            continue
        scope = "acc"
        if product is not None:
            scope = "inp" if read.node is product.data else "wgt"
        key = tensor, scope, tuple(frozenset(axes_of(index)) for index in read.indices)
        if key in cached_as:  # what moves along other axes is another part of the tensor
            instead[read.node] = cached_as[key]
            continue
        pad = next((each for each in group.pads if tensor in each.state.tensors), None)
        if pad is not None:
            pad.state = replace(pad.state, scope=scope)
            operands.append(Operand(pad, stage))
            cached_as[key] = instead[read.node] = tensor
            continue
        axes = tuple(Axis(axis.name, axis.extent) for axis in _axes_like(tensor))
        copy = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.{scope}"), axes)
        cached = Stage(schedule, initial_state(copy, scope, copies=tensor))
        schedule.stages.insert(schedule.stages.index(stage), cached)
        operands.append(Operand(cached, stage))
        cached_as[key] = instead[read.node] = cached.tensor
    if instead:
        stage.state = replace(stage.state, computation=reads_redirected(stage.state.computation, instead))
    return operands


def _axes_like(tensor: Tensor) -> tuple[Axis, ...]:
    computation = tensor.computation
    if computation is not None and computation.shape == tensor.shape:  # or else it has been given a finer shape
        return computation.axes
    return tuple(Axis(f"i{dim}", extent) for dim, extent in enumerate(tensor.shape))


def apply_tiling(problem: TilingProblem, tiling: Tiling) -> None:
    """Split the sink's loops, put the computing stages into its tiles and the operands where the tiling says."""
    sink = problem.sink
    if not problem.given:
        state = sink.state
        outer: list[LoopAxis] = []
        inner: list[LoopAxis] = []
        relations = list(state.relations)
        pairs = {}
        for root, size in zip(state.roots, tiling.tile, strict=True):
            first, second = LoopAxis(f"{root.name}o", "data"), LoopAxis(f"{root.name}i", "data")
            relations.append(Split(root, first, second, size))
            pairs[root] = (first, second)
        outer = [pairs[state.roots[dim]][0] for dim in tiling.order]
        inner = [pairs[root][1] for root in state.roots]
        sink.state = replace(state, leaves=(*outer, *inner), relations=tuple(relations))
        levels = outer
    else:
        if tiling.cut is not None:
            leaf, size = tiling.cut
            first, second = LoopAxis(f"{leaf.name}o", "data"), LoopAxis(f"{leaf.name}i", "data")
            place = sink.state.leaves.index(leaf)
            leaves = (*sink.state.leaves[:place], first, second, *sink.state.leaves[place + 1 :])
            relations_cut = (*sink.state.relations, Split(leaf, first, second, size))
            sink.state = replace(sink.state, leaves=leaves, relations=relations_cut)
        levels = list(sink.state.leaves[: tiling.depth])
        sink.state = _rejoined(sink.state, tiling.depth)
    attached_at = Attachment(sink, levels[-1]) if levels else None
    reducing: dict[Stage, LoopAxis] = {}
    for stage in problem.computing:
        stage.state = replace(stage.state, attachment=attached_at)
        axis = tiling.reduce_axis.get(stage)
        if axis is not None:
            reducing[stage] = _split_reduction(stage, axis, tiling.reduce_tile[stage])
    for operand in problem.operands:
        level = tiling.level[operand.stage]
        attachment: Attachment | None
        if level == len(levels) and operand.reader in reducing:
            attachment = Attachment(operand.reader, reducing[operand.reader])
        elif level == 0 or not levels:
            attachment = None
        else:
            attachment = Attachment(sink, levels[min(level, len(levels)) - 1])
        operand.stage.state = replace(operand.stage.state, attachment=attachment)
    _in_order(problem)


def _rejoined(state: StageState, depth: int) -> StageState:
    """The loops inside the tile, which only store it, put back together where no part of an axis is outside."""
    outside = set(state.leaves[:depth])
    relations = list(state.relations)
    leaves = list(state.leaves)
    joined = True
    while joined:
        joined = False
        for relation in reversed(relations):
            if isinstance(relation, Split):
                parts, whole = [relation.outer, relation.inner], [relation.parent]
            elif isinstance(relation, Fuse):
                parts, whole = [relation.fused], [relation.outer, relation.inner]
            else:
                continue
            if all(part in leaves and part not in outside for part in parts):
                place = min(leaves.index(part) for part in parts)
                leaves[place:place] = whole
                leaves = [leaf for leaf in leaves if leaf not in parts]
                relations.remove(relation)
                joined = True
                break
    return replace(state, leaves=tuple(leaves), relations=tuple(relations))


def _split_reduction(stage: Stage, root: LoopAxis, tile: int) -> LoopAxis:
    state: StageState = stage.state
    if root not in state.leaves:  # the user has split the reduction: the loop given first comes outermost
        first = state.reduce_leaves[0]
        stage.state = replace(state, leaves=(first, *(leaf for leaf in state.leaves if leaf is not first)))
        return first
    outer, inner = LoopAxis(f"{root.name}o", "reduce"), LoopAxis(f"{root.name}i", "reduce")
    leaves = (outer, *(inner if leaf is root else leaf for leaf in state.leaves))
    stage.state = replace(state, leaves=leaves, relations=(*state.relations, Split(root, outer, inner, tile)))
    return outer


def _in_order(problem: TilingProblem) -> None:
    """Operands and computing stages directly before the sink, in the order in which they read each other."""
    schedule = problem.schedule
    moved = [*(operand.stage for operand in problem.operands), *problem.computing]
    ordered = [stage for stage in schedule.stages if stage in moved]
    rest = [stage for stage in schedule.stages if stage not in moved]
    position = rest.index(problem.sink)
    schedule.stages = [*rest[:position], *ordered, *rest[position:]]
