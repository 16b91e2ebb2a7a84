"""Multi-buffering depth of weights: four slots instead of two where loads of weights are nearly the bottleneck.

Each reduction tile loads its weights. With two slots, the load for tile n + 1 starts when tile n - 1 is computed, and
has the time of tile n. If it takes more than half of that, other transfers, such as the store of the previous output
tile, make it late. With four slots, loads run further ahead. If four divides the number of reduction tiles, they use
the same slots in every output tile, and so the same micro-ops.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend.arith.linear import bound_range
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.loop_ir.nodes import Alloc, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import WGT
from lathe.scheduler.schedule_ir.schedule_state import StageView

WEIGHT_SLOTS = 4


def multi_buffered_weights(
    nodes: Sequence[Node], physical: Mapping[StageView, PhysicalLayout], config: HardwareConfig
) -> set[StageView]:
    """The stages that load weights in a reduction loop and profit from ``WEIGHT_SLOTS`` slots."""
    beats = config.wgt_element_bytes / config.bus_bytes * config.memory.cycles_per_beat
    deep: set[StageView] = set()
    for loop in _loops(nodes):
        if (loop.last - loop.first + 1) % WEIGHT_SLOTS or loop.threads > 1:
            continue
        allocated = (node.placement.stage for node in loop.body if isinstance(node, Alloc) and node.stored is None)
        loaded = {stage.tensor: stage for stage in allocated if stage.state.scope == WGT}
        for node in loop.body:
            if isinstance(node, StatementBlock) and node.role == "update":
                read = [loaded[each.tensor] for each in node.placement.state.computation.reads if each.tensor in loaded]
                if read and beats <= _uses(node.placement, physical) < 2 * beats:
                    deep.update(read)
    return deep


def _loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    for node in nodes:
        if isinstance(node, Loop):
            yield node
        if isinstance(node, Loop | Guard):
            yield from _loops(node.body)


def _uses(placement: StageRegion, physical: Mapping[StageView, PhysicalLayout]) -> int:
    """How many GEMM micro-ops of a reduction tile use each weight vector."""
    form = physical[placement.stage]
    return prod(
        form.blocks(dim, 0, bound_range(extent, placement.box)[1])
        for dim, extent in enumerate(placement.extent)
        if dim != form.lanes.cols
    )
