"""Weights that are loaded part by part in more than two places in turn, where a load takes most of a part's time.

With two places, the load of a part begins when the part before the last is computed, and has the time of one part. What
the bus does besides, such as storing the tile before, makes it late where a load takes more than half of that. With
four, loads run ahead. Parts of each tile find their weights in the same places as those of the last one, so that they
run the same micro-ops, where four divides their number.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend.arith.linear import bound_range
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.nodes import Alloc, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import WGT
from lathe.scheduler.schedule_ir.schedule import StageView

PLACES = 4


def weights_in_turn(
    nodes: Sequence[Node], physical: Mapping[StageView, PhysicalLayout], config: HardwareConfig
) -> set[StageView]:
    """The stages that load weights, in loops over parts of sums, for which so many places are better than two."""
    beats = config.wgt_element_bytes / config.bus_bytes * config.memory.cycles_per_beat
    found: set[StageView] = set()
    for loop in _loops(nodes):
        if (loop.last - loop.first + 1) % PLACES or loop.threads > 1:
            continue
        acquired = (node.placement.stage for node in loop.body if isinstance(node, Alloc) and node.stored is None)
        loaded = {stage.tensor: stage for stage in acquired if stage.state.scope == WGT}
        for node in loop.body:
            if isinstance(node, StatementBlock) and node.role == "update":
                read = [loaded[each.tensor] for each in node.placement.state.computation.reads if each.tensor in loaded]
                if read and beats <= _uses(node.placement, physical) < 2 * beats:
                    found.update(read)
    return found


def _loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    for node in nodes:
        if isinstance(node, Loop):
            yield node
        if isinstance(node, Loop | Guard):
            yield from _loops(node.body)


def _uses(placement: StageRegion, physical: Mapping[StageView, PhysicalLayout]) -> int:
    """How many products a product takes each element of its weights for."""
    form = physical[placement.stage]
    return prod(
        form.blocks(dim, 0, bound_range(extent, placement.box)[1])
        for dim, extent in enumerate(placement.extent)
        if dim != form.lanes.cols
    )
