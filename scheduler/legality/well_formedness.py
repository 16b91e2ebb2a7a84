"""What a schedule says must fit together before anything is asked about its order: places, loops, tags and buffers."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.buffers import check_buffers
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.legality.fusion_checks import check_together
from lathe.scheduler.loop_ir.recurrences import read_later
from lathe.scheduler.schedule_ir.dataflow_graph import readers_of
from lathe.scheduler.schedule_ir.layout import check_dimensions
from lathe.scheduler.schedule_ir.loops import AffineSchedule
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


def check_structure(schedule: ScheduleView, command: str) -> None:
    """Raises ScheduleError if a place, a tag, a layout or a buffer of the schedule has become impossible."""
    for stage in schedule.stages:
        _check_place(schedule, stage, command)
        _check_marks(stage, command)
        check_communication(stage, command)
    for tensor, layout in schedule.layouts.items():
        check_dimensions(layout, schedule.scope_of(tensor))
    check_buffers(schedule, command)


def _check_place(schedule: ScheduleView, stage: StageView, command: str) -> None:
    state = stage.state
    attachment = state.attachment
    if attachment is None:
        return
    host = schedule.at(attachment)
    if attachment.loops:
        check_together(stage, command)
    elif any(isinstance(relation, AffineSchedule) for relation in state.relations):
        raise ScheduleError(
            f"stage of compute_at must be one whose loops are for any part of it, not {stage.name!r}, whose loops "
            f"set_schedule gives for the whole ({command}). Let it share loops with after instead.",
            kind="limit",
        )
    elif schedule.has_recurrences and (later := read_later(schedule, stage)):
        raise ScheduleError(
            f"stage of compute_at must be one whose values an iteration needs for itself, not {stage.name!r}, of which "
            f"{later[0].name} reads what earlier iterations have made ({command}). Let it share loops with after, or "
            f"copy it with s.cache_write({stage.name}, ...) and move the copy.",
            kind="legality",
        )
    elif any(tensor in schedule.outputs for tensor in state.tensors):
        raise ScheduleError(
            f"stage of compute_at must be one whose values only other stages read, not {stage.name!r}, an output of "
            f"the program. Copy it with s.cache_write({stage.name}, ...) and move the copy.",
            kind="limit",
        )
    elif not readers_of(schedule, stage):
        raise ScheduleError(
            f"stage of compute_at must be one that a stage reads, not {stage.name!r}, of which nothing is needed "
            f"({command}). Leave it at the root, or let s.remove_dead_stores() take it away.",
            kind="argument",
        )
    stages = schedule.stages
    behind = stages.index(host) < stages.index(stage)
    if behind and attachment.loops:
        raise ScheduleError(
            f"loops that stage {stage.name} shares with {host.name} must have {host.name} last, not before "
            f"{stage.name} ({command}). Undo that with s[{stage.name}].compute_root().",
            kind="legality",
        )
    if behind:
        readers = [reader.name for reader in readers_of(schedule, stage)]
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
    host = stage.host
    while host is not None:
        place = host.state.attachment
        if place is not None and place.region != "box":
            raise ScheduleError(
                f"consumer of {kept} must be computed as a box, in the order of its loops, not as region "
                f"{place.region!r} as {host.name!r} is ({command}). Place {host.name} with region='box'.",
                kind="limit",
            )
        host = host.host if not stage.state.reuse else None


def _check_marks(stage: StageView, command: str) -> None:
    """Raises ScheduleError if a marked loop is gone."""
    for loop, mark in stage.state.annotations.items():
        if loop not in stage.state.leaves:
            raise ScheduleError(
                f"loop {loop.name} of stage {stage.name} must stay a loop while it is marked {mark}, not be replaced "
                f"by {command}. Call {mark} last.",
                kind="limit",
            )
