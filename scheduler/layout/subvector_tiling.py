"""Dimensions that loops tile below vector width, and which therefore cannot be in the lanes of vectors."""

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
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageId, StageState

NONE: frozenset[int] = frozenset()


def steps_between_chunks(stage: StageView) -> tuple[int, ...]:
    """For each dimension of a stage's output, the greatest common divisor of the offsets between its chunks.

    0 for a dimension that every chunk covers. A chunk is the nest inside the loop of ``emit_insn``, or else inside the
    innermost loop that encloses another stage. Cached with the schedule until one of these changes.
    """
    state = stage.state
    anchors = {inner.state.attachment.axis for inner in stage.schedule.attached(stage) if inner.state.attachment}
    cache = stage.schedule.derived.setdefault("cuts", {})
    cached: tuple[StageState, set[LoopAxis], tuple[int, ...]] | None = cache.get(stage.id)
    if cached is None or cached[0] is not state or cached[1] != anchors:
        cached = cache[stage.id] = state, anchors, _steps(state, anchors)
    return cached[2]


class Cuts:
    """The dimensions of tensors that loops tile below vector width, by their own stage or by one that consumes them.

    Consumers, and theirs in turn, count where they preserve the dimension, since they then have the same layout.
    ``blocks``: the vector widths to check. Results hold until ``renew``.
    """

    def __init__(self, schedule: ScheduleView, blocks: Iterable[int]) -> None:
        self._schedule = schedule
        self._known: dict[int, dict[Tensor, frozenset[int]]] = {block: {} for block in blocks if block > 1}

    def of(self, tensor: Tensor, block: int) -> frozenset[int]:
        """The dimensions of a tensor that are tiled below this vector width."""
        return NONE if block == 1 else self._known[block].get(tensor, NONE)

    def renew(self, changes: Changes) -> set[Tensor]:
        """Update the results after changes, consumers before producers; return the tensors with a changed result.

        In a recurrence only consumers later in program order count.
        """
        had, now, order = changes.before.states, changes.now.states, changes.now.order
        waiting = {*changes.others}
        for states, keys in ((had, changes.were), (now, changes.others)):
            for key in keys:
                anchor = states[key].attachment
                waiting |= {anchor.enclosing} if anchor is not None else set()
                waiting |= self._makers(states[key], changes.now)
        for key in changes.were:
            for known in self._known.values():
                for tensor in had[key].tensors:
                    if tensor not in changes.now.producers:
                        known.pop(tensor, None)
        heap = [(-order[key], key) for key in waiting if key in order]
        heapify(heap)
        updated: set[Tensor] = set()
        while heap:
            _, key = heappop(heap)
            changed = self._update(self._schedule.by_id(key), order)
            if changed:
                updated |= changed
                new = {each for each in self._makers(now[key], changes.now) if order[each] < order[key]} - waiting
                waiting |= new
                for each in new:
                    heappush(heap, (-order[each], each))
        return updated

    def _makers(self, state: StageState, stages: StagesInOrder) -> set[StageId]:
        producers = (stages.producers.get(read.tensor) for read in state.computation.reads)
        return {key for key in producers if key is not None}

    def _update(self, stage: StageView, order: Mapping[StageId, int]) -> set[Tensor]:
        """Update the results of a stage's tensors; return those with a changed result."""
        steps, position = steps_between_chunks(stage), order[stage.id]
        changed: set[Tensor] = set()
        for block, known in self._known.items():
            own = frozenset([dim for dim, step in enumerate(steps) if step % block]) if any(steps) else NONE
            for number, made in enumerate(stage.state.tensors):
                # Most tensors have no consumer that is tiled below vector width: nothing more is computed for them.
                cut = [each for each in self._schedule.consumers(made) if known.get(each.tensor)]
                later = [each for each in cut if order[each.id] > position or (each is stage and number)]
                dims = own.union(*(_through(each, made, known[each.tensor]) for each in later)) if later else own
                if known.get(made, NONE) != dims:
                    changed.add(made)
                known[made] = dims
        return changed


def _through(consumer: StageView, tensor: Tensor, cut: frozenset[int]) -> frozenset[int]:
    """The dimensions of a tensor that a consumer maps unchanged to the given dimensions of its output."""
    computation = consumer.state.computation
    axes = {computation.axes[n] for n in cut}
    return frozenset([dim for dim, axis in _preserved(computation, tensor) if axis in axes])


@lru_cache(maxsize=16384)
def _preserved(computation: Computation, tensor: Tensor) -> list[tuple[int, Axis]]:
    """The dimensions of a tensor that a computation reads at a plain axis, each with that axis."""
    reads = [read for read in computation.reads if read.tensor is tensor]
    plain = [(dim, as_bare_axis(index)) for read in reads for dim, index in enumerate(read.indices)]
    return [(dim, axis) for dim, axis in plain if axis is not None]


def _steps(state: StageState, anchors: set[LoopAxis]) -> tuple[int, ...]:
    if state.pragma_axis is not None:
        depth = state.leaves.index(state.pragma_axis)
    else:
        depth = max((number + 1 for number, leaf in enumerate(state.leaves) if leaf in anchors), default=0)
    stored = is_plain_read(state.computation.bodies[0])  # tails matter: the ALU, in contrast, always writes all lanes
    if not depth and not (stored and state.relations):
        return (0,) * len(state.computation.axes)
    loops = stage_loops(state, {root: root.source.extent for root in state.roots if root.source is not None})
    inwards = [variable for leaf in state.leaves for variable in loops.of_leaf[leaf] if variable.extent > 1]
    outside = {variable for leaf in state.leaves[:depth] for variable in loops.of_leaf[leaf] if variable.extent > 1}
    steps = []
    for root in (root for root in state.roots if root.kind == "data"):
        offsets, terms = list[int](), loops.local[root].terms
        for atom, coefficient in terms.items():
            if isinstance(atom, LoopVariable):
                offsets += [coefficient] * (atom in outside)
            elif isinstance(atom, FloorDivision) and atom.numerator.variables() & outside:
                offsets.append(1)
        assert root.source is not None
        if stored:
            inside = [(terms[each], n) for n, each in enumerate(inwards) if each in terms and each not in outside]
            offsets += _begins_of_tails(root.source.extent, inside)
        steps.append(reduce(gcd, offsets, 0))
    return tuple(steps)


def _begins_of_tails(extent: int, loops: list[tuple[int, int]]) -> Iterator[int]:
    """Offsets of the tails where a chunk's loops (stride, depth) do not divide a range evenly.

    The tail follows the full iterations; but if the loop of a smaller stride is outside of the other, there is a tail
    in each iteration of the greater stride.
    """
    for step, depth in sorted(loops, reverse=True):
        tail = extent % step
        if tail:
            within = any(other < step and outer < depth for other, outer in loops)
            yield gcd(tail, step) if within else extent - tail
        extent = step
