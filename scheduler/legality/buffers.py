"""Checks of user-declared buffers: one memory scope, one dtype, and an allocation in an existing loop."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of


def check_buffers(schedule: ScheduleView, command: str) -> None:
    """Raises ScheduleError if a buffer, or the loop of its allocation, has become invalid."""
    for buffer, allocated in user_buffers_of(schedule.stages).items():
        scopes = {stage.state.scope: stage for stage in reversed(allocated.users)}
        declared = {buffer.scope} if buffer.scope is not None else set()
        if len(declared | set(scopes)) > 1:
            scopes_found = " and ".join(f"{stage.name} in {scope}" for scope, stage in reversed(scopes.items()))
            in_scope = f" in {buffer.scope}" if buffer.scope is not None else ""
            raise ScheduleError(
                f"stages stored in buffer {buffer.name}{in_scope} must all be in its one memory, not {scopes_found} "
                f"({command}). Store them in separate buffers, or set one scope for all.",
                kind="argument",
            )
        dtypes = {stage.tensor.dtype: stage for stage in reversed(allocated.users)}
        if len(dtypes) > 1:
            dtypes_found = " and ".join(f"{stage.name} of {dtype}" for dtype, stage in reversed(dtypes.items()))
            raise ScheduleError(
                f"stages stored in buffer {buffer.name} must have one dtype, not {dtypes_found} ({command}). Use two "
                "buffers.",
                kind="argument",
            )
        location = schedule.allocations.get(buffer)
        if location is None:
            continue
        anchor = schedule.at(location)
        if anchor not in schedule.stages or location.axis not in anchor.state.leaves:
            raise ScheduleError(
                f"loop {location.axis.name} of stage {anchor.name}, in which buffer {buffer.name} is allocated, must "
                f"stay a loop, not be replaced by {command}. Call allocate_at last.",
                kind="limit",
            )
