"""Collects all buffers and temporaries of a loop nest and has them allocated (``allocation.py``)."""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.scheduler.allocation.allocation import Buffer, allocate, live_ranges
from lathe.scheduler.allocation.temporaries import required_temporaries
from lathe.scheduler.allocation.weight_buffer_depth import WEIGHT_SLOTS, multi_buffered_weights
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import Node
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView


def buffers_of(
    schedule: ScheduleView,
    config: HardwareConfig,
    nest: Sequence[Node],
    physical: dict[StageView, PhysicalLayout],
    aliases: dict[StageView, StageView],
) -> list[Buffer]:
    """Buffers and temporaries of a symbolic nest, with addresses. Raises CapacityError if they do not fit."""
    required = required_temporaries(schedule, config, place_stages(schedule), physical, aliases)
    buffers = live_ranges(nest, aliases, physical, required)
    deep = multi_buffered_weights(nest, physical, config)
    for buffer in buffers:
        if buffer.stage in deep and not buffer.temporary:
            buffer.useful_slots = WEIGHT_SLOTS
    allocate(buffers, config)
    return buffers
