"""``vectorize``, ``parallelize`` and ``distribute``: loops whose iterations are independent, and that are marked so."""

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lathe.scheduler.commands.affine import checked_integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state import LoopAxis

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def vectorize(stage: "Stage", axis: "AxisLike", lanes: int) -> LoopAxis:
    """Mark ``lanes`` iterations of a loop as the lanes of an element, splitting it where it has more.

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

    A loop that does not divide keeps a tail, whose element is filled with padding. ``build`` puts the loop along the
    lanes of a block, and refuses a number of lanes that the machine's block does not have.

    Returns the marked loop. Raises ScheduleError if the axis is not a present data loop of this stage or the number of
    lanes is not a positive integer; LegalityError if an iteration reads what another makes. Tiramisu's vectorize.
    """
    target = stage.find(axis, "vectorize")
    lanes = checked_integer(lanes, f"lanes of axis {target.name}", "vectorize", stage, 1)
    if target.kind == "reduce":
        raise ScheduleError(
            f"axis of vectorize on stage {stage.name} must be a data loop, not {target.name!r}: its iterations update "
            f"the same elements of {stage.tensor.name}."
        )
    before = {each: each.state for each in stage.schedule.stages}
    try:
        if loop_extent(stage, target) != lanes:
            _, target = stage.split(target, factor=lanes)
        _mark(stage, target, "vectorize")
    except Exception:
        for each, state in before.items():  # all or nothing, though made of two commands
            each.state = state
        raise
    return target


def parallelize(stage: "Stage", axis: "AxisLike") -> None:
    """Mark a loop as one whose iterations may run at the same time, on units that share memory.

    Before::

        C:
          band i [64]
          band j [96]
          time [0, i, 0, j, 0]

    After ``s[C].parallelize(i)``::

        C:
          band i [64] @parallelize
          band j [96]
          time [0, i, 0, j, 0]

    The mark is checked now and after every later command, and counted by ``s.count()``; a single core runs the
    iterations one after the other. Raises ScheduleError if the axis is not a present loop of this stage or a reduction,
    LegalityError with a witness if an iteration reads what another makes. Tiramisu's parallelize.
    """
    _mark(stage, stage.find(axis, "parallelize"), "parallelize")


def distribute(stage: "Stage", axis: "AxisLike") -> None:
    """Mark a loop as one whose iterations may run on different cores.

    Before::

        C:
          band i [64]
          band j [96]
          time [0, i, 0, j, 0]

    After ``s[C].distribute(i)``::

        C:
          band i [64] @distribute
          band j [96]
          time [0, i, 0, j, 0]

    Checked and counted as ``parallelize`` is; there is one core so far, which runs the iterations one after the other.
    Raises ScheduleError if the axis is not a present loop of this stage or a reduction, LegalityError with a witness if
    an iteration reads what another makes. Tiramisu's distribute.
    """
    _mark(stage, stage.find(axis, "distribute"), "distribute")


def loop_extent(stage: "Stage", loop: LoopAxis) -> int:
    """The number of iterations of a present loop."""
    from lathe.scheduler.placement import place_stages

    return place_stages(stage.schedule)[stage].loops.extents[loop]


def _mark(stage: "Stage", loop: LoopAxis, mark: str) -> None:
    marks = MappingProxyType({**stage.state.marks, loop: mark})
    stage.update(replace(stage.state, marks=marks), mark)
