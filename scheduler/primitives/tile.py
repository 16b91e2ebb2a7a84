"""``tile``: loops are split, and the outer loops moved outside."""

from typing import cast

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.reorder import reorder
from lathe.scheduler.primitives.split import split
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis


def tile(stage: EditedStage, *axes_and_factors: "AxisLike | int") -> tuple[LoopAxis, ...]:
    """Split two loops, or more, and move the outer loops outside the inner ones.

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

    Takes the loops and then a factor for each: ``tile(x, y, z, 4, 8, 16)`` tiles three. Returns the outer loops and
    then the inner ones, in the order of the axes. Raises ScheduleError as ``split`` and ``reorder`` do, and if there
    are not as many factors as axes.
    """
    count, odd = divmod(len(axes_and_factors), 2)
    if odd or count < 2:
        raise ScheduleError(
            f"tile of stage {stage.name} must be given two loops or more, and then a factor for each, not "
            f"{len(axes_and_factors)} values.",
            kind="argument",
        )
    targets = [stage.find(axis, "tile") for axis in cast("tuple[AxisLike, ...]", axes_and_factors[:count])]
    for position, target in enumerate(targets):
        if target in targets[:position]:
            kind = {2: "two", 3: "three"}.get(count, str(count))
            raise ScheduleError(
                f"axes of tile on stage {stage.name} must be {kind} different loops, not {target.name!r} twice.",
                kind="argument",
            )
    factors = cast("tuple[int, ...]", axes_and_factors[count:])
    pairs = [split(stage, target, factor=factor) for target, factor in zip(targets, factors, strict=True)]
    made = (*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    reorder(stage, *made)
    return made
