"""``tile``: two loops split, with the outer halves outside."""

from typing import TYPE_CHECKING

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state import LoopAxis

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def tile(
    stage: "Stage", x: "AxisLike", y: "AxisLike", x_factor: int, y_factor: int
) -> tuple[LoopAxis, LoopAxis, LoopAxis, LoopAxis]:
    """Split two loops and bring the outer halves outside the inner ones.

    Before::

        for x in 0..64:
          for y in 0..60:
            C[x, y] = A[x, y] + 1

    After ``xo, yo, xi, yi = s[C].tile(x, y, 32, 8)``::

        for xo in 0..2:
          for yo in 0..8:
            for xi in 0..32:
              for yi in 0..8:
                C[32*xo + xi, 8*yo + yi] = A[32*xo + xi, 8*yo + yi] + 1 while 8*yo + yi < 60

    Returns ``(xo, yo, xi, yi)``. Raises ScheduleError as ``split`` and ``reorder`` do.
    """
    first, second = stage.find(x, "tile"), stage.find(y, "tile")
    if first is second:
        raise ScheduleError(
            f"axes of tile on stage {stage.name} must be two different loops, not {first.name!r} twice."
        )
    before = {each: each.state for each in stage.schedule.stages}
    try:
        xo, xi = stage.split(first, factor=x_factor)
        yo, yi = stage.split(second, factor=y_factor)
        stage.reorder(xo, yo, xi, yi)
    except Exception:
        for each, state in before.items():  # all or nothing, though made of three commands
            each.state = state
        raise
    return xo, yo, xi, yi
