"""``vectorize``: a loop maps to the lanes of vectors."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.primitives.parallelize import annotate_loop
from lathe.scheduler.primitives.split import split
from lathe.scheduler.primitives.unimodular import checked_integer
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis


def vectorize(stage: EditedStage, axis: "AxisLike", lanes: int) -> LoopAxis:
    """Map ``lanes`` iterations of a loop to the lanes of a vector; a longer loop is split.

    Before::

        C:
          band i [64]
          band j [96]
          time [0, i, 0, j, 0]

    After ``s[C].vectorize(j, 16)``::

        C:
          band i [64]
          band jo [6]
          band ji [16] @vectorize
          time [0, i, 0, jo, 0, ji, 0]

    If the extent is no multiple of ``lanes``, the vector of the tail is filled with padding. ``build`` assigns the loop
    to rows or columns of vectors, and refuses a number of lanes that the machine's vectors do not have.

    Returns the annotated loop. Raises ScheduleError if the axis is not a present data loop of this stage or the number
    of lanes is not a positive integer; LegalityError if an iteration reads what another writes. Tiramisu's vectorize.
    """
    target = stage.find(axis, "vectorize")
    lanes = checked_integer(lanes, f"lanes of axis {target.name}", "vectorize", stage, 1)
    if target.kind == "reduce":
        raise ScheduleError(
            f"axis of vectorize on stage {stage.name} must be a data loop, not {target.name!r}: its iterations update "
            f"the same elements of {stage.tensor.name}.",
            kind="legality",
        )
    if loop_extent(stage, target) != lanes:
        _, target = split(stage, target, factor=lanes)
    annotate_loop(stage, target, "vectorize")
    return target
