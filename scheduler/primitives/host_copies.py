"""``host_to_device`` and ``device_to_host``: copies between host CPU and device."""

from lathe.frontend import Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.memories import DRAM


def host_to_device(schedule: Edit, tensor: Tensor) -> None:
    """Declare that the host CPU packs an input into DRAM before the launch; ``lower(..., stage="data")`` lists it then.

    ``build`` adds such copies for all other inputs; ``lathe.host_copies`` lists all of a program. Raises ScheduleError
    for a tensor that is no input. Tiramisu's host_to_device.
    """
    current = schedule.current(tensor)
    if not isinstance(current, Tensor) or current.computation is not None or not schedule.consumers(current):
        reads = (read.tensor for stage in schedule.stages for read in stage.state.computation.reads)
        inputs = dict.fromkeys(each.name for each in reads if each.computation is None)
        raise ScheduleError(
            f"tensor of host_to_device must be an input of the program ({', '.join(inputs)}), not "
            f"{getattr(tensor, 'name', tensor)!r}. What stages compute is on the device.",
            kind="argument",
        )
    schedule.update(host_copies=(*schedule.host_copies, ("host_to_device", _named(schedule, current))))


def device_to_host(schedule: Edit, tensor: Tensor) -> None:
    """Return the values of a computed tensor to the host CPU at the end of the program: it becomes an output.

    Then ``build`` requires it, and ``simulate`` and ``reference`` return it. Its values must be completely in DRAM, and
    live to the end if ``store_in`` has folded them. Raises ScheduleError for an input, or a tensor that is in a
    scratchpad or computed in parts; LegalityError for values that are overwritten. Tiramisu's device_to_host.
    """
    current = schedule.current(tensor)
    producer = schedule.producer(current) if isinstance(current, Tensor) else None
    if producer is None or not isinstance(current, Tensor):
        names = ", ".join(stage.name for stage in schedule.stages)
        raise ScheduleError(
            f"tensor of device_to_host must be one that a stage computes ({names}), not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    location = producer.state.attachment
    reason = ""
    if producer.state.scope != DRAM:
        reason = f"in {producer.state.scope}"
    elif location is not None and not location.loops:
        reason = f"computed per iteration of loop {location.axis.name} of {schedule.at(location).name}"
    if reason:
        raise ScheduleError(
            f"tensor of device_to_host must be completely in dram at the end of the program, not {current.name!r}, "
            f"which is {reason}. Copy it to dram, or call device_to_host before it is moved.",
            kind="argument",
        )
    named = _named(schedule, current)
    schedule.update(host_copies=(*schedule.host_copies, ("device_to_host", named)))
    if current not in schedule.outputs:
        schedule.update(program=(*schedule.program, named), outputs=(*schedule.outputs, current))
        commit(schedule, {producer: producer.state}, "device_to_host")


def _named(schedule: Edit, current: Tensor) -> Tensor:
    """The tensor as the program names it, whatever its present layout."""
    layout = schedule.layouts.get(current)
    return current if layout is None else layout.tensor
