"""Which loops may run their iterations in any order, or at the same time.

A loop is parallel iff no iteration reads a cell that an earlier one has made and it has not made itself, and no two
iterations update the same accumulator. Cells that several iterations compute again have the same value in each, and
buffers inside a loop belong to one iteration.
"""

import islpy as isl

from lathe.frontend.polyhedra import access_of
from lathe.scheduler.answers import Answer, answerable
from lathe.scheduler.errors import ParallelismError, ScheduleError, Witness
from lathe.scheduler.legality.stored_iterations import shared_cell
from lathe.scheduler.nest.executed import carried_out
from lathe.scheduler.nest.instances import cells_made, cells_read, cells_written, instances
from lathe.scheduler.nest.place import place_stages
from lathe.scheduler.nest.placement import Placement
from lathe.scheduler.state.loops import LoopAxis
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.stored import values_stay

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def check_marks(stage: StageView, command: str) -> None:
    """Raises ScheduleError if a marked loop is gone."""
    for loop, mark in stage.state.marks.items():
        if loop not in stage.state.leaves:
            raise ScheduleError(
                f"loop {loop.name} of stage {stage.name} must stay a loop while it is marked {mark}, not be replaced "
                f"by {command}. Call {mark} last.",
                kind="limit",
            )


def check_marked_loops(schedule: ScheduleView, command: str) -> None:
    """Raises ParallelismError, with a witness, if a marked loop is parallel no more."""
    marked = [(stage, loop, mark) for stage in schedule.stages for loop, mark in stage.state.marks.items()]
    if not marked:
        return
    placed = place_stages(schedule)
    for stage, loop, mark in marked:
        answer = parallel_loop(schedule, stage, loop, placed)
        if not answer:
            message = (
                f"loop {loop.name} of stage {stage.name} must be parallel to be marked {mark} ({command}), but "
                f"{answer.reason}."
            )
            if isinstance(answer.witness, Witness):
                raise ParallelismError(message, answer.witness)
            raise ScheduleError(message, kind="legality")


def parallel_loop(
    schedule: ScheduleView,
    stage: StageView,
    loop: LoopAxis,
    placed: dict[StageView, Placement],
    *,
    updates_commute: bool = False,
) -> Answer:
    """Whether a loop of a stage, with all that is computed inside it, is parallel; if not, why, with a witness.

    ``updates_commute``: iterations may update the same elements, as those of a reduction do, one update at a time, and
    may have buffers of their own, where others of the user's would be shared.
    """
    if loop.kind == "reduce" and not updates_commute:
        return _reduction(stage, loop, placed[stage])
    here = placed[stage]
    around = _around(here)
    outer, depth = levels_of(here, loop)
    inside = [each for each in schedule.stages if _around(placed[each])[:depth] == around[:depth]]
    variables = set(here.loops.of_leaf[loop])
    for each in inside if not updates_commute else []:
        shared = each.state.attachment.loops if each.state.attachment else ()
        if any(leaf.kind == "reduce" and variables & set(placed[each].loops.of_leaf[leaf]) for leaf in shared):
            return Answer(False, f"its iterations update the same elements of {each.tensor.name}", None)
    for each in inside:
        if each.state.reuse and len(placed[each].prefix) == depth:
            return Answer(False, f"reuse buffer {each.name} keeps values from one iteration to the next", None)
    for reader in inside:
        for read in reader.state.computation.reads:
            producer = schedule.maker(read.tensor)
            if producer not in inside or producer is None or not values_stay(producer):
                continue
            with answerable(f"whether loop {loop.name} of stage {stage.name} is parallel"):
                executed = carried_out(placed[reader], placed)
                needed = cells_read(placed[reader], read, depth, executed).set_tuple_name(IN, "loops")
                made = _made(placed[producer], read.tensor.name, depth).set_tuple_name(IN, "loops")
                outside = carried_out(placed[producer], placed)  # what other iterations leave out, nobody makes there
                sure = made if outside is None else _made(placed[producer], read.tensor.name, depth, outside)
                missing = needed.subtract(sure.set_tuple_name(IN, "loops"))
                carried = missing.apply_range(made.reverse())
                same = isl.Map.universe(carried.get_space())
                for position in range(outer):
                    same = same.equate(IN, position, OUT, position)
                carried = carried.intersect(same)
                if carried.is_empty():
                    continue
                witness = _carried(producer, reader, read.tensor.name, placed, missing, carried, depth)
            return Answer(False, f"one iteration reads what another makes: {witness}", witness)
    reason = "" if updates_commute else shared_cell(schedule, stage, loop)
    if reason:
        return Answer(False, reason)
    return Answer(True, "no iteration reads what another makes", None)


def levels_of(placement: Placement, loop: LoopAxis) -> tuple[int, int]:
    """How many loops are around one of a stage's loops, and how many with it: more than one if it is a fused one."""
    around = _around(placement)
    depth = max(around.index(variable) for variable in placement.loops.of_leaf[loop]) + 1
    return depth - len(placement.loops.of_leaf[loop]), depth


def _around(placement: Placement) -> list[object]:
    return [*placement.prefix, *placement.loops.variables]


def _made(placement: Placement, name: str, depth: int, around: isl.Set | None = None) -> isl.Map:
    attachment = placement.state.attachment
    if attachment and not attachment.loops and attachment.region == "box" and depth <= len(placement.prefix):
        return cells_made(placement, name, depth, around)
    return cells_written(placement, name, depth, around)


def _carried(
    producer: StageView,
    reader: StageView,
    tensor: str,
    placed: dict[StageView, Placement],
    missing: isl.Map,
    carried: isl.Map,
    depth: int,
) -> Witness:
    iteration = carried.domain().lexmin()
    other = carried.intersect_domain(iteration).range()
    made = _made(placed[producer], tensor, depth).set_tuple_name(IN, "loops")
    cells = missing.intersect_domain(iteration).range().intersect(made.intersect_domain(other).range()).lexmin()
    executed = instances(placed[reader])
    for level, value in enumerate(values_of(iteration)):
        executed = executed.fix_val(IN, level, isl.Val(value))
    points = isl.Set.empty(executed.get_space().range())
    for read in reader.state.computation.reads:
        if read.tensor.name == tensor:
            access = access_of(reader.state.computation, read)
            points = points.union(executed.range().intersect(access.intersect_range(cells).domain()))
    cell = tuple(values_of(cells))
    computation = reader.state.computation
    names = [axis.name for axis in (*computation.axes, *computation.reduce_axes)]
    consumer = dict(zip(names, values_of(points.lexmin()), strict=True))
    made_at = {axis.name: value for axis, value in zip(producer.state.computation.axes, cell, strict=True)}
    return Witness(tensor, cell, producer.name, made_at, reader.name, consumer)


def _reduction(stage: StageView, loop: LoopAxis, placement: Placement) -> Answer:
    variables = placement.loops.of_leaf[loop]
    if all(variable.extent == 1 for variable in variables):
        return Answer(True, "it has one iteration", None)
    return Answer(False, f"its iterations update the same elements of {stage.tensor.name}", None)


def values_of(point: isl.Set) -> list[int]:
    """The coordinates of a set of one point."""
    sample = point.sample_point()
    return [int(sample.get_coordinate_val(SET, n).to_python()) for n in range(point.dim(SET))]
