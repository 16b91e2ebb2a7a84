"""Does every read find its value: made before, and still there? Of values with cells of their own.

A stage computed at the root is whole before its readers begin. A stage computed in a loop is made anew in each
iteration, as far as that iteration needs; its values in a scratchpad are gone when the iteration ends, those in DRAM
stay, and a reuse buffer keeps its window from one iteration to the next. So a read is legal iff every cell that it
touches has been made in the same iteration of the loops around both, or, in DRAM, in an earlier one, or, in a window,
since its loop began. Stages of a cycle, and sums in shared loops, are whole before no reader begins: there it is pairs
of instances that are compared. Updates of one reduction commute, so orders among them do not matter.
"""

from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.errors import LegalityError, ScheduleError
from lathe.scheduler.legality.reaching_write_query import Ordering, first_lost
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.loop_ir.compute_locations import comes_first, place_stages
from lathe.scheduler.loop_ir.fused_loops import shares_reduction
from lathe.scheduler.loop_ir.recurrences import read_later, recurrence_groups, recurrence_of
from lathe.scheduler.loop_ir.stage_region import StageRegion, shared_depth
from lathe.scheduler.query_results import answerable
from lathe.scheduler.schedule_ir.dataflow_graph import makers_of, reached, readers_of
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration

Placed = dict[StageView, StageRegion]


def check_reads(schedule: ScheduleView, command: str, moved: set[StageView], placed: Placed | None = None) -> None:
    """Refuse a schedule in which a stage that depends on one of ``moved`` would be read where its values are not.

    ``placed``: the placements to look at, where they are not those of all instances of the stages.
    """
    if _is_plain(schedule):
        return
    dependent = reached(moved, lambda each: [*schedule.attached(each), *makers_of(schedule, each)])
    affected = [stage for stage in schedule.stages if stage in dependent]
    attached = [stage for stage in affected if stage.state.attachment is not None]
    early = [(stage, reader) for stage in affected if stage not in attached for reader in _before(schedule, stage)]
    if not attached and not early:
        return
    placed = place_stages(schedule) if placed is None else placed
    for stage, reader in early:
        for read in _reads_of(reader, stage):
            if _runs_inside(reader, stage):  # it may read what earlier iterations have made
                _check_pairs(schedule, stage, reader, read, placed, command, "in the loops that they share")
            else:
                _refuse_early(stage, reader, read, placed, command)
    for stage in attached:
        kept = stage.state.attachment and stage.state.attachment.loops and outlives_iteration(stage)
        others = recurrence_of(schedule, stage) if kept else []  # among these, pairs of instances are compared
        for reader in readers_of(schedule, stage):
            for read in _reads_of(reader, stage) if reader not in others else []:
                if shares_reduction(stage):
                    _check_pairs(schedule, stage, reader, read, placed, command, "all of its sum")
                else:
                    _check_read(schedule, stage, reader, read, placed, command)


def _is_plain(schedule: ScheduleView) -> bool:
    """Whether no stage is computed in a loop of another and all come before their readers, as most schedules begin."""
    tables = schedule.state.tables
    makers, order = tables.makers, tables.order
    return not tables.attached and not any(
        tensor in makers and order[readers[0]] < order[makers[tensor]] for tensor, readers in tables.readers.items()
    )


def check_circles(schedule: ScheduleView, command: str, changed: set[StageView], placed: Placed) -> None:
    """Raises LegalityError, with a witness, if a stage of a cycle would read what is not made yet."""
    what = "in a cycle of stages that need each other's earlier values, not later or at the same time"
    for group in recurrence_groups(schedule):
        if not changed & reached(group, lambda each: [] if each.host is None else [each.host]):
            continue
        for reader in group:
            for read in reader.state.computation.reads:
                maker = schedule.maker(read.tensor)
                place = None if maker is None else maker.state.attachment
                if maker in group and maker is not None and (place is None or place.loops):  # not made in parts
                    _check_pairs(schedule, maker, reader, read, placed, command, what)


def check_emitted(placement: StageRegion, command: str) -> None:
    """Raises LegalityError if a nest that an emission rule carries out as it likes holds instances in an order."""
    stage, emitted = placement.stage, placement.state.emitted_leaves()
    own = _reads_of(stage, stage) if emitted else []
    if not own:
        return
    around = placement.around
    level = around.index(placement.loops.of_leaf[emitted[0]][0])
    order = Ordering(every=True, outside=tuple(around[:level]), free=tuple(around[level:]))
    with answerable(f"whether rule {placement.state.pragma!r} may carry out loops of stage {stage.name} in any order"):
        verdict = first_lost(DirectAccesses.of_instances(placement, placement, own), order)
    if verdict is not None:
        raise LegalityError(
            f"loops of stage {stage.name} that emit_insn gives to rule {placement.state.pragma!r} must hold instances "
            f"that may be carried out in any order, not some that need others ({command}, from {emitted[0].name} on). "
            f"For example, {verdict.witness}. Put the pragma on an inner loop.",
            verdict.found,
        )


