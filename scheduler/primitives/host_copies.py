"""``host_to_device`` and ``device_to_host``: which arrays cross the edge of the program."""

from lathe.frontend import Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.memories import DRAM


def host_to_device(schedule: Edit, tensor: Tensor) -> None:
    """Say that the host packs an input into DRAM before the launch; ``lower(..., stage="data")`` lists the step then.

    ``build`` adds these steps for inputs that nobody speaks of, and ``lathe.host_copies`` lists all of a program.
    Raises ScheduleError for a tensor that is no input. Tiramisu's host_to_device.
    """
    now = schedule.current(tensor)
    if not isinstance(now, Tensor) or now.computation is not None or not schedule.readers(now):
        reads = (read.tensor for stage in schedule.stages for read in stage.state.computation.reads)
        inputs = dict.fromkeys(each.name for each in reads if each.computation is None)
        raise ScheduleError(
            f"tensor of host_to_device must be an input of the program ({', '.join(inputs)}), not "
            f"{getattr(tensor, 'name', tensor)!r}. What stages compute is on the device.",
            kind="argument",
        )
    schedule.update(host_copies=(*schedule.host_copies, ("host_to_device", _named(schedule, now))))


def device_to_host(schedule: Edit, tensor: Tensor) -> None:
    """Let the host have the values of a computed tensor when the program is done: it becomes an output, if it is none.

    It is then among the tensors that ``build`` wants, and that ``simulate`` and ``reference`` return. Its values must
    be whole in DRAM, and, where ``store_in`` has folded them, live to the end. Raises ScheduleError for an input, or a
    tensor that is in a scratchpad or computed in part; LegalityError for values that are overwritten. Tiramisu's
    device_to_host.
    """
    now = schedule.current(tensor)
    maker = schedule.maker(now) if isinstance(now, Tensor) else None
    if maker is None or not isinstance(now, Tensor):
        names = ", ".join(stage.name for stage in schedule.stages)
        raise ScheduleError(
            f"tensor of device_to_host must be one that a stage computes ({names}), not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    place = maker.state.attachment
    reason = ""
    if maker.state.scope != DRAM:
        reason = f"in {maker.state.scope}"
    elif place is not None and not place.loops:
        reason = f"computed in part in loop {place.axis.name} of {schedule.at(place).name}"
    if reason:
        raise ScheduleError(
            f"tensor of device_to_host must be whole in dram when the program is done, not {now.name!r}, which is "
            f"{reason}. Copy it there, or call device_to_host before it is moved.",
            kind="argument",
        )
    named = _named(schedule, now)
    schedule.update(host_copies=(*schedule.host_copies, ("device_to_host", named)))
    if now not in schedule.outputs:
        schedule.update(program=(*schedule.program, named), outputs=(*schedule.outputs, now))
        commit(schedule, {maker: maker.state}, "device_to_host")


def _named(schedule: Edit, now: Tensor) -> Tensor:
    """A tensor as the program names it, whatever its layout is by now."""
    layout = schedule.layouts.get(now)
    return now if layout is None else layout.tensor
