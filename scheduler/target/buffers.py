"""The scratchpad buffers of a schedule, allocated."""

from typing import TYPE_CHECKING

from lathe.configs import HardwareConfig
from lathe.scheduler.nest.build_nest import Node
from lathe.scheduler.nest.place import place_stages
from lathe.scheduler.target.allocation import Buffer, allocate, lifetimes
from lathe.scheduler.target.elements import Physical
from lathe.scheduler.target.temporaries import temporaries_wanted

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


def buffers_of(
    schedule: "Schedule",
    config: HardwareConfig,
    nest: list[Node],
    physical: "dict[Stage, Physical]",
    aliases: "dict[Stage, Stage]",
) -> list[Buffer]:
    """Buffers and temporaries of a symbolic nest, each with its place. Raises CapacityError where they do not fit."""
    wanted = temporaries_wanted(schedule, config, place_stages(schedule), physical, aliases)
    buffers = lifetimes(nest, aliases, physical, wanted)
    allocate(buffers, config)
    return buffers
