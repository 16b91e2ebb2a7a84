"""Which loops may run their iterations in any order, or at the same time.

A loop is parallel iff no iteration reads a cell that an earlier one has written and it has not written itself, and no
two iterations update the same accumulator. Cells that several iterations recompute have the same value in each, and
buffers inside a loop belong to one iteration.
"""

from lathe.scheduler.errors import ParallelismError, ScheduleError, Witness
from lathe.scheduler.legality.reaching_write_query import Ordering, first_violation
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.legality.storage_folding import FoldedAccesses
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.loop_ir.timestamps import occurrences_of
from lathe.scheduler.query_results import QueryResult, answerable
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration, user_buffers_of


def check_annotated_loops(schedule: ScheduleView, command: str) -> None:
    """Raises ParallelismError, with a witness, if an annotated loop is no longer parallel."""
    annotated = [
        (stage, loop, annotation) for stage in schedule.stages for loop, annotation in stage.state.annotations.items()
    ]
    if not annotated:
        return
    placed = place_stages(schedule)
    for stage, loop, annotation in annotated:
        answer = parallel_loop(schedule, stage, loop, placed)
        if not answer:
            subject = (
                f"loop {loop.name} of stage {stage.name} must be parallel to be annotated by {annotation} ({command})"
            )
            raise not_parallel(subject, answer)


def not_parallel(subject: str, answer: QueryResult) -> ScheduleError:
    """The error for a request that needs a parallel loop."""
    message = f"{subject}, but {answer.reason}."
    if isinstance(answer.witness, Witness):
        return ParallelismError(message, answer.witness)
    return ScheduleError(message, kind="legality")


def parallel_loop(
    schedule: ScheduleView,
    stage: StageView,
    loop: LoopAxis,
    placed: dict[StageView, StageRegion],
    *,
    updates_commute: bool = False,
) -> QueryResult:
    """Whether a loop of a stage, with all that is computed inside it, is parallel; if not, why, with a witness.

    ``updates_commute``: iterations may update the same elements, as in a reduction, one update at a time, and may each
    have a copy of user-declared buffers inside the loop.
    """
    if loop.kind == "reduce" and not updates_commute:
        return _reduction(stage, loop, placed[stage])
    here = placed[stage]
    order = Ordering.without(here, loop)
    depth = len(order.outside) + len(order.free)
    inside = [each for each in schedule.stages if placed[each].around[:depth] == here.around[:depth]]
    for each in inside if not updates_commute else []:
        shared = each.state.attachment.loops if each.state.attachment else ()
        variables = {v for leaf in shared if leaf.kind == "reduce" for v in placed[each].loops.of_leaf[leaf]}
        if variables & set(order.free):
            return QueryResult(False, f"its iterations update the same elements of {each.tensor.name}", None)
    for each in inside:
        if each.state.reuse and len(placed[each].prefix) == depth:
            return QueryResult(False, f"reuse buffer {each.name} keeps values from one iteration to the next", None)
    question = f"whether loop {loop.name} of stage {stage.name} is parallel"
    for consumer in inside:
        for read in consumer.state.computation.reads:
            producer = schedule.producer(read.tensor)
            if producer not in inside or producer is None or not outlives_iteration(producer):
                continue
            with answerable(question):
                verdict = first_violation(
                    DirectAccesses.in_iterations(placed[producer], placed[consumer], read, depth, placed), order
                )
            if verdict is not None:
                witness = verdict.read_witness
                return QueryResult(False, f"one iteration reads what another writes: {witness}", witness)
    reason = "" if updates_commute else _shared_cell(schedule, order, placed, question)
    if reason:
        return QueryResult(False, reason)
    return QueryResult(True, "no iteration reads what another writes", None)


def _shared_cell(schedule: ScheduleView, order: Ordering, placed: dict[StageView, StageRegion], question: str) -> str:
    """A message about a cell that two iterations of a loop access, at least one to write it; "" if there is none.

    Buffers that are allocated in the loop, or in one inside it, belong to one iteration.
    """
    buffers = user_buffers_of(schedule.stages)
    if not buffers:
        return ""
    occurrences, end = occurrences_of(partition(build_nest(schedule)))
    loops = [*order.outside, *order.free]
    for buffer, allocated in buffers.items():
        location = schedule.allocations.get(buffer)
        if location is not None:
            inside = Ordering.without(placed[schedule.at(location)], location.axis)
            if [*inside.outside, *inside.free][: len(loops)] == loops:
                continue
        with answerable(question):
            verdict = first_violation(FoldedAccesses(schedule, allocated, occurrences, end), order)
        if verdict is not None:
            cell = ", ".join(map(str, verdict.cell))
            return f"two iterations use cell {buffer.name}[{cell}], which one of them writes"
    return ""


def _reduction(stage: StageView, loop: LoopAxis, placement: StageRegion) -> QueryResult:
    variables = placement.loops.of_leaf[loop]
    if all(variable.extent == 1 for variable in variables):
        return QueryResult(True, "it has one iteration", None)
    return QueryResult(False, f"its iterations update the same elements of {stage.tensor.name}", None)
