"""Well-formedness of a schedule, checked before dependences: compute locations, loops, tags and buffers."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.buffers import check_buffers
from lathe.scheduler.legality.communication import check_communication
from lathe.scheduler.legality.fusion_checks import check_together
from lathe.scheduler.loop_ir.recurrences import preceding_consumers
from lathe.scheduler.schedule_ir.dataflow_graph import consumers_of
from lathe.scheduler.schedule_ir.layout import check_dimensions
from lathe.scheduler.schedule_ir.loops import AffineSchedule
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView


def check_structure(schedule: ScheduleView, command: str) -> None:
    """Raises ScheduleError if a compute location, a tag, a layout or a buffer of the schedule has become invalid."""
    for stage in schedule.stages:
        _check_compute_location(schedule, stage, command)
        _check_annotations(stage, command)
        check_communication(stage, command)
    for tensor, layout in schedule.layouts.items():
        check_dimensions(layout, schedule.scope_of(tensor))
    check_buffers(schedule, command)


def _check_compute_location(schedule: ScheduleView, stage: StageView, command: str) -> None:
    state = stage.state
    attachment = state.attachment
    if attachment is None:
        return
    anchor = schedule.at(attachment)
    if attachment.loops:
        check_together(stage, command)
    elif any(isinstance(relation, AffineSchedule) for relation in state.relations):
        raise ScheduleError(
            f"Cannot compute {stage.name} at a loop ({command}): set_schedule defines its loops for the whole domain. "
            "Use after to let it share loops instead.",
            kind="limit",
        )
    elif schedule.has_recurrences and (later := preceding_consumers(schedule, stage)):
        raise ScheduleError(
            f"Cannot compute {stage.name} at a loop ({command}): {later[0].name} reads values of earlier iterations. "
            f"Use after to let it share loops, or copy it with s.cache_write({stage.name}, ...) and move the copy.",
            kind="legality",
        )
    elif any(tensor in schedule.outputs for tensor in state.tensors):
        raise ScheduleError(
            f"Cannot compute {stage.name} at a loop: it is an output of the program. Copy it with "
            f"s.cache_write({stage.name}, ...) and move the copy.",
            kind="limit",
        )
    elif not consumers_of(schedule, stage):
        raise ScheduleError(
            f"Cannot compute {stage.name} at a loop ({command}): no stage reads it. Leave it at the root, or remove it "
            "with s.remove_dead_stores().",
            kind="argument",
        )
    stages = schedule.stages
    after = stages.index(anchor) < stages.index(stage)
    if after and attachment.loops:
        raise ScheduleError(
            f"stage {anchor.name} must come after {stage.name}, which shares its loops, not before ({command}). Undo "
            f"the sharing with s[{stage.name}].compute_root().",
            kind="legality",
        )
    if after:
        consumers = [consumer.name for consumer in consumers_of(schedule, stage)]
        raise ScheduleError(
            f"consumer of compute_at of stage {stage.name} must be a stage that comes after it, not {anchor.name!r}, "
            f"which is computed before. Its consumers are {', '.join(consumers)}.",
            kind="legality",
        )
    assert attachment.axis in anchor.state.leaves, (
        f"{command}: {stage.name} is computed at {attachment.axis.name}, which is no longer a loop of {anchor.name}"
    )
    _check_order_of_iterations(stage, command)
    if attachment.axis in anchor.state.emitted_leaves():
        raise ScheduleError(
            f"loop {attachment.axis.name} of stage {anchor.name} must be outside the nest that emit_insn gives to rule "
            f"{anchor.state.pragma!r}, not inside it, for stage {stage.name} to be computed there ({command}). Put the "
            "pragma on an inner loop, or compute the stage further out.",
            kind="machine",
        )


def _check_order_of_iterations(stage: StageView, command: str) -> None:
    """Refuse a stage that relies on earlier iterations of loops that run in pieces.

    A region other than a box is computed piece by piece: its loops restart for each, without iterations outside of it.
    """
    attachment = stage.state.attachment
    assert attachment is not None
    if not stage.state.reuse and attachment.region != "missing":
        return
    subject = f"reuse buffer {stage.name}" if stage.state.reuse else f"stage {stage.name} with region 'missing'"
    anchor = stage.enclosing
    while anchor is not None:
        location = anchor.state.attachment
        if location is not None and location.region != "box":
            raise ScheduleError(
                f"consumer of {subject} must be computed as a box, in the order of its loops, not as region "
                f"{location.region!r}, as {anchor.name!r} is ({command}). Compute {anchor.name} with region='box'.",
                kind="limit",
            )
        anchor = anchor.enclosing if not stage.state.reuse else None


def _check_annotations(stage: StageView, command: str) -> None:
    """Raises ScheduleError if an annotated loop is gone."""
    for loop, annotation in stage.state.annotations.items():
        if loop not in stage.state.leaves:
            raise ScheduleError(
                f"loop {loop.name} of stage {stage.name} must stay a loop while it is annotated by {annotation}, not "
                f"be replaced by {command}. Call {annotation} last.",
                kind="limit",
            )
