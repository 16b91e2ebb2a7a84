"""Is a schedule legal? Every read must find its value: computed before, and still there.

A stage computed at the root is whole before its readers begin. A stage computed in a loop is made anew in each
iteration, as far as that iteration needs; its values in a scratchpad are gone when the iteration ends, those in DRAM
stay, and a reuse buffer keeps its window from one iteration to the next. So a read is legal iff every cell that it
touches has been made in the same iteration of the loops around both, or, in DRAM, in an earlier one, or, in a window,
since its loop began. That is an exact set difference in isl, and a point of the difference is the witness.
Updates of one reduction commute, so orders among them do not matter.
"""

import islpy as isl

from lathe.frontend.accesses import ReadAccess
from lathe.frontend.polyhedra import access_of, cells_of
from lathe.scheduler.answers import checkable
from lathe.scheduler.errors import BuildError, LegalityError, ScheduleError, Witness
from lathe.scheduler.legality.buffers import check_buffers
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.legality.held_in_cells import check_storage
from lathe.scheduler.legality.parallelism import check_marked_loops, check_marks
from lathe.scheduler.legality.threads_apart import check_threads
from lathe.scheduler.nest.cycles import check_circles, check_emitted, check_pairs, in_circle, read_later
from lathe.scheduler.nest.executed import carried_out
from lathe.scheduler.nest.instances import cells_kept, cells_made, cells_read, cells_written, instances
from lathe.scheduler.nest.needed_instances import without_unneeded
from lathe.scheduler.nest.place import comes_first, place_stages
from lathe.scheduler.nest.placement import Placement
from lathe.scheduler.nest.shared_loops import check_together, shares_reduction
from lathe.scheduler.state.layout import check_dimensions
from lathe.scheduler.state.loops import Mapped
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.stored import values_stay

SET = isl.dim_type.set


def check_schedule(schedule: ScheduleView, command: str, changed: set[StageView], moved: set[StageView]) -> None:
    """Refuse the schedule if a tag or a place has become impossible, or a read would miss its value.

    Dependences are checked again for every stage that depends on one of ``moved``: those of the ``changed`` ones whose
    loops, place, reads or memory are new. Raises ScheduleError, or LegalityError with a witness.
    """
    for stage in schedule.stages:
        _check_structure(schedule, stage, command)
        check_marks(stage, command)
        check_communication(stage, command)
    for tensor, layout in schedule.layouts.items():
        check_dimensions(layout, schedule.scope_of(tensor))
    check_buffers(schedule, command)
    check_reads(schedule, command, moved)
    check_storage(schedule, command, changed)
    if schedule.circular:
        placed = place_stages(schedule)
        check_circles(schedule, command, moved, placed)
        for stage in changed & set(schedule.stages):
            check_emitted(placed[stage], command)
    check_marked_loops(schedule, command)
    check_threads(schedule, command)


def check_completed(schedule: ScheduleView) -> None:
    """What commands have checked, asked once more of a schedule that has been completed for a machine.

    Commands have refused what is illegal in the schedule as it was given, so a read that misses its value now is a
    fault of the compiler: an AssertionError with the witness. Raises BuildError if the order that completion has given
    stages overwrites a value in a buffer that ``store_in`` names, or where a check takes too long.
    """
    placed = place_stages(schedule)
    try:
        try:
            _check_all_reads(schedule, placed)
        except LegalityError:  # perhaps of a cell that takes up room in a box only
            _check_all_reads(schedule, without_unneeded(schedule, placed))
    except LegalityError as error:
        raise AssertionError(f"completing a legal schedule has made it illegal: {error}") from error
    except ScheduleError as error:
        raise BuildError(str(error), kind=error.kind) from None
    try:
        check_storage(schedule, "build")
    except ScheduleError as error:
        raise BuildError(
            f"order of a schedule must keep what store_in relies on when build completes it: {error} Say with commands "
            "in which loops these stages run, down to their tiles.",
            kind="limit",
        ) from None


def _check_all_reads(schedule: ScheduleView, placed: dict[StageView, Placement]) -> None:
    stages = set(schedule.stages)
    check_reads(schedule, "build", stages, placed)
    if schedule.circular:
        check_circles(schedule, "build", stages, placed)
        for stage in schedule.stages:
            check_emitted(placed[stage], "build")


