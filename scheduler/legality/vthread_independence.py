"""Independence of virtual threads: their results must not depend on the order of iterations.

Iterations are dependent if one reads what another writes, if they initialise the same sum in shared memory, or if their
values share cells of a buffer outside the loop over time.
"""

from collections.abc import Iterator, Sequence

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.parallelism import not_parallel, parallel_loop
from lathe.scheduler.legality.reaching_write_query import Ordering, first_violation
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import Alloc, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.query_results import QueryResult, answerable
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of


def check_threads(schedule: ScheduleView, command: str) -> None:
    """Raises ScheduleError, with a witness if there is one, if iterations in threads depend on each other."""
    threaded = [(stage, loop, count) for stage in schedule.stages for loop, count in stage.state.threads.items()]
    if not threaded:
        return
    placed = place_stages(schedule)
    after = "" if command == "vthread" else f" ({command})"
    for stage, loop, count in threaded:
        answer = parallel_loop(schedule, stage, loop, placed, updates_commute=True)
        if answer:
            answer = _update_disjoint_cells(schedule, stage, loop, placed)
        if not answer:
            subject = f"loop {loop.name} of stage {stage.name} must be parallel to run in {count} threads{after}"
            raise not_parallel(subject, answer)
    if any(stage.state.storage is not None for stage in schedule.stages):
        _check_storage(schedule, after)


def _update_disjoint_cells(
    schedule: ScheduleView, stage: StageView, loop: LoopAxis, placed: dict[StageView, StageRegion]
) -> QueryResult:
    """Whether no two iterations of a loop compute the same sum in shared cells, where one would reset the other's.

    A buffer inside the loop exists once per thread.
    """
    order = Ordering.without(placed[stage], loop, every=True)
    loops = [*order.outside, *order.free]
    for each in schedule.stages:
        state, region = each.state, placed[each]
        shared = state.scope == DRAM or state.storage is not None
        if state.attachment is None or state.attachment.loops or not shared:
            continue
        if not state.computation.reduce_axes or region.around[: len(loops)] != loops:
            continue
        with answerable(f"whether loop {loop.name} of stage {stage.name} may run in threads"):
            verdict = first_violation(DirectAccesses.of_sums(region, len(loops), placed), order)
        if verdict is None:
            continue
        cell = ", ".join(map(str, verdict.cell))
        first, second = (iteration[-1] for iteration in verdict.iterations)
        return QueryResult(
            False,
            f"iterations {first} and {second} both initialise the sum {each.tensor.name}[{cell}], in "
            f"{'dram' if state.scope == DRAM else state.storage}, which threads share, unlike a buffer inside the loop",
        )
    return QueryResult(True, "no two iterations update the same cells")


def _check_storage(schedule: ScheduleView, after: str) -> None:
    """Raises ScheduleError if threads share folded cells."""
    buffers = user_buffers_of(schedule.stages)
    folded = [
        buffer
        for buffer, each in buffers.items()
        if len(each.users) > 1 or any(u.state.storage and u.state.storage.folds(each.shape) for u in each.users)
    ]
    for loop in _threaded(build_nest(schedule)):
        inside = list(_all(loop.body))
        own = [node.stored.buffer for node in inside if isinstance(node, Alloc) and node.stored is not None]
        blocks = [node for node in inside if isinstance(node, StatementBlock)]
        for block in blocks:
            storage = block.placement.state.storage
            if storage is None or storage.buffer in own or storage.buffer not in folded:
                continue
            anchor = next(each.placement.stage for each in blocks if loop.variable in each.placement.loops.variables)
            raise ScheduleError(
                f"buffer {storage.buffer.name} must be allocated inside loop {loop.variable.name} of stage "
                f"{anchor.name}, which runs in {loop.threads} threads{after}, not outside, where several iterations "
                f"would use the same cells at the same time. Use s.allocate_at({storage.buffer.name}, "
                f"s[{anchor.name}], {loop.variable.name}).",
                kind="legality",
            )


def _threaded(nodes: Sequence[Node]) -> Iterator[Loop]:
    return (node for node in _all(nodes) if isinstance(node, Loop) and node.threads > 1)


def _all(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Loop | Guard):
            yield from _all(node.body)
