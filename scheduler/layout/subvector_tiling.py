"""Where loops cut a tensor: a dimension that is cut within the machine's blocks cannot be in their lanes."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from heapq import heapify, heappop, heappush
from math import gcd

from lathe.frontend import Computation, Tensor
from lathe.frontend.arith.linear import FloorDivision, LoopVariable
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.layout.incremental_layout_analysis import Changes, StagesInOrder
from lathe.scheduler.loop_ir.stage_loops import stage_loops
from lathe.scheduler.rewriting.matchers import is_plain_read
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageId, StageState

NONE: frozenset[int] = frozenset()


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


class Cuts:
    """The dimensions of tensors that loops cut within blocks of lanes: those of their stages, and of readers in turn.

    A reader counts where it leads a dimension through as it is, since it has the same lanes then. ``blocks``: those of
    so many values. What has been found holds until ``renew`` says that a schedule is another.
    """

    def __init__(self, schedule: ScheduleView, blocks: Iterable[int]) -> None:
        self._schedule = schedule
        self._known: dict[int, dict[Tensor, frozenset[int]]] = {block: {} for block in blocks if block > 1}

    def of(self, tensor: Tensor, block: int) -> frozenset[int]:
        """The dimensions of a tensor that are cut within blocks of so many values."""
        return NONE if block == 1 else self._known[block].get(tensor, NONE)

    def renew(self, changes: Changes) -> set[Tensor]:
        """The tensors that are cut otherwise than before, readers being looked at before those whose values they read.

        But for readers in a circle, which count where they stand behind.
        """
        had, now, order = changes.before.states, changes.now.states, changes.now.order
        waiting = {*changes.others}
        for states, keys in ((had, changes.were), (now, changes.others)):
            for key in keys:
                place = states[key].attachment
                waiting |= {place.host} if place is not None else set()
                waiting |= self._makers(states[key], changes.now)
        for key in changes.were:
            for known in self._known.values():
                for tensor in had[key].tensors:
                    if tensor not in changes.now.makers:
                        known.pop(tensor, None)
        heap = [(-order[key], key) for key in waiting if key in order]
        heapify(heap)
        found: set[Tensor] = set()
        while heap:
            _, key = heappop(heap)
            changed = self._look_again(self._schedule.by_id(key), order)
            if changed:
                found |= changed
                new = {each for each in self._makers(now[key], changes.now) if order[each] < order[key]} - waiting
                waiting |= new
                for each in new:
                    heappush(heap, (-order[each], each))
        return found

    def _makers(self, state: StageState, stages: StagesInOrder) -> set[StageId]:
        found = (stages.makers.get(read.tensor) for read in state.computation.reads)
        return {key for key in found if key is not None}

    def _look_again(self, stage: StageView, order: Mapping[StageId, int]) -> set[Tensor]:
        """The tensors of a stage that are cut otherwise than before."""
        steps, place = steps_between_chunks(stage), order[stage.id]
        changed: set[Tensor] = set()
        for block, known in self._known.items():
            own = frozenset([dim for dim, step in enumerate(steps) if step % block]) if any(steps) else NONE
            for number, made in enumerate(stage.state.tensors):
                # What no reader cuts, the greater part of a program, is not looked at any further.
                cut = [each for each in self._schedule.readers(made) if known.get(each.tensor)]
                behind = [each for each in cut if order[each.id] > place or (each is stage and number)]
                dims = own.union(*(_through(each, made, known[each.tensor]) for each in behind)) if behind else own
                if known.get(made, NONE) != dims:
                    changed.add(made)
                known[made] = dims
        return changed


def _through(reader: StageView, tensor: Tensor, cut: frozenset[int]) -> frozenset[int]:
    """The dimensions of a tensor that lead into those which are cut of what a stage makes of it."""
    computation = reader.state.computation
    axes = {computation.axes[n] for n in cut}
    return frozenset([dim for dim, axis in _led(computation, tensor) if axis in axes])


@lru_cache(maxsize=16384)
def _led(computation: Computation, tensor: Tensor) -> list[tuple[int, Axis]]:
    """The dimensions of a tensor that a computation reads along an axis of its own as it is, with that axis."""
    reads = [read for read in computation.reads if read.tensor is tensor]
    plain = [(dim, as_bare_axis(index)) for read in reads for dim, index in enumerate(read.indices)]
    return [(dim, axis) for dim, axis in plain if axis is not None]


def _steps(state: StageState, hosting: set[LoopAxis]) -> tuple[int, ...]:
    if state.pragma_axis is not None:
        depth = state.leaves.index(state.pragma_axis)
    else:
        depth = max((number + 1 for number, leaf in enumerate(state.leaves) if leaf in hosting), default=0)
    stored = is_plain_read(state.computation.bodies[0])  # chunk by chunk; the ALU makes all lanes of elements each time
    if not depth and not (stored and state.relations):
        return (0,) * len(state.computation.axes)
    loops = stage_loops(state, {root: root.source.extent for root in state.roots if root.source is not None})
    inwards = [variable for leaf in state.leaves for variable in loops.of_leaf[leaf] if variable.extent > 1]
    outside = {variable for leaf in state.leaves[:depth] for variable in loops.of_leaf[leaf] if variable.extent > 1}
    steps = []
    for root in (root for root in state.roots if root.kind == "data"):
        found, terms = list[int](), loops.local[root].terms
        for atom, coefficient in terms.items():
            if isinstance(atom, LoopVariable):
                found += [coefficient] * (atom in outside)
            elif isinstance(atom, FloorDivision) and atom.numerator.variables() & outside:
                found.append(1)
        assert root.source is not None
        if stored:
            inside = [(terms[each], n) for n, each in enumerate(inwards) if each in terms and each not in outside]
            found += _begins_of_tails(root.source.extent, inside)
        steps.append(reduce(gcd, found, 0))
    return tuple(steps)


def _begins_of_tails(extent: int, loops: list[tuple[int, int]]) -> Iterator[int]:
    """Where pieces of a range begin that a chunk's loops, of such steps and places, do not divide evenly.

    What is left is a piece behind the others; or, where the loop of smaller steps is outside of the other, there is a
    piece of each of the greater steps.
    """
    for step, place in sorted(loops, reverse=True):
        left = extent % step
        if left:
            within = any(other < step and outer < place for other, outer in loops)
            yield gcd(left, step) if within else extent - left
        extent = step