def check_reads(
    schedule: ScheduleView, command: str, moved: set[StageView], placed: dict[StageView, Placement] | None = None
) -> None:
    """Refuse a schedule in which a stage that depends on one of ``moved`` would be read where its values are not.

    ``placed``: the placements to look at, where they are not those of all instances of the stages.
    """
    dependent = _depending_on(schedule, moved)
    affected = [stage for stage in schedule.stages if stage in dependent]
    attached = [stage for stage in affected if stage.state.attachment is not None]
    early = [(stage, reader) for stage in affected if stage not in attached for reader in _before(schedule, stage)]
    if not attached and not early:
        return
    placed = place_stages(schedule) if placed is None else placed
    for stage, reader in early:
        if _runs_inside(reader, stage):  # it may read what earlier iterations have made
            _check_each(schedule, stage, reader, placed, command)
        else:
            _refuse_early(stage, reader, placed, command)
    order = {stage: number for number, stage in enumerate(schedule.stages)}
    for stage in attached:
        kept = stage.state.attachment and stage.state.attachment.loops and values_stay(stage)
        others = in_circle(schedule, stage) if kept else []  # among these, pairs of instances are compared
        readers = {reader for tensor in stage.state.tensors for reader in schedule.readers(tensor)} - set(others)
        for reader in sorted(readers, key=order.__getitem__):
            for read in reader.state.computation.reads:
                if read.tensor not in stage.state.tensors:
                    continue
                with checkable(command, read.tensor.name, reader.name):
                    if shares_reduction(stage):
                        check_pairs(schedule, stage, reader, read, placed, command, "all of its sum")
                    else:
                        _check_read(schedule, stage, reader, read, placed, command)


