"""``inline_elementwise``: element-wise stages become part of their consumers' expressions."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.inline import inline
from lathe.scheduler.rewriting.matchers import is_elementwise
from lathe.scheduler.schedule_ir.edit import Edit


def inline_elementwise(schedule: Edit) -> tuple[str, ...]:
    """``inline`` every stage that reads other tensors only at its own index, if possible.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2
        for i in 0..58:
          D[i] = C[i] + C[i + 2]

    After ``s.inline_elementwise()``, which returns ``("B", "C")``::

        for i in 0..58:
          D[i] = (A[i] + 1) * 2 + (A[i + 2] + 1) * 2

    Stages that ``inline`` refuses stay: outputs, those with changed loops, a compute location or a scratchpad scope,
    and those that would make an expression too deep. Returns the names of the inlined stages. TVM's AutoInlineElemWise.
    """
    inlined: list[str] = []
    for stage in schedule.stages:
        if not is_elementwise(stage.state.computation):
            continue
        name = stage.name
        try:
            inline(stage)
        except ScheduleError:
            continue
        inlined.append(name)
    return tuple(inlined)
