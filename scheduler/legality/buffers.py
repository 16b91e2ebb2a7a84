"""What a buffer of the user's must be: in one memory, of one dtype, and allocated in a loop that is there."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.schedule import ScheduleView
from lathe.scheduler.schedule_ir.user_buffers import storages_of


def check_buffers(schedule: ScheduleView, command: str) -> None:
    """Raises ScheduleError where a buffer, or the loop that it is allocated in, has become impossible."""
    for buffer, allocated in storages_of(schedule.stages).items():
        scopes = {stage.state.scope: stage for stage in reversed(allocated.users)}
        wanted = {buffer.scope} if buffer.scope is not None else set()
        if len(wanted | set(scopes)) > 1:
            places = " and ".join(f"{stage.name} in {scope}" for scope, stage in reversed(scopes.items()))
            fixed = f" in {buffer.scope}" if buffer.scope is not None else ""
            raise ScheduleError(
                f"stages stored in buffer {buffer.name}{fixed} must live in its memory, not {places} ({command}). "
                "Store them in buffers of their own, or set the scope of all.",
                kind="argument",
            )
        dtypes = {stage.tensor.dtype: stage for stage in reversed(allocated.users)}
        if len(dtypes) > 1:
            kinds = " and ".join(f"{stage.name} of {dtype}" for dtype, stage in reversed(dtypes.items()))
            raise ScheduleError(
                f"stages stored in buffer {buffer.name} must have one dtype, not {kinds} ({command}).", kind="argument"
            )
        place = schedule.allocations.get(buffer)
        if place is None:
            continue
        host = schedule.at(place)
        if host not in schedule.stages or place.axis not in host.state.leaves:
            raise ScheduleError(
                f"loop {place.axis.name} of stage {host.name}, in which buffer {buffer.name} is allocated, must "
                f"stay a loop, not be replaced by {command}. Call allocate_at afterwards.",
                kind="limit",
            )