def _before(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The readers of a stage at the root that come before it. Readers in its own cycle read earlier values."""
    readers = {reader for tensor in stage.state.tensors for reader in schedule.readers(tensor)}
    if not readers & set(schedule.stages[: schedule.stages.index(stage) + 1]):
        return []
    circle = in_circle(schedule, stage)
    return [each for each in schedule.stages[: schedule.stages.index(stage)] if each in readers and each not in circle]


def _runs_inside(stage: StageView, host: StageView) -> bool:
    """Whether a stage runs in loops of another, in those of a stage there included."""
    place = stage.state.attachment
    while place is not None and stage.schedule.at(place) is not host:
        place = stage.schedule.at(place).state.attachment
    return place is not None


def _check_each(
    schedule: ScheduleView, stage: StageView, reader: StageView, placed: dict[StageView, Placement], command: str
) -> None:
    """Instance by instance, as stages need it that are in one order of loops."""
    for read in reader.state.computation.reads:
        if read.tensor in stage.state.tensors:
            with checkable(command, read.tensor.name, reader.name):
                check_pairs(schedule, stage, reader, read, placed, command, "in the loops that they share")


def _refuse_early(stage: StageView, reader: StageView, placed: dict[StageView, Placement], command: str) -> None:
    """Refuse a stage at the root that comes behind one of its readers, unless that reads nothing after all."""
    for read in reader.state.computation.reads:
        if read.tensor not in stage.state.tensors:
            continue
        with checkable(command, read.tensor.name, reader.name):
            needed = cells_read(placed[reader], read, 0, carried_out(placed[reader], placed))
            if needed.is_empty():
                continue
            witness = _witness(stage, reader, read, placed[reader], needed, 0)
        raise LegalityError(
            f"{command} must leave stage {stage.name} before {reader.name}, which reads it, not behind. For example, "
            f"{witness}.",
            witness,
        )


def _depending_on(schedule: ScheduleView, moved: set[StageView]) -> set[StageView]:
    """The stages for which one of ``moved`` decides where and what they compute: it, its guests, what it reads."""
    found: set[StageView] = set()
    waiting = list(moved)
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        waiting.extend(schedule.attached(current))
        makers = (schedule.maker(read.tensor) for read in current.state.computation.reads)
        waiting.extend(maker for maker in makers if maker is not None)
    return found


def _check_structure(schedule: ScheduleView, stage: StageView, command: str) -> None:
    attachment = stage.state.attachment
    if attachment is None:
        return
    host = schedule.at(attachment)
    if attachment.loops:
        check_together(stage, command)
    elif any(isinstance(relation, Mapped) for relation in stage.state.relations):
        raise ScheduleError(
            f"stage of compute_at must be one whose loops are for any part of it, not {stage.name!r}, whose loops "
            f"set_schedule gives for the whole ({command}). Let it share loops with after instead.",
            kind="limit",
        )
    elif schedule.circular and (later := read_later(schedule, stage)):
        raise ScheduleError(
            f"stage of compute_at must be one whose values an iteration needs for itself, not {stage.name!r}, of which "
            f"{later[0].name} reads what earlier iterations have made ({command}). Let it share loops with after, or "
            f"copy it with s.cache_write({stage.name}, ...) and move the copy.",
            kind="legality",
        )
    elif any(tensor in schedule.outputs for tensor in stage.state.tensors):
        raise ScheduleError(
            f"stage of compute_at must be one whose values only other stages read, not {stage.name!r}, an output of "
            f"the program. Copy it with s.cache_write({stage.name}, ...) and move the copy.",
            kind="limit",
        )
    elif not any(schedule.readers(tensor) for tensor in stage.state.tensors):
        raise ScheduleError(
            f"stage of compute_at must be one that a stage reads, not {stage.name!r}, of which nothing is needed "
            f"({command}). Leave it at the root, or let s.remove_dead_stores() take it away.",
            kind="argument",
        )
    if schedule.stages.index(host) < schedule.stages.index(stage) and attachment.loops:
        raise ScheduleError(
            f"loops that stage {stage.name} shares with {host.name} must have {host.name} last, not before "
            f"{stage.name} ({command}). Undo that with s[{stage.name}].compute_root().",
            kind="legality",
        )
    if schedule.stages.index(host) < schedule.stages.index(stage):
        readers = dict.fromkeys(reader.name for tensor in stage.state.tensors for reader in schedule.readers(tensor))
        raise ScheduleError(
            f"consumer of compute_at of stage {stage.name} must be a stage that comes after it, not {host.name!r}, "
            f"which is computed before. Its readers are {', '.join(readers)}.",
            kind="legality",
        )
    assert attachment.axis in host.state.leaves, (
        f"{command}: {stage.name} is computed at {attachment.axis.name}, which {host.name} has no more"
    )
    _check_order_of_iterations(stage, command)
    if attachment.axis in host.state.emitted_leaves():
        raise ScheduleError(
            f"loop {attachment.axis.name} of stage {host.name} must be outside the nest that emit_insn gives to rule "
            f"{host.state.pragma!r}, not inside it, for stage {stage.name} to be computed there ({command}). Put the "
            "pragma on an inner loop, or compute the stage further out.",
            kind="machine",
        )


def _check_order_of_iterations(stage: StageView, command: str) -> None:
    """Refuse a stage that relies on earlier iterations of loops that run in pieces.

    A region that is no box is computed piece by piece: its loops begin again for each, without the iterations that
    have nothing of the piece.
    """
    attachment = stage.state.attachment
    assert attachment is not None
    if not stage.state.reuse and attachment.region != "missing":
        return
    kept = f"reuse buffer {stage.name}" if stage.state.reuse else f"stage {stage.name} with region 'missing'"
    host: StageView | None = stage.schedule.at(attachment)
    while host is not None:
        place = host.state.attachment
        if place is not None and place.region != "box":
            raise ScheduleError(
                f"consumer of {kept} must be computed as a box, in the order of its loops, not as region "
                f"{place.region!r} as {host.name!r} is ({command}). Place {host.name} with region='box'.",
                kind="limit",
            )
        host = stage.schedule.at(place) if place is not None and not stage.state.reuse else None


def _check_read(
    schedule: ScheduleView,
    stage: StageView,
    reader: StageView,
    read: ReadAccess,
    placed: dict[StageView, Placement],
    command: str,
) -> None:
    """One read of what a stage in a loop makes: refuse it unless every cell has been made and is still there."""
    here, there = placed[stage], placed[reader]
    depth = 0  # the loops around both
    for own, other in zip(here.prefix, [*there.prefix, *there.loops.variables], strict=False):
        if own is not other:
            break
        depth += 1
    needed = cells_read(there, read, depth, carried_out(there, placed)).set_tuple_name(isl.dim_type.in_, "loops")
    place = stage.state.attachment
    together = place is not None and (bool(place.loops) or place.region != "box")
    around = None if depth == len(here.prefix) and not together else carried_out(here, placed)
    written = cells_written if together else cells_made
    cells = written(here, read.tensor.name, depth, around)
    if depth == len(here.prefix) and here.window is not None:
        cells = cells_kept(here, read.tensor.name)
    made = cells.set_tuple_name(isl.dim_type.in_, "loops")
    if depth == len(here.prefix) and not together:
        missing = needed.subtract(made)
        assert missing.is_empty(), (
            f"{command}: {reader.name} needs cells of {stage.name} that its region lacks: {missing.sample()}"
        )
        return
    first = comes_first(schedule, stage, reader, placed, depth)
    if values_stay(stage):
        why = "reads cells that no iteration so far has made" if first else "runs before the loop that makes the values"
        loops = needed.get_space().domain()
        earlier = isl.Map.lex_ge(loops) if first else isl.Map.lex_gt(loops)
        missing = needed.subtract(earlier.apply_range(made))
    else:
        why = "reads the values after the loop iteration that makes them has ended"
        if not first:
            why = "runs before the loop that makes the values"
        missing = needed.subtract(made) if first and depth == len(here.prefix) else needed
    if missing.is_empty():
        return
    attachment = stage.state.attachment
    assert attachment is not None
    witness = _witness(stage, reader, read, there, missing, depth)
    if attachment.region != "box":
        raise LegalityError(
            f"region {attachment.region!r} of stage {stage.name} must make what its readers have not got, not leave "
            f"it to values that are gone or yet to come ({command}, loop {attachment.axis.name} of "
            f"{schedule.at(attachment).name}): stage {reader.name} {why}. For example, {witness}.",
            witness,
        )
    if together:
        raise LegalityError(
            f"{command} must leave {stage.name} ahead of what {reader.name} reads of it, not in loop "
            f"{attachment.axis.name} of {schedule.at(attachment).name} as it stands: {reader.name} {why}. For example, "
            f"{witness}.",
            witness,
        )
    raise LegalityError(
        f"place of stage {stage.name} must be a loop that all its readers are in, not loop {attachment.axis.name} of "
        f"{schedule.at(attachment).name} ({command}): stage {reader.name} {why}. For example, {witness}.",
        witness,
    )


def _witness(
    stage: StageView, reader: StageView, read: ReadAccess, there: Placement, missing: isl.Map, depth: int
) -> Witness:
    """The first instance that misses a cell: in the order of the loops around both, then of the cells."""
    loops = missing.domain().lexmin()
    cells = missing.intersect_domain(loops).range().lexmin()
    executed = instances(there)
    for level, value in enumerate(_values(loops)):
        executed = executed.fix_val(isl.dim_type.in_, level, isl.Val(value))
    access = access_of(reader.state.computation, read, cells_of(read.tensor, stage.state.computation))
    points = executed.range().intersect(access.intersect_range(cells).domain()).lexmin()
    assert loops.dim(SET) == depth, f"{reader.name}: {loops} is no iteration of {depth} loops"
    assert not points.is_empty(), f"{reader.name}: no instance reads {cells}"
    computation = reader.state.computation
    names = [axis.name for axis in (*computation.axes, *computation.reduce_axes)]
    cell = tuple(_values(cells))
    producer = {axis.name: value for axis, value in zip(stage.state.computation.axes, cell, strict=True)}
    consumer = dict(zip(names, _values(points), strict=True))
    return Witness(read.tensor.name, cell, stage.name, producer, reader.name, consumer)


def _values(point: isl.Set) -> list[int]:
    sample = point.sample_point()
    return [int(sample.get_coordinate_val(SET, n).to_python()) for n in range(point.dim(SET))]
