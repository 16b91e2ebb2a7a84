"""Operands of stages of a cycle, for the machine: from where each is loaded, and how often."""

from dataclasses import replace

import islpy as isl

from lathe.configs import HardwareConfig
from lathe.frontend import Axis, Computation, interval
from lathe.frontend.accesses import ReadAccess
from lathe.frontend.expressions import AxisRef, Binary, Compare, Const, Expr, Read, Reduce, Select, axes_of
from lathe.frontend.indices.plain import kept
from lathe.frontend.polyhedra import access_of
from lathe.scheduler.algorithm.patterns import factors
from lathe.scheduler.algorithm.rewrite import reads_redirected, rewrite, transform
from lathe.scheduler.errors import CapacityError
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.cycles import around, circles, shared_loops
from lathe.scheduler.nest.instances import instances
from lathe.scheduler.nest.place import place_stages
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.memories import DRAM
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.state.stage import Attachment, initial_state
from lathe.scheduler.target.buffers import buffers_of
from lathe.scheduler.target.elements import Physical, physical_of
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.planes import PLANES
from lathe.scheduler.target.reused_cells import find_aliases

IN, OUT = isl.dim_type.in_, isl.dim_type.out


def only_moves(body: Expr) -> bool:
    """Whether an expression is what a DMA can load: elements of other tensors, or zeros."""
    if isinstance(body, Select):
        return only_moves(body.then) and only_moves(body.otherwise)
    return isinstance(body, Read) or (isinstance(body, Const) and body.value == 0)


def settle_choices(schedule: Edit) -> None:
    """Leave out of stages of a cycle what they never read: a select whose condition is the same at every point."""
    for stage in [each for group in circles(schedule) for each in group]:
        old = stage.state.computation
        bodies = tuple(transform(body, _settled) for body in old.bodies)
        if any(new is not body for new, body in zip(bodies, old.bodies, strict=True)):
            schedule.own(stage).change(computation=replace(old, bodies=bodies))


def _settled(node: Expr) -> Expr | None:
    chosen = node
    while isinstance(chosen, Select) and (holds := _always(chosen.condition)) is not None:
        chosen = chosen.then if holds else chosen.otherwise
    return None if chosen is node else transform(chosen, _settled)


def _always(condition: Expr) -> bool | None:
    """Whether a condition holds at every point, or at none; None where that depends."""
    match condition:
        case Binary(op="and", lhs=lhs, rhs=rhs):
            sides = _always(lhs), _always(rhs)
            return False if False in sides else True if sides == (True, True) else None
        case Compare(op="ge" | "lt" as op, lhs=lhs, rhs=rhs):
            (low, high), (least, most) = interval(lhs), interval(rhs)
            if low >= most:
                return op == "ge"
            return op != "ge" if high < least else None
    return None


def separate_choices(schedule: Edit) -> None:
    """Load what a matrix product of a cycle chooses from, h[t - 1] or zeros, in a stage of its own, in place."""
    for stage in [each for group in circles(schedule) for each in group]:
        computation = stage.state.computation
        body = computation.bodies[0]
        if (
            stage.state.scope not in (DRAM, "acc")
            or not isinstance(body, Reduce)
            or body.kind != "sum"
            or body.dtype != "int32"
        ):
            continue
        product = kept(body.body)
        if (body.kind, body.dtype) != ("sum", "int32") or not isinstance(product, Binary) or product.op != "mul":
            continue
        for factor in (kept(product.lhs), kept(product.rhs)):
            if isinstance(factor, Select) and factor.dtype == "int8" and only_moves(factor):
                _separate(schedule.own(stage), factor)


def _separate(stage: EditedStage, choice: Select) -> None:
    schedule, computation = stage.schedule, stage.state.computation
    used = set(axes_of(choice))
    old = [axis for axis in (*computation.axes, *computation.reduce_axes) if axis in used]
    axes = tuple(Axis(axis.name, axis.stop) for axis in old)
    inside = rewrite(choice, axes={axis: AxisRef(own) for axis, own in zip(old, axes, strict=True)})
    loaded = Computation(fresh_name(schedule, f"{stage.name}.choice"), axes, (), (inside,))
    state = stage.state
    place = replace(state.attachment, loops=()) if state.attachment is not None else None
    if place is None:
        place = Attachment(stage.id, state.leaves[max(shared_loops(stage), 1) - 1])
    new = schedule.new(replace(initial_state(loaded, "inp"), attachment=place))
    read = Read(new.tensor, tuple(AxisRef(axis) for axis in old))
    bodies = tuple(transform(body, lambda node: read if node is choice else None) for body in computation.bodies)
    rewritten = Computation(computation.name, computation.axes, computation.reduce_axes, bodies, computation.attrs)
    stage.put(replace(state, computation=rewritten))
    schedule.insert(new, before=stage)


def forward(schedule: Edit, writer: EditedStage, store: EditedStage) -> None:
    """Let stages in acc read what the same iteration has made where it was made, and not where it has been stored.

    Storing bytes leaves the accumulators as they are; storing wider values would have to copy them first.
    """
    if store.tensor.dtype in PLANES:
        return
    for reader in schedule.stages[schedule.stages.index(store) + 1 :]:
        state = reader.state
        if state.scope != "acc" or state.copies or factors(state.computation) is not None:
            continue
        reads = [read for read in state.computation.reads if read.tensor is store.tensor]
        near = {read.node: writer.tensor for read in reads if is_near(writer, reader, read)}
        if near and len(near) == len(reads):
            reader.put(replace(state, computation=reads_redirected(state.computation, near)))


def is_near(writer: EditedStage, reader: EditedStage, read: ReadAccess) -> bool:
    """Whether all that a read touches is made in the same iteration of the loops around the writer."""
    placed = place_stages(writer.schedule)
    loops = placed[writer].prefix
    depth = len(loops)
    if any(own is not other for own, other in zip(loops, around(placed[reader])[:depth], strict=False)):
        return False
    makes, rank = instances(placed[writer]), len(writer.state.computation.axes)
    makes = makes.project_out(OUT, rank, makes.dim(OUT) - rank).set_tuple_name(OUT, read.tensor.name)
    needs = instances(placed[reader]).apply_range(access_of(reader.state.computation, read))
    pairs = needs.apply_range(makes.reverse())
    same = isl.Map.universe(pairs.get_space())
    for level in range(depth):
        same = same.equate(IN, level, OUT, level)
    return bool(pairs.subtract(same).is_empty())


def load_once(schedule: Edit, config: HardwareConfig, loads: list[EditedStage]) -> None:
    """Load inputs before the loops of a cycle, once for all iterations, as far as scratchpads have room."""
    for stage in loads:
        if any(schedule.maker(read.tensor) is not None for read in stage.state.computation.reads):
            continue  # made on the way, perhaps in the same loops
        before = schedule.state
        stage.change(attachment=None)
        place = min(schedule.stages.index(each) for group in circles(schedule) for each in group)
        if schedule.stages.index(stage) > place:
            schedule.insert(stage, before=schedule.stages[place])
        try:
            lanes = plan_lanes(schedule, config).known
            physical: dict[StageView, Physical] = {each: physical_of(each, lanes, config) for each in schedule.stages}
            nest = build_nest(schedule, largest_blocks=True)
            buffers_of(schedule, config, nest, physical, find_aliases(schedule))
        except CapacityError:
            schedule.become(before)
