"""Flow-dependence check: every read finds its value computed and still live, for values with cells of their own.

A stage at the root is complete before its consumers begin. A stage in a loop is computed in each iteration, as far as
the iteration needs it; its values in a scratchpad are freed when the iteration ends, those in DRAM persist, and a reuse
buffer keeps its window from one iteration to the next. So a read is legal iff every cell that it accesses has been
computed in the same iteration of the loops around both, or, in DRAM, in an earlier one, or, in a window, since its loop
began. Stages of a recurrence, and sums in shared loops, are not complete when a consumer begins: there, pairs of
instances are compared. Updates of a reduction commute, so their order does not matter.
"""

from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.errors import LegalityError, ScheduleError
from lathe.scheduler.legality.reaching_write_query import Ordering, first_violation
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.loop_ir.compute_locations import comes_first, place_stages
from lathe.scheduler.loop_ir.fused_loops import fuses_reduction
from lathe.scheduler.loop_ir.recurrences import preceding_consumers, recurrence_groups, recurrence_of
from lathe.scheduler.loop_ir.stage_region import StageRegion, shared_depth
from lathe.scheduler.query_results import answerable
from lathe.scheduler.schedule_ir.dataflow_graph import consumers_of, producers_of, reachable
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration

Placed = dict[StageView, StageRegion]


def check_reads(schedule: ScheduleView, command: str, moved: set[StageView], placed: Placed | None = None) -> None:
    """Refuse a schedule in which a read affected by one of ``moved`` finds no live value.

    ``placed``: the regions to check, if they are not those of all instances of the stages.
    """
    if _is_plain(schedule):
        return
    dependent = reachable(moved, lambda each: [*schedule.attached(each), *producers_of(schedule, each)])
    affected = [stage for stage in schedule.stages if stage in dependent]
    attached = [stage for stage in affected if stage.state.attachment is not None]
    early = [(stage, consumer) for stage in affected if stage not in attached for consumer in _before(schedule, stage)]
    if not attached and not early:
        return
    placed = place_stages(schedule) if placed is None else placed
    for stage, consumer in early:
        for read in _reads_of(consumer, stage):
            if _runs_inside(consumer, stage):  # it may read values of earlier iterations
                _check_pairs(schedule, stage, consumer, read, placed, command, "in their shared loops")
            else:
                _refuse_premature(stage, consumer, read, placed, command)
    for stage in attached:
        persists = stage.state.attachment and stage.state.attachment.loops and outlives_iteration(stage)
        others = recurrence_of(schedule, stage) if persists else []  # these are compared by instances
        for consumer in consumers_of(schedule, stage):
            for read in _reads_of(consumer, stage) if consumer not in others else []:
                if fuses_reduction(stage):
                    _check_pairs(schedule, stage, consumer, read, placed, command, "as a complete sum")
                else:
                    _check_read(schedule, stage, consumer, read, placed, command)


def _is_plain(schedule: ScheduleView) -> bool:
    """Whether no stage is computed in a loop of another and all precede their consumers, as in a new schedule."""
    tables = schedule.state.def_use
    producers, order = tables.producers, tables.order
    return not tables.attached and not any(
        tensor in producers and order[consumers[0]] < order[producers[tensor]]
        for tensor, consumers in tables.consumers.items()
    )


def check_recurrences(schedule: ScheduleView, command: str, changed: set[StageView], placed: Placed) -> None:
    """Raises LegalityError, with a witness, if a stage of a recurrence would read a value not computed yet."""
    why = "in their recurrence"
    for group in recurrence_groups(schedule):
        if not changed & reachable(group, lambda each: [] if each.enclosing is None else [each.enclosing]):
            continue
        for consumer in group:
            for read in consumer.state.computation.reads:
                producer = schedule.producer(read.tensor)
                location = None if producer is None else producer.state.attachment
                by_region = location is not None and not location.loops
                if producer in group and producer is not None and not by_region:
                    _check_pairs(schedule, producer, consumer, read, placed, command, why)


def check_emitted(placement: StageRegion, command: str) -> None:
    """Raises LegalityError if a nest that a rule may execute in any order has dependences between its iterations."""
    stage, emitted = placement.stage, placement.state.emitted_leaves()
    own = _reads_of(stage, stage) if emitted else []
    if not own:
        return
    around = placement.around
    level = around.index(placement.loops.of_leaf[emitted[0]][0])
    order = Ordering(every=True, outside=tuple(around[:level]), free=tuple(around[level:]))
    with answerable(f"whether rule {placement.state.pragma!r} may execute loops of stage {stage.name} in any order"):
        verdict = first_violation(DirectAccesses.of_instances(placement, placement, own), order)
    if verdict is not None:
        raise LegalityError(
            f"Cannot give loops of stage {stage.name}, from {emitted[0].name} inwards, to rule "
            f"{placement.state.pragma!r} ({command}): it may execute iterations in any order, and some depend on "
            f"others. For example, {verdict.witness}. Put the pragma on an inner loop.",
            verdict.read_witness,
        )


