"""The scratchpad buffers of a schedule, allocated."""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.scheduler.nest.nodes import Node
from lathe.scheduler.nest.place import place_stages
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.target.allocation import Buffer, allocate, lifetimes
from lathe.scheduler.target.elements import Physical
from lathe.scheduler.target.temporaries import temporaries_wanted
from lathe.scheduler.target.weights_in_turn import PLACES, weights_in_turn


def buffers_of(
    schedule: ScheduleView,
    config: HardwareConfig,
    nest: Sequence[Node],
    physical: dict[StageView, Physical],
    aliases: dict[StageView, StageView],
) -> list[Buffer]:
    """Buffers and temporaries of a symbolic nest, each with its place. Raises CapacityError where they do not fit."""
    wanted = temporaries_wanted(schedule, config, place_stages(schedule), physical, aliases)
    buffers = lifetimes(nest, aliases, physical, wanted)
    in_turn = weights_in_turn(nest, physical, config)
    for buffer in buffers:
        if buffer.stage in in_turn and not buffer.temporary:
            buffer.most = PLACES
    allocate(buffers, config)
    return buffers
