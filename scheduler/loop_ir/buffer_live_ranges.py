"""Where in a nest buffers of the user's begin and end: around all that touches them, or in each iteration of a loop."""

from collections.abc import Sequence
from dataclasses import replace

from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.scheduler.loop_ir.nodes import Alloc, Free, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, storages_of


def allocation_loops(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> list[LoopVariable]:
    """The loops in whose iterations buffers are allocated."""
    places = [(placed.get(schedule.at(place)), place.axis) for place in schedule.allocations.values()]
    return [host.loops.of_leaf[axis][-1] for host, axis in places if host is not None]


def with_buffers(schedule: ScheduleView, nodes: Sequence[Node], placed: dict[StageView, StageRegion]) -> list[Node]:
    """A nest with the lives of the buffers that stages name. In DRAM these are as long as the program's."""
    for allocated in storages_of(schedule.stages).values():
        place = schedule.allocations.get(allocated.buffer)
        if place is not None and schedule.at(place) in placed:
            nodes = _in_loop(nodes, placed[schedule.at(place)].loops.of_leaf[place.axis][-1], allocated, placed)
        elif allocated.scope != DRAM:
            nodes = _around(nodes, allocated, placed)
    return list(nodes)


def _in_loop(
    nodes: Sequence[Node], variable: LoopVariable, allocated: UserBuffer, placed: dict[StageView, StageRegion]
) -> list[Node]:
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop) and node.variable is variable:
            found.append(replace(node, body=tuple(_around(node.body, allocated, placed))))
        elif isinstance(node, Loop | Guard):
            found.append(replace(node, body=tuple(_in_loop(node.body, variable, allocated, placed))))
        else:
            found.append(node)
    return found


def _around(nodes: Sequence[Node], allocated: UserBuffer, placed: dict[StageView, StageRegion]) -> list[Node]:
    touching = [position for position, node in enumerate(nodes) if _touches(node, allocated)]
    if not touching:
        return list(nodes)
    first, last = touching[0], touching[-1] + 1
    placement = placed[allocated.users[0]]
    low = tuple(Linear(0) for _ in allocated.shape)
    begin = Alloc(placement, low, tuple(map(Linear, allocated.shape)), allocated)
    return [*nodes[:first], begin, *nodes[first:last], Free(placement, allocated), *nodes[last:]]


def _touches(node: Node, allocated: UserBuffer) -> bool:
    if isinstance(node, Loop | Guard):
        return any(_touches(inner, allocated) for inner in node.body)
    if not isinstance(node, StatementBlock):
        return False
    stored = {tensor for user in allocated.users for tensor in user.state.tensors}
    computation = node.placement.state.computation
    return node.placement.stage in allocated.users or any(read.tensor in stored for read in computation.reads)
