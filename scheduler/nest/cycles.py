"""Stages that need each other's earlier values: how they begin, and that each value is made before it is read.

The stages of a cycle run together in the loops that carry it, as the frontend found them (``lathe.frontend.cycles``):
the last of them is the host of the others. No stage is whole before its readers begin, so here it is pairs of instances
that are compared: wherever a stage reads a cell, every instance that makes the cell must come before, in the loops
around both or, within one iteration, in the order of the stages.
"""

import islpy as isl

from lathe.frontend import cycles
from lathe.frontend.accesses import ReadAccess
from lathe.frontend.indices.linear import LoopVariable, bound_range
from lathe.frontend.polyhedra import access_of
from lathe.scheduler.answers import checkable
from lathe.scheduler.errors import LegalityError, ScheduleError, Witness
from lathe.scheduler.nest.instances import instances
from lathe.scheduler.nest.place import comes_first, place_stages
from lathe.scheduler.nest.placement import Placement
from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.loops import made_by, replaced_by
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.stage import Attachment
from lathe.scheduler.state.stored import values_stay

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def run_together(schedule: Edit) -> None:
    """Put the stages of each cycle into the loops that carry it."""
    for cycle in cycles(stage.op for stage in schedule.stages):
        *guests, host = [schedule[computation] for computation in cycle.computations]
        for guest in guests if cycle.depth else []:  # reads that never happen need no loops
            loops = guest.state.leaves[: cycle.depth]
            attachment = Attachment(host.id, host.state.leaves[cycle.depth - 1], loops)
            guest.change(attachment=attachment)


def circles(schedule: ScheduleView) -> list[list[StageView]]:
    """The stages that need each other, or themselves, in groups; each group in the order of the stages."""
    reads = {stage: _makers(schedule, stage) for stage in schedule.stages}
    reached: dict[StageView, set[StageView]] = {}
    for stage in schedule.stages:
        found: set[StageView] = set()
        waiting = list(reads[stage])
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting += reads[current]
        reached[stage] = found
    groups: list[list[StageView]] = []
    for stage in schedule.stages:
        if stage in reached[stage] and not any(stage in group for group in groups):
            groups.append([each for each in schedule.stages if each in reached[stage] and stage in reached[each]])
    return groups


