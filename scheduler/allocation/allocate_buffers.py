"""The scratchpad buffers of a schedule, allocated."""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.scheduler.allocation.allocation import Buffer, allocate, lifetimes
from lathe.scheduler.allocation.temporaries import temporaries_wanted
from lathe.scheduler.allocation.weight_buffer_depth import PLACES, weights_in_turn
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import Node
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


def buffers_of(
    schedule: ScheduleView,
    config: HardwareConfig,
    nest: Sequence[Node],
    physical: dict[StageView, PhysicalLayout],
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
