"""May iterations of a loop run in threads? What they have in common must not depend on which comes first.

Iterations that read what others make must come in order. So must those that begin the same sums in a memory that they
share, and those whose values take turns in cells of a buffer that is not theirs alone.
"""

from collections.abc import Iterator, Sequence

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.parallelism import not_parallel, parallel_loop
from lathe.scheduler.legality.reaching_write_query import Ordering, first_lost
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.nodes import Alloc, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.query_results import Answer, answerable
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.user_buffers import storages_of


def check_threads(schedule: ScheduleView, command: str) -> None:
    """Raises ScheduleError, with a witness where there is one, if iterations in threads must wait for each other."""
    threaded = [(stage, loop, count) for stage in schedule.stages for loop, count in stage.state.threads.items()]
    if not threaded:
        return
    placed = place_stages(schedule)
    after = "" if command == "vthread" else f" ({command})"
    for stage, loop, count in threaded:
        answer = parallel_loop(schedule, stage, loop, placed, updates_commute=True)
        if answer:
            answer = _updated_apart(schedule, stage, loop, placed)
        if not answer:
            subject = f"loop {loop.name} of stage {stage.name} must be parallel to run in {count} threads{after}"
            raise not_parallel(subject, answer)
    if any(stage.state.storage is not None for stage in schedule.stages):
        _check_storage(schedule, after)


def _updated_apart(
    schedule: ScheduleView, stage: StageView, loop: LoopAxis, placed: dict[StageView, StageRegion]
) -> Answer:
    """Whether no two iterations of a loop make the same sums in cells that they share: one would begin what another
    goes on with. In a buffer of its own each thread has its own.
    """
    order = Ordering.without(placed[stage], loop, every=True)
    loops = [*order.outside, *order.free]
    for each in schedule.stages:
        state, place = each.state, placed[each]
        shared = state.scope == DRAM or state.storage is not None
        if state.attachment is None or state.attachment.loops or not shared:
            continue
        if not state.computation.reduce_axes or place.around[: len(loops)] != loops:
            continue
        with answerable(f"whether loop {loop.name} of stage {stage.name} may run in threads"):
            verdict = first_lost(DirectAccesses.of_sums(place, len(loops), placed), order)
        if verdict is None:
            continue
        cell = ", ".join(map(str, verdict.cell))
        first, second = (iteration[-1] for iteration in verdict.iterations)
        return Answer(
            False,
            f"iterations {first} and {second} both begin the sum {each.tensor.name}[{cell}], in "
            f"{'dram' if state.scope == DRAM else state.storage}: in a buffer inside the loop each thread would have "
            "its own",
        )
    return Answer(True, "no two iterations update the same cells")


def _check_storage(schedule: ScheduleView, after: str) -> None:
    """Raises ScheduleError if cells that hold several values in turn are shared by threads."""
    stored = storages_of(schedule.stages)
    turning = [
        buffer
        for buffer, each in stored.items()
        if len(each.users) > 1 or any(u.state.storage and u.state.storage.folds(each.shape) for u in each.users)
    ]
    for loop in _threaded(build_nest(schedule)):
        inside = list(_all(loop.body))
        own = [node.stored.buffer for node in inside if isinstance(node, Alloc) and node.stored is not None]
        blocks = [node for node in inside if isinstance(node, StatementBlock)]
        for block in blocks:
            storage = block.placement.state.storage
            if storage is None or storage.buffer in own or storage.buffer not in turning:
                continue
            host = next(each.placement.stage for each in blocks if loop.variable in each.placement.loops.variables)
            raise ScheduleError(
                f"buffer {storage.buffer.name} must be allocated inside loop {loop.variable.name} of stage "
                f"{host.name}, which runs in {loop.threads} threads{after}, not outside, where the values of several "
                f"iterations would be in the same cells at the same time. Use s.allocate_at({storage.buffer.name}, "
                f"s[{host.name}], {loop.variable.name}).",
                kind="legality",
            )


def _threaded(nodes: Sequence[Node]) -> Iterator[Loop]:
    return (node for node in _all(nodes) if isinstance(node, Loop) and node.threads > 1)


def _all(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Loop | Guard):
            yield from _all(node.body)
