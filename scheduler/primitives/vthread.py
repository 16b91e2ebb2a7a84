"""``vthread``: iterations of a loop run as interleaved virtual threads with buffers of their own."""

from dataclasses import replace
from types import MappingProxyType

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def vthread(stage: EditedStage, axis: "AxisLike", threads: int = 2) -> None:
    """Interleave ``threads`` iterations of a loop: each statement inside runs for every one of them in turn.

    Iterations are dealt to threads round-robin: with two, even ones to the first and odd ones to the second; the last
    of an odd number runs alone. Every buffer inside the loop exists once per thread, so that one thread loads while
    another computes, at every level of inner loops. Tokens follow from the cells that instructions access. Before::

        for io in 0..4:
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    After ``s[C].vthread(io, 2)``::

        for io in 0..4 in 2 threads:
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    which is, in the order of instructions, B of ``io`` = 0, B of 1, C of 0, C of 1, B of 2, and so on. Threads may be
    nested; a reduction loop may have threads, too, since its updates commute. One thread undoes the primitive. With
    numbers for the parameters of a program there may be fewer iterations than threads: the excess threads are idle.
    ``virtual_threads`` is a synonym. Raises ScheduleError if the axis is not a present loop of this stage, is inside an
    ``emit_insn`` nest, or is shared with another stage, or for a number outside 1 to the loop's extent; LegalityError
    with a witness if an iteration reads what another writes. ``build`` raises CapacityError if the buffers of all
    threads do not fit. After the virtual threads of TVM and VTA.
    """
    loop = stage.find(axis, "vthread")
    iterations = loop_extent(stage, loop)
    count = integer(threads)
    if count is None or count < 1 or (count > iterations and not stage.schedule.replaying):
        raise ScheduleError(
            f"threads of loop {loop.name} of stage {stage.name} must be from 1 to its iterations, {iterations}, not "
            f"{shown(threads)}.",
            kind="argument",
        )
    others = {each: own for each, own in stage.state.threads.items() if each is not loop}
    new_threads = MappingProxyType(others if count == 1 else {**others, loop: count})
    commit(stage.schedule, {stage: replace(stage.state, threads=new_threads)}, "vthread")
