"""The last step of every primitive: new states are committed, and the whole schedule is checked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from lathe.scheduler.legality.verify_schedule import check_schedule
from lathe.scheduler.loop_ir.warmup_iterations import without_idle_warmups
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, same_loop_nest
from lathe.scheduler.schedule_ir.storage import StorageBuffer

S = TypeVar("S", bound=StageView)


def commit(
    schedule: Edit,
    changes: Mapping[S, StageState],
    command: str,
    *,
    renamed: Mapping[LoopAxis, LoopAxis] | None = None,
    stages: Iterable[StageView] | None = None,
    allocations: Mapping[StorageBuffer, ComputeAt] | None = None,
) -> None:
    """Commit new states (an order of stages, allocations) if the schedule is legal; else roll back.

    ``renamed`` maps loops that the primitive has replaced to their replacements, for stages computed there. Raises
    ScheduleError and LegalityError.
    """
    order, before = schedule.stages, schedule.state.stages
    with schedule.transaction():
        if stages is not None:
            schedule.reorder_stages(stages)
        if allocations is not None:
            schedule.update(allocations=dict(allocations))
        schedule.put(changes)
        if renamed:
            _relocate(schedule, renamed)
        idle = without_idle_warmups(schedule)
        schedule.put(idle)
        changed: dict[StageView, StageState] = dict(changes.items())
        changed.update(idle)
        reordered = _moved(order, schedule.stages)
        moved = reordered | {
            stage
            for stage, state in changed.items()
            if (old := before.get(stage.id)) is None
            or not same_loop_nest(old, state)
            or old.scope != state.scope
            or old.storage is not state.storage
            or allocations is not None
        }
        check_schedule(schedule, command, set(changed) | reordered, moved)


def _relocate(schedule: Edit, renamed: Mapping[LoopAxis, LoopAxis]) -> None:
    """Move the stages and buffers in loops that are replaced to the replacements."""
    followed: dict[StageView, StageState] = {}
    for stage in schedule.stages:
        attachment = stage.state.attachment
        if attachment and renamed.keys() & {attachment.axis, *attachment.loops}:
            loops = tuple(renamed.get(loop, loop) for loop in attachment.loops)
            axis = renamed.get(attachment.axis, attachment.axis)
            followed[stage] = replace(stage.state, attachment=replace(attachment, axis=axis, loops=loops))
    schedule.put(followed)
    allocations = {
        buffer: replace(location, axis=renamed.get(location.axis, location.axis))
        for buffer, location in schedule.allocations.items()
    }
    schedule.update(allocations=allocations)


def _moved(before: tuple[StageView, ...], after: tuple[StageView, ...]) -> set[StageView]:
    """The stages whose relative order may have changed: none, or all."""
    remaining = [stage for stage in after if stage in before]
    return set() if remaining == [stage for stage in before if stage in after] else set(after)
