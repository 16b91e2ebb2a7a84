"""``merge_adjacent``: two adjacent loop nests become one."""

from lathe.frontend import Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.primitives.order import after
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis


def merge_adjacent(schedule: Edit, first: Tensor | EditedStage, second: Tensor | EditedStage) -> tuple[LoopAxis, ...]:
    """Fuse two stages, one directly after the other, in all outermost data loops of equal extents.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s.merge_adjacent(B, C)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    What the second reads must have been computed in the same iteration or an earlier one: ``B[i - 1]`` is legal, ``B[i
    + 1]`` is not. Returns the shared loops of the second. Raises LegalityError, with a witness, if a value would be
    read before it is computed; ScheduleError if the stages are not adjacent at the root, or have no loops of equal
    extents. ``after`` does the same for named loops. RFC 0077's merge_adjacent_loops.
    """
    one, two = schedule[first], schedule[second]
    at_root = [stage for stage in schedule.stages if stage.state.attachment is None]
    follows = one in at_root and two in at_root and at_root.index(two) == at_root.index(one) + 1
    if not follows:
        raise ScheduleError(
            f"second stage of merge_adjacent must follow the first at the root, not {two.name!r} after {one.name!r}. "
            f"Stages at the root are {', '.join(stage.name for stage in at_root)}.",
            kind="argument",
        )
    shared: list[LoopAxis] = []
    for mine, other in zip(two.state.leaves, one.state.leaves, strict=False):
        if "reduce" in (mine.kind, other.kind) or loop_extent(two, mine) != loop_extent(one, other):
            break
        shared.append(mine)
    if not shared:
        raise ScheduleError(
            f"stages of merge_adjacent must have an outermost data loop of equal extent, not {one.name} "
            f"({_loops(one)}) and {two.name} ({_loops(two)}). Split or reorder one of them.",
            kind="argument",
        )
    after(two, one, shared[-1])
    return tuple(shared)


def _loops(stage: EditedStage) -> str:
    return ", ".join(f"{leaf.name}: {loop_extent(stage, leaf)}" for leaf in stage.state.leaves)