def _reads_of(consumer: StageView, stage: StageView) -> list[ReadAccess]:
    return [read for read in consumer.state.computation.reads if read.tensor in stage.state.tensors]


def _question(command: str, consumer: StageView, read: ReadAccess) -> str:
    return f"whether the read of {read.tensor.name} by {consumer.name} finds its value after {command}"


def _before(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The consumers of a root-level stage that precede it, except in its recurrence: there they read earlier values."""
    consumers, stages = set(consumers_of(schedule, stage)), schedule.stages
    early = [each for each in stages[: stages.index(stage)] if each in consumers]
    recurrence = recurrence_of(schedule, stage) if early else []
    return [each for each in early if each not in recurrence]


def _runs_inside(stage: StageView, anchor: StageView) -> bool:
    """Whether a stage runs in loops of another, directly or not."""
    return stage.enclosing is not None and (stage.enclosing is anchor or _runs_inside(stage.enclosing, anchor))


def _refuse_premature(stage: StageView, consumer: StageView, read: ReadAccess, placed: Placed, command: str) -> None:
    """Refuse a root-level stage after one of its consumers, unless that never reads it."""
    with answerable(_question(command, consumer, read)):
        uses = DirectAccesses.in_iterations(placed[stage], placed[consumer], read, 0, placed)
        verdict = first_violation(uses, Ordering(first=False, stays=False))
    if verdict is not None:
        raise LegalityError(
            f"Cannot apply {command}: {consumer.name} would run before {stage.name}, which it reads. For example, "
            f"{verdict.witness}.",
            verdict.read_witness,
        )


def _check_read(
    schedule: ScheduleView, stage: StageView, consumer: StageView, read: ReadAccess, placed: Placed, command: str
) -> None:
    """Refuse a read of a stage in a loop unless every cell read has been computed and is still live."""
    here, there, location = placed[stage], placed[consumer], stage.state.attachment
    assert location is not None, f"{stage.name} is not in a loop"
    depth = min(shared_depth(here.around, there.around), len(here.prefix))
    inside, stays = depth == len(here.prefix), outlives_iteration(stage)
    together = bool(location.loops) or location.region != "box"
    with answerable(_question(command, consumer, read)):
        uses = DirectAccesses.in_iterations(here, there, read, depth, placed)
        if inside and not together:
            verdict = first_violation(uses, Ordering(stays=False))
            assert verdict is None, (
                f"{command}: the region of {stage.name} lacks cells that {consumer.name} needs: {verdict.witness}"
            )
            return
        first = comes_first(schedule, stage, consumer, placed, depth)
        verdict = first_violation(uses, Ordering(first=first and (stays or inside), stays=stays))
    if verdict is None:
        return
    why = "reads values after the iteration that computes them has ended"
    if not first:
        why = "runs before the loop that computes the values"
    elif stays:
        why = "reads cells that no iteration so far has computed"
    loop = f"loop {location.axis.name} of {schedule.at(location).name}"
    if location.region != "box":
        message = (
            f"Cannot compute region {location.region!r} of {stage.name} at {loop} ({command}): {consumer.name} {why}"
        )
    elif together:
        message = f"Cannot run {stage.name} in {loop} ({command}): {consumer.name} {why}"
    else:
        message = f"Cannot compute {stage.name} at {loop} ({command}): {consumer.name} {why}"
    raise LegalityError(f"{message}. For example, {verdict.witness}.", verdict.read_witness)


def _check_pairs(
    schedule: ScheduleView,
    producer: StageView,
    consumer: StageView,
    read: ReadAccess,
    placed: Placed,
    command: str,
    why: str,
) -> None:
    """Raises LegalityError unless all instances that write what a read accesses precede it, one by one."""
    if not outlives_iteration(producer) and consumer in preceding_consumers(schedule, producer):
        raise ScheduleError(
            f"scope of stage {producer.name} must be dram, not {producer.state.scope!r} ({command}): {consumer.name} "
            "reads values of earlier iterations, and a scratchpad buffer is freed after each. Copy them into a "
            "scratchpad with cache_write or cache_read.",
            kind="legality",
        )
    with answerable(_question(command, consumer, read)):
        uses = DirectAccesses.of_instances(placed[producer], placed[consumer], [read])
        first = producer is not consumer and comes_first(schedule, producer, consumer, placed, uses.depth)
        verdict = first_violation(uses, Ordering(first=first, every=True))
    if verdict is not None:
        raise LegalityError(
            f"Cannot apply {command}: {consumer.name} would read {producer.name} before it is computed {why}. For "
            f"example, {verdict.witness}.",
            verdict.read_witness,
        )