def _reads_of(reader: StageView, stage: StageView) -> list[ReadAccess]:
    return [read for read in reader.state.computation.reads if read.tensor in stage.state.tensors]


def _question(command: str, reader: StageView, read: ReadAccess) -> str:
    return f"whether the read of {read.tensor.name} by {reader.name} finds its value after {command}"


def _before(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The readers of a stage at the root that come before it. Readers in its own cycle read earlier values."""
    readers, stages = set(readers_of(schedule, stage)), schedule.stages
    early = [each for each in stages[: stages.index(stage)] if each in readers]
    circle = recurrence_of(schedule, stage) if early else []
    return [each for each in early if each not in circle]


def _runs_inside(stage: StageView, host: StageView) -> bool:
    """Whether a stage runs in loops of another, in those of a stage there included."""
    return stage.host is not None and (stage.host is host or _runs_inside(stage.host, host))


def _refuse_early(stage: StageView, reader: StageView, read: ReadAccess, placed: Placed, command: str) -> None:
    """Refuse a stage at the root that comes behind one of its readers, unless that reads nothing after all."""
    with answerable(_question(command, reader, read)):
        uses = DirectAccesses.in_iterations(placed[stage], placed[reader], read, 0, placed)
        verdict = first_lost(uses, Ordering(first=False, stays=False))
    if verdict is not None:
        raise LegalityError(
            f"{command} must leave stage {stage.name} before {reader.name}, which reads it, not behind. For example, "
            f"{verdict.witness}.",
            verdict.found,
        )


def _check_read(
    schedule: ScheduleView, stage: StageView, reader: StageView, read: ReadAccess, placed: Placed, command: str
) -> None:
    """One read of what a stage in a loop makes: refuse it unless every cell has been made and is still there."""
    here, there, place = placed[stage], placed[reader], stage.state.attachment
    assert place is not None, f"{stage.name} is not in a loop"
    depth = min(shared_depth(here.around, there.around), len(here.prefix))
    inside, stays = depth == len(here.prefix), outlives_iteration(stage)
    together = bool(place.loops) or place.region != "box"
    with answerable(_question(command, reader, read)):
        uses = DirectAccesses.in_iterations(here, there, read, depth, placed)
        if inside and not together:
            verdict = first_lost(uses, Ordering(stays=False))
            assert verdict is None, (
                f"{command}: the region of {stage.name} lacks cells that {reader.name} needs: {verdict.witness}"
            )
            return
        first = comes_first(schedule, stage, reader, placed, depth)
        verdict = first_lost(uses, Ordering(first=first and (stays or inside), stays=stays))
    if verdict is None:
        return
    why = "reads the values after the loop iteration that makes them has ended"
    if not first:
        why = "runs before the loop that makes the values"
    elif stays:
        why = "reads cells that no iteration so far has made"
    loop = f"loop {place.axis.name} of {schedule.at(place).name}"
    if place.region != "box":
        message = (
            f"region {place.region!r} of stage {stage.name} must make what its readers have not got, not leave it to "
            f"values that are gone or yet to come ({command}, {loop}): stage {reader.name} {why}"
        )
    elif together:
        message = (
            f"{command} must leave {stage.name} ahead of what {reader.name} reads of it, not in {loop} as it stands: "
            f"{reader.name} {why}"
        )
    else:
        message = (
            f"place of stage {stage.name} must be a loop that all its readers are in, not {loop} ({command}): stage "
            f"{reader.name} {why}"
        )
    raise LegalityError(f"{message}. For example, {verdict.witness}.", verdict.found)


def _check_pairs(
    schedule: ScheduleView,
    maker: StageView,
    reader: StageView,
    read: ReadAccess,
    placed: Placed,
    command: str,
    why: str,
) -> None:
    """Raises LegalityError unless all instances that make what a read touches come before it, one by one."""
    if not outlives_iteration(maker) and reader in read_later(schedule, maker):
        raise ScheduleError(
            f"scope of stage {maker.name} must be dram, not {maker.state.scope!r} ({command}): {reader.name} reads "
            f"what earlier iterations of {maker.name} have made, and a buffer belongs to one. Put a copy into a "
            "scratchpad with cache_write or cache_read.",
            kind="legality",
        )
    with answerable(_question(command, reader, read)):
        uses = DirectAccesses.of_instances(placed[maker], placed[reader], [read])
        first = maker is not reader and comes_first(schedule, maker, reader, placed, uses.depth)
        verdict = first_lost(uses, Ordering(first=first, every=True))
    if verdict is not None:
        raise LegalityError(
            f"{command} must leave every cell of {maker.name} made before {reader.name} reads it, {why}. For example, "
            f"{verdict.witness}.",
            verdict.found,
        )
