"""Live ranges of user buffers in a nest: around all nodes that access them, or in each iteration of a loop."""

from collections.abc import Sequence
from dataclasses import replace

from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.scheduler.loop_ir.nodes import Alloc, Free, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, user_buffers_of


def allocation_loops(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> list[LoopVariable]:
    """The loops in whose iterations user buffers are allocated."""
    locations = [(placed.get(schedule.at(each)), each.axis) for each in schedule.allocations.values()]
    return [anchor.loops.of_leaf[axis][-1] for anchor, axis in locations if anchor is not None]


def with_buffers(schedule: ScheduleView, nodes: Sequence[Node], placed: dict[StageView, StageRegion]) -> list[Node]:
    """The nest with allocation and freeing of user buffers; those in DRAM are live throughout the program."""
    for allocated in user_buffers_of(schedule.stages).values():
        location = schedule.allocations.get(allocated.buffer)
        if location is not None and schedule.at(location) in placed:
            nodes = _in_loop(nodes, placed[schedule.at(location)].loops.of_leaf[location.axis][-1], allocated, placed)
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
    users = [position for position, node in enumerate(nodes) if _accesses(node, allocated)]
    if not users:
        return list(nodes)
    first, last = users[0], users[-1] + 1
    placement = placed[allocated.users[0]]
    low = tuple(Linear(0) for _ in allocated.shape)
    alloc = Alloc(placement, low, tuple(map(Linear, allocated.shape)), allocated)
    return [*nodes[:first], alloc, *nodes[first:last], Free(placement, allocated), *nodes[last:]]


def _accesses(node: Node, allocated: UserBuffer) -> bool:
    if isinstance(node, Loop | Guard):
        return any(_accesses(inner, allocated) for inner in node.body)
    if not isinstance(node, StatementBlock):
        return False
    stored = {tensor for user in allocated.users for tensor in user.state.tensors}
    computation = node.placement.state.computation
    return node.placement.stage in allocated.users or any(read.tensor in stored for read in computation.reads)
