"""What every command ends with: new states are put in place, and the whole is checked."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from lathe.scheduler.legality.verify_schedule import check_schedule
from lathe.scheduler.loop_ir.warmup_iterations import without_idle_leads
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, placed_alike
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
    """Put new states (lists of stages, allocations) in place if the whole is legal, else leave all as it was.

    ``renamed`` says which loop now stands for a loop that the command has replaced, for stages computed there. Raises
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
            _follow(schedule, renamed)
        idle = without_idle_leads(schedule)
        schedule.put(idle)
        changed: dict[StageView, StageState] = dict(changes.items())
        changed.update(idle)
        reordered = _moved(order, schedule.stages)
        moved = reordered | {
            stage
            for stage, state in changed.items()
            if (old := before.get(stage.id)) is None
            or not placed_alike(old, state)
            or old.scope != state.scope
            or old.storage is not state.storage
            or allocations is not None
        }
        check_schedule(schedule, command, set(changed) | reordered, moved)


def _follow(schedule: Edit, renamed: Mapping[LoopAxis, LoopAxis]) -> None:
    """Let stages and buffers that are in loops that are gone be in those that stand for them."""
    followed: dict[StageView, StageState] = {}
    for stage in schedule.stages:
        attachment = stage.state.attachment
        if attachment and renamed.keys() & {attachment.axis, *attachment.loops}:
            loops = tuple(renamed.get(loop, loop) for loop in attachment.loops)
            axis = renamed.get(attachment.axis, attachment.axis)
            followed[stage] = replace(stage.state, attachment=replace(attachment, axis=axis, loops=loops))
    schedule.put(followed)
    allocations = {
        buffer: replace(place, axis=renamed.get(place.axis, place.axis))
        for buffer, place in schedule.allocations.items()
    }
    schedule.update(allocations=allocations)


def _moved(before: tuple[StageView, ...], after: tuple[StageView, ...]) -> set[StageView]:
    """The stages that another order of the stages may put before or behind others: none, or all."""
    kept = [stage for stage in after if stage in before]
    return set() if kept == [stage for stage in before if stage in after] else set(after)