def in_circle(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The stages of the cycle that a stage is in, or none."""
    groups = circles(schedule) if schedule.circular else []
    return next((group for group in groups if stage in group), [])


def place_inside(stage: StageView) -> Attachment:
    """The innermost of the loops of a stage of a cycle that carry it."""
    place = stage.state.attachment
    if place is not None:
        return Attachment(place.host, place.axis)
    return Attachment(stage.id, stage.state.leaves[max(shared_loops(stage), 1) - 1])


def _makers(schedule: ScheduleView, stage: StageView) -> set[StageView]:
    makers = {schedule.maker(read.tensor) for read in stage.state.computation.reads}
    return {maker for maker in makers if maker is not None}


def read_later(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The stages that read what earlier iterations of this one have made, because they come before it."""
    here = schedule.stages.index(stage)
    return [
        reader
        for reader in schedule.stages[: here + 1]
        if any(read.tensor in stage.state.tensors for read in reader.state.computation.reads)
    ]


def check_circles(
    schedule: ScheduleView, command: str, changed: set[StageView], placed: dict[StageView, Placement]
) -> None:
    """Raises LegalityError, with a witness, if a stage of a cycle would read what is not made yet."""
    for group in circles(schedule):
        around = {host for stage in group for host in _hosts(stage)}
        if not changed & ({*group} | around):
            continue
        for reader in group:
            for read in reader.state.computation.reads:
                maker = schedule.maker(read.tensor)
                if maker is None or maker not in group or _is_part(maker):
                    continue
                what = "in a cycle of stages that need each other's earlier values, not later or at the same time"
                with checkable(command, read.tensor.name, reader.name):
                    check_pairs(schedule, maker, reader, read, placed, command, what)


def _hosts(stage: StageView) -> list[StageView]:
    found = []
    while stage.state.attachment is not None:
        stage = stage.schedule.at(stage.state.attachment)
        found.append(stage)
    return found


def _is_part(stage: StageView) -> bool:
    """Whether a stage is computed as far as the iteration needs: the cells that it makes are checked elsewhere."""
    place = stage.state.attachment
    return place is not None and not place.loops


def around(placement: Placement) -> list[LoopVariable]:
    """All loops that a stage runs in, its own included."""
    return [*placement.prefix, *placement.loops.variables]


def check_pairs(
    schedule: ScheduleView,
    maker: StageView,
    reader: StageView,
    read: ReadAccess,
    placed: dict[StageView, Placement],
    command: str,
    why: str,
) -> None:
    """Raises LegalityError unless all instances that make what a read touches come before it, one by one."""
    back = read_later(schedule, maker)
    if not values_stay(maker) and reader in back:
        raise ScheduleError(
            f"scope of stage {maker.name} must be dram, not {maker.state.scope!r} ({command}): {reader.name} reads "
            f"what earlier iterations of {maker.name} have made, and a buffer belongs to one. Put a copy into a "
            "scratchpad with cache_write or cache_read.",
            kind="legality",
        )
    late = _not_before(schedule, maker, reader, read, placed, comes_first)
    if late.is_empty():
        return
    executed = {stage: instances(placed[stage]) for stage in (maker, reader)}
    instance = late.domain().lexmin()
    made = executed[maker].intersect_domain(late.intersect_domain(instance).range()).range().lexmin()
    point = executed[reader].intersect_domain(instance).range()
    consumer, producer = reader.state.computation, maker.state.computation
    cell = tuple(values_of(made)[: len(producer.axes)])
    witness = Witness(
        read.tensor.name,
        cell,
        maker.name,
        {axis.name: value for axis, value in zip(producer.axes, cell, strict=True)},
        reader.name,
        dict(zip((axis.name for axis in (*consumer.axes, *consumer.reduce_axes)), values_of(point), strict=True)),
    )
    raise LegalityError(
        f"{command} must leave every cell of {maker.name} made before {reader.name} reads it, {why}. For example, "
        f"{witness}.",
        witness,
    )


def _not_before(
    schedule: ScheduleView,
    maker: StageView,
    reader: StageView,
    read: ReadAccess,
    placed: dict[StageView, Placement],
    comes_first: object,
) -> isl.Map:
    """From instances of the reader to those of the maker that make what it reads there, and do not come before it."""
    assert callable(comes_first)
    here, there = around(placed[maker]), around(placed[reader])
    depth = 0
    while depth < min(len(here), len(there)) and here[depth] is there[depth]:
        depth += 1
    rank, makes = len(maker.state.computation.axes), instances(placed[maker])
    makes = makes.project_out(OUT, rank, makes.dim(OUT) - rank).set_tuple_name(OUT, read.tensor.name)
    needs = instances(placed[reader]).apply_range(access_of(reader.state.computation, read))
    pairs = needs.apply_range(makes.reverse())
    if maker is reader:
        depth = len(here)
        first = False
    else:
        first = comes_first(schedule, maker, reader, placed, depth)
    late = isl.Map.empty(pairs.get_space())
    for level in range(depth):
        order = _equal(pairs.get_space(), level).order_lt(IN, level, OUT, level)
        late = late.union(pairs.intersect(order))
    if not first:
        late = late.union(pairs.intersect(_equal(pairs.get_space(), depth)))
    return late


def _equal(space: isl.Space, count: int) -> isl.Map:
    order = isl.Map.universe(space)
    for position in range(count):
        order = order.equate(IN, position, OUT, position)
    return order


def values_of(point: isl.Set) -> list[int]:
    sample = point.sample_point()
    return [int(sample.get_coordinate_val(SET, n).to_python()) for n in range(point.dim(SET))]


def carried_loops(placement: Placement) -> int:
    """How many of a stage's own loops must stay outside its blocks, because it reads in them what it made before.

    What is inside a block happens in any order, or at once.
    """
    pairs = _own_pairs(placement)
    if pairs is None:
        return 0
    outside = len(placement.prefix)
    for level in range(outside, len(around(placement)) + 1):
        if pairs.intersect(_equal(pairs.get_space(), level)).is_empty():
            return level - outside
    raise AssertionError(f"{placement.stage.name} reads a cell in the instance that makes it")


def _own_pairs(placement: Placement) -> isl.Map | None:
    """From instances of a stage to those of its own that make what it reads there; None where it reads others only."""
    stage = placement.stage
    own = [read for read in stage.state.computation.reads if read.tensor in stage.state.tensors]
    if not own:
        return None
    executed = instances(placement)
    rank = len(stage.state.computation.axes)
    pairs = isl.Map.empty(isl.Space.map_from_set(executed.domain().get_space()))
    for read in own:
        makes = executed.project_out(OUT, rank, executed.dim(OUT) - rank).set_tuple_name(OUT, read.tensor.name)
        needs = executed.apply_range(access_of(stage.state.computation, read))
        pairs = pairs.union(needs.apply_range(makes.reverse()))
    return pairs


def check_emitted(placement: Placement, command: str) -> None:
    """Raises LegalityError if a nest that an emission rule carries out as it likes holds instances in an order."""
    stage, state = placement.stage, placement.state
    emitted = state.emitted_leaves()
    pairs = _own_pairs(placement) if emitted else None
    if pairs is None:
        return
    variables = around(placement)
    level = variables.index(placement.loops.of_leaf[emitted[0]][0])
    inside = pairs.intersect(_equal(pairs.get_space(), level))
    if inside.is_empty():
        return
    reader = inside.domain().lexmin()
    executed, axes = instances(placement), state.computation.axes
    consumer = values_of(executed.intersect_domain(reader).range())
    producer = values_of(executed.intersect_domain(inside.intersect_domain(reader).range()).range().lexmin())
    names = [axis.name for axis in (*axes, *state.computation.reduce_axes)]
    cell = tuple(producer[: len(axes)])
    made = {axis.name: value for axis, value in zip(axes, cell, strict=True)}
    witness = Witness(state.tensor.name, cell, stage.name, made, stage.name, dict(zip(names, consumer, strict=True)))
    raise LegalityError(
        f"loops of stage {stage.name} that emit_insn gives to rule {state.pragma!r} must hold instances that may be "
        f"carried out in any order, not some that need others ({command}, from {emitted[0].name} on). For example, "
        f"{witness}. Put the pragma on an inner loop.",
        witness,
    )


def walked_dimensions(stage: StageView) -> frozenset[int]:
    """The dimensions along which a stage of a cycle makes one value at a time, so that they can fill no lanes."""
    axes = stage.state.computation.axes
    if _is_part(stage):
        placement = place_stages(stage.schedule)[stage]
        return frozenset(n for n, each in enumerate(placement.extent) if bound_range(each, placement.box)[1] <= 1)
    leaves = set(stage.state.leaves[: shared_loops(stage)])
    for relation in reversed(stage.state.relations):
        if leaves & set(made_by(relation)):
            leaves |= set(replaced_by(relation))
    roots = {root.source for root in stage.state.roots if root in leaves}
    return frozenset(n for n, axis in enumerate(axes) if axis in roots and axis.extent > 1)


def shared_loops(stage: StageView) -> int:
    """How many loops of a stage must stay outside what it computes at once: others run in them, or it needs itself."""
    place = stage.state.attachment
    loops = [each.state.attachment for each in stage.schedule.stages]
    inside = [
        stage.state.leaves.index(each.axis) + 1
        for each in loops
        if each is not None and stage.schedule.at(each) is stage
    ]
    own = len(place.loops) if place is not None else 0
    placement = place_stages(stage.schedule)[stage]
    outside = set(placement.loops.variables[: carried_loops(placement)])
    carried = [n + 1 for n, leaf in enumerate(stage.state.leaves) if outside & set(placement.loops.of_leaf[leaf])]
    return max([own, *inside, *carried], default=0)
