"""Is a schedule legal? Every read must find its value: computed before, and still there.

A stage computed at the root is whole before its readers begin. A stage computed in a loop is made anew in each
iteration, as far as that iteration needs; its values in a scratchpad are gone when the iteration ends, those in DRAM
stay. So a stage in a loop is legal iff each reader inside the loop reads only cells made in the same iteration, and
each reader outside reads only DRAM cells made in some iteration before it. Both are exact set differences in isl, and a
point of the difference is the witness. Updates of one reduction commute, so orders among them do not matter.
"""

from typing import TYPE_CHECKING

import islpy as isl

from lathe.frontend.accesses import ReadAccess
from lathe.frontend.polyhedra import access_of, limited_operations
from lathe.scheduler.errors import LegalityError, ScheduleError, Witness
from lathe.scheduler.placement import Placement, place_stages
from lathe.scheduler.polyhedra import cells_made, cells_read
from lathe.scheduler.state import DRAM

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


def check_schedule(schedule: "Schedule", command: str, changed: "set[Stage]") -> None:
    """Refuse the schedule if a tag or a place has become impossible, or a read would miss its value.

    Dependences are checked again for every stage that ``changed`` may have moved. Raises ScheduleError, or
    LegalityError with a witness.
    """
    for stage in schedule.stages:
        _check_structure(schedule, stage, command)
    attached = [stage for stage in schedule.stages if stage.state.attachment is not None]
    affected = [stage for stage in attached if _is_affected(schedule, stage, changed)]
    if not affected:
        return
    for stage in affected:
        _check_outside_readers(schedule, stage, command)
    placed = place_stages(schedule)
    with limited_operations():
        for stage in affected:
            _check_inside_readers(schedule, stage, placed, command)


def hosts_of(stage: "Stage") -> "list[Stage]":
    """The stages in whose loops a stage is computed, innermost first."""
    found: list[Stage] = []
    attachment = stage.state.attachment
    while attachment is not None:
        found.append(attachment.stage)
        attachment = attachment.stage.state.attachment
    return found


def is_inside(reader: "Stage", stage: "Stage") -> bool:
    """Whether a reader's instances run within the loop iteration in which ``stage`` is computed."""
    attachment = stage.state.attachment
    assert attachment is not None
    host, level = attachment.stage, attachment.stage.state.leaves.index(attachment.axis)
    if reader is host:
        return True
    current: Stage = reader
    while current.state.attachment is not None:
        place = current.state.attachment
        if place.stage is host:
            return place.stage.state.leaves.index(place.axis) >= level
        current = place.stage
    return False


def _is_affected(schedule: "Schedule", stage: "Stage", changed: "set[Stage]") -> bool:
    concerned = {stage, *hosts_of(stage)}
    for tensor in stage.state.tensors:
        for reader in schedule.readers(tensor):
            concerned |= {reader, *hosts_of(reader)}
    return bool(concerned & changed)


def _check_structure(schedule: "Schedule", stage: "Stage", command: str) -> None:
    attachment = stage.state.attachment
    if attachment is None:
        return
    host = attachment.stage
    if any(tensor in schedule.outputs for tensor in stage.state.tensors):
        raise ScheduleError(
            f"stage of compute_at must be one whose values only other stages read, not {stage.name!r}, an output of "
            f"the program. Copy it with s.cache_write({stage.name}, ...) and move the copy."
        )
    if attachment.axis not in host.state.leaves:
        raise ScheduleError(
            f"loop {attachment.axis.name} of stage {host.name} must stay as it is, not be changed by {command}: stage "
            f"{stage.name} is computed there. Change the loop first and call compute_at then."
        )
    if attachment.axis in host.state.emitted_leaves():
        raise ScheduleError(
            f"loop {attachment.axis.name} of stage {host.name} must be outside the nest that emit_insn gives to rule "
            f"{host.state.pragma!r}, not inside it, for stage {stage.name} to be computed there ({command}). Put the "
            "pragma on an inner loop, or compute the stage further out."
        )


def _check_outside_readers(schedule: "Schedule", stage: "Stage", command: str) -> None:
    """A reader outside the loop: its values must be in DRAM, all of them, and made before."""
    for reader, read in _reads_of(schedule, stage):
        if is_inside(reader, stage):
            continue
        relation = access_of(reader.state.computation, read)
        why = "reads the values after the loop iteration that makes them has ended"
        if stage.state.scope == DRAM:
            order = schedule.stages
            if order.index(_outermost(reader)) > order.index(_outermost(stage)):
                placement = place_stages(schedule)[stage]
                made = cells_made(placement, read.tensor.name, 0).range()
                relation = relation.subtract_range(made.set_tuple_name(read.tensor.name))
                if relation.is_empty():
                    continue
                why = "reads cells that no iteration of the loop makes"
            else:
                why = "runs before the loop that makes the values"
        elif relation.is_empty():
            continue
        attachment = stage.state.attachment
        assert attachment is not None
        raise _illegal(
            f"place of stage {stage.name} must be a loop that all its readers are in, not loop "
            f"{attachment.axis.name} of {attachment.stage.name} ({command}): stage {reader.name} {why}",
            stage,
            reader,
            relation,
        )


def _check_inside_readers(schedule: "Schedule", stage: "Stage", placed: "dict[Stage, Placement]", command: str) -> None:
    """A reader inside the loop: what it reads in an iteration must be what is made in that iteration."""
    placement = placed[stage]
    depth = len(placement.prefix)
    for reader, read in _reads_of(schedule, stage):
        if not is_inside(reader, stage):
            continue
        needed = cells_read(placed[reader], read, depth)
        made = cells_made(placement, read.tensor.name, depth)
        # both speak of the same loops; isl wants the same names for them
        made = made.set_tuple_name(isl.dim_type.in_, "loops")
        needed = needed.set_tuple_name(isl.dim_type.in_, "loops")
        missing = needed.subtract(made)
        assert missing.is_empty(), (
            f"{command}: {reader.name} needs cells of {stage.name} that its region lacks: {missing.sample()}"
        )


def _reads_of(schedule: "Schedule", stage: "Stage") -> "list[tuple[Stage, ReadAccess]]":
    return [
        (reader, read)
        for reader in schedule.stages
        for read in reader.state.computation.reads
        if read.tensor in stage.state.tensors
    ]


def _outermost(stage: "Stage") -> "Stage":
    hosts = hosts_of(stage)
    return hosts[-1] if hosts else stage


def _illegal(text: str, stage: "Stage", reader: "Stage", relation: isl.Map) -> LegalityError:
    point = relation.lexmin().sample().wrap().sample_point() if not relation.is_empty() else None
    assert point is not None, f"{text}: no witness"
    values = [int(point.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(_rank(relation))]
    axes = (*reader.state.computation.axes, *reader.state.computation.reduce_axes)
    consumer = {axis.name: value for axis, value in zip(axes, values, strict=False)}
    cell = tuple(values[len(axes) :])
    producer = {axis.name: value for axis, value in zip(stage.state.computation.axes, cell, strict=True)}
    witness = Witness(stage.tensor.name, cell, stage.name, producer, reader.name, consumer)
    return LegalityError(f"{text}. For example, {witness}.", witness)


def _rank(relation: isl.Map) -> int:
    return int(relation.dim(isl.dim_type.in_)) + int(relation.dim(isl.dim_type.out))
