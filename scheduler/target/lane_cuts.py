"""Where loops cut a tensor: a dimension that is cut within the machine's blocks cannot be in their lanes."""

from functools import reduce
from math import gcd

from lathe.frontend.indices.linear import FloorDivision, LoopVariable
from lathe.scheduler.nest.stage_loops import stage_loops
from lathe.scheduler.state.loops import LoopAxis
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.state.stage import StageState


def steps_between_chunks(stage: StageView) -> tuple[int, ...]:
    """For each dimension of what a stage makes, the greatest step that divides all distances between its chunks.

    0 for a dimension that each chunk has all of. A chunk is what is inside the loop of the pragma, or else inside the
    innermost loop in which another stage is computed. The steps are kept with the schedule until one of these changes.
    """
    state = stage.state
    hosting = {guest.state.attachment.axis for guest in stage.schedule.attached(stage) if guest.state.attachment}
    known = stage.schedule.derived.setdefault("cuts", {})
    kept: tuple[StageState, set[LoopAxis], tuple[int, ...]] | None = known.get(stage.id)
    if kept is None or kept[0] is not state or kept[1] != hosting:
        kept = known[stage.id] = state, hosting, _steps(state, hosting)
    return kept[2]


def _steps(state: StageState, hosting: set[LoopAxis]) -> tuple[int, ...]:
    if state.pragma_axis is not None:
        depth = state.leaves.index(state.pragma_axis)
    else:
        depth = max((number + 1 for number, leaf in enumerate(state.leaves) if leaf in hosting), default=0)
    if not depth:
        return (0,) * len(state.computation.axes)
    loops = stage_loops(state, {root: root.source.extent for root in state.roots if root.source is not None})
    outside = {variable for leaf in state.leaves[:depth] for variable in loops.of_leaf[leaf] if variable.extent > 1}
    steps = []
    for root in (root for root in state.roots if root.kind == "data"):
        found = []
        for atom, coefficient in loops.local[root].terms.items():
            if isinstance(atom, LoopVariable):
                found += [coefficient] * (atom in outside)
            elif isinstance(atom, FloorDivision) and atom.numerator.variables() & outside:
                found.append(1)
        steps.append(reduce(gcd, found, 0))
    return tuple(steps)
