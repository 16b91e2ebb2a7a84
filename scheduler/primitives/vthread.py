"""``vthread``: iterations of a loop in threads that take turns, with buffers of their own."""

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
    """Carry out as many iterations of a loop together as asked for: what is inside happens for each of them in turn.

    The iterations are dealt to threads: with two, even ones to the first and odd ones to the second, and where their
    number is odd the last has nobody beside it. Every buffer inside the loop is there once for each thread, so the load
    of one runs while the other is computed, at every level of the loops inside. Tokens follow from the cells that
    instructions touch. Before::

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

    which is, in the order of instructions, B of ``io`` = 0, B of 1, C of 0, C of 1, B of 2, and so on. Loops may have
    threads inside threads; a loop of a reduction, too, since its updates commute. One thread undoes the command. With
    numbers for the parameters of a program there may be fewer iterations than threads: those left over do nothing.
    ``virtual_threads`` is the same. Raises ScheduleError if the axis is not a present loop of this stage, or is inside
    an ``emit_insn`` nest, or shared with another stage, or for a number that is none from 1 to the loop's iterations;
    LegalityError with a witness if an iteration reads what another makes. ``build`` raises CapacityError where the
    buffers of all threads do not fit. From TVM's virtual threads, as VTA uses them.
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
    given = MappingProxyType(others if count == 1 else {**others, loop: count})
    commit(stage.schedule, {stage: replace(stage.state, threads=given)}, "vthread")
