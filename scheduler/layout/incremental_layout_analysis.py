"""Incremental layout analysis: the layouts that each stage implies, recomputed only where a dependency has changed.

Stages are analysed in program order. The result of a stage (layouts of tensors, and its GEMM match) depends on its own
state, on how loops tile its output, and on what it queried: the layouts known of a tensor at that point, and producers.
It is re-evaluated only when one of these has changed, so that tiling one group of hundreds does not repeat the analysis
of the others. (This is incremental attribute evaluation, as in T. Reps, "Optimal-time incremental semantic analysis for
syntax-directed editors", 1982: changes are processed in order, and propagate to the stages that depend on them.)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from operator import attrgetter, is_
from typing import Protocol

from lathe.frontend import Tensor
from lathe.scheduler.layout.match_gemm import GemmMatch, KnownLanes
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageId, StageState, VectorLayout

RELEVANT = attrgetter("computation", "tensors", "scope", "vector_layout", "sequential_dims", "on_alu", "pragma")
"""The fields of a stage that its result, and the results of stages that query it, depend on."""

_FIELDS = attrgetter(*(each.name for each in fields(GemmMatch)))


@dataclass(frozen=True)
class StagesInOrder:
    """A snapshot of the stages of a schedule: their states, their order, and the producer of each tensor."""

    states: Mapping[StageId, StageState] = field(default_factory=dict)
    order: Mapping[StageId, int] = field(default_factory=dict)
    producers: Mapping[Tensor, StageId] = field(default_factory=dict)

    def is_reordered(self, states: Mapping[StageId, StageState]) -> bool:
        """Whether the stages that are in a later snapshot too have another order in it."""
        if list(states) == list(self.order):
            return False
        return [key for key in self.order if key in states] != [key for key in states if key in self.order]

    def changed(self, states: Mapping[StageId, StageState]) -> "Changes":
        """The difference to later states; the stages that remain must be in the same order."""
        order = self.order if states.keys() == self.order.keys() else {key: n for n, key in enumerate(states)}
        before = self.states
        changed = [key for key, state in states.items() if before.get(key) is not state]
        was = [key for key, state in before.items() if states.get(key) is not state]
        producers = self.producers
        if [before[key].tensors for key in was] != [states[key].tensors for key in changed]:
            gone = {tensor for key in was for tensor in before[key].tensors}
            producers = {tensor: key for tensor, key in producers.items() if tensor not in gone}
            producers |= {tensor: key for key in changed for tensor in states[key].tensors}
        return Changes(self, StagesInOrder(states, order, producers), changed, was)


@dataclass(frozen=True)
class Changes:
    """Two snapshots: ``others`` are the new and changed stages of ``now``, ``were`` those changed or removed since."""

    before: StagesInOrder
    now: StagesInOrder
    others: Sequence[StageId]
    were: Sequence[StageId]


@dataclass(frozen=True)
class StageResult:
    """The result of one stage: its GEMM match, the layouts it implies, and the tensors it queried (``looked``)."""

    product: GemmMatch | None
    lanes: Mapping[Tensor, VectorLayout]
    looked: frozenset[Tensor]


class LayoutEnv(KnownLanes, Protocol):
    """Known vector layouts, to which layouts can be added."""

    def __contains__(self, tensor: object, /) -> bool:
        """Whether the layout of a tensor is known."""

    def update(self, more: Mapping[Tensor, VectorLayout], /) -> None:
        """Add or replace layouts of tensors."""


class LayoutScope:
    """The layouts visible to the stage being analysed: given ones, results of earlier stages, and its own so far."""

    def __init__(self, analysis: "IncrementalAnalysis", said: dict[Tensor, VectorLayout]) -> None:
        self._analysis = analysis
        self.said = said

    def get(self, tensor: Tensor) -> VectorLayout | None:
        """The layout of a tensor, if it is known."""
        own = self.said.get(tensor)
        return own if own is not None else self._analysis.known(tensor)

    def __getitem__(self, tensor: Tensor) -> VectorLayout:
        layout = self.get(tensor)
        assert layout is not None, f"the layout of {tensor.name} is not known"
        return layout

    def __contains__(self, tensor: object) -> bool:
        return isinstance(tensor, Tensor) and self.get(tensor) is not None

    def update(self, more: Mapping[Tensor, VectorLayout]) -> None:
        """Add or replace layouts in the stage's own result."""
        self.said.update(more)

    def trying(self, more: Mapping[Tensor, VectorLayout]) -> "LayoutScope":
        """A copy with further layouts added, for a trial."""
        return LayoutScope(self._analysis, {**self.said, **more})


class IncrementalAnalysis:
    """The results of all stages of a schedule, with the dependencies of each.

    ``evaluate`` analyses one stage; it queries layouts through its ``LayoutScope`` argument, and all else by ``look``.
    """

    def __init__(self, evaluate: Callable[[StageState, LayoutScope], GemmMatch | None]) -> None:
        self.stages = StagesInOrder()
        self.products: dict[Tensor, GemmMatch | None] = {}
        self.lanes: dict[Tensor, VectorLayout] = {}
        """The layouts after all stages are analysed."""
        self._evaluate_stage = evaluate
        self._position = 0  # in program order, of the stage being analysed
        self._looked: set[Tensor] = set()  # what it has queried so far
        self._given: dict[Tensor, VectorLayout] = {}
        self._results: dict[StageId, StageResult] = {}
        self._implied: dict[Tensor, dict[StageId, VectorLayout]] = {}
        self._dependents: dict[Tensor, set[StageId]] = {}

    def renew(self, changes: Changes, cut: set[Tensor]) -> None:
        """Re-evaluate stages with a changed dependency; ``cut``: tensors whose ``Cuts`` have changed."""
        had, now, self.stages = changes.before.states, changes.now.states, changes.now
        alike = {key for key in changes.others if key in had and RELEVANT(had[key]) == RELEVANT(now[key])}
        others = [key for key in changes.others if key not in alike]
        were = [key for key in changes.were if key not in alike]
        changed: set[Tensor] = set()
        for key in were:
            changed |= self._forget(key, had[key], gone=key not in now)
        for key in others:
            tensors, lanes = now[key].tensors, now[key].vector_layout
            changed.update(tensors)
            if lanes is not None:
                self._given.update(dict.fromkeys(tensors, lanes))
        stale = {*others, *(self.stages.producers[tensor] for tensor in cut)}
        self._evaluate(stale.union(*(self._dependents.get(tensor, ()) for tensor in changed)), changed)

    def _forget(self, key: StageId, state: StageState, *, gone: bool) -> set[Tensor]:
        """Drop what is stored of a changed or removed (``gone``) stage; return the tensors that this affects."""
        for tensor in state.tensors:
            self._given.pop(tensor, None)
            self.products.pop(tensor, None)
        result = self._results.pop(key, None) if gone else None
        if result is None:
            return {*state.tensors}
        self._replace(key, result, StageResult(None, {}, frozenset()))
        return {*state.tensors, *result.lanes}

    def _evaluate(self, stale: set[StageId], changed: set[Tensor]) -> None:
        """Re-evaluate stale stages in program order, and the later stages that depend on what has changed."""
        order = self.stages.order
        waiting = sorted((order[key], key) for key in stale)
        while waiting:
            self._position, key = heappop(waiting)
            for tensor in self._evaluate_one(key):
                changed.add(tensor)
                for dependent in self._dependents.get(tensor, ()):
                    position = order[dependent]
                    if position > self._position and dependent not in stale:
                        stale.add(dependent)
                        heappush(waiting, (position, dependent))
        self._position = len(order)
        for tensor in changed:
            layout = self.known(tensor) if tensor in self.stages.producers else None
            if layout is None:
                self.lanes.pop(tensor, None)
            else:
                self.lanes[tensor] = layout

    def _evaluate_one(self, key: StageId) -> set[Tensor]:
        """Re-evaluate a stage; return the tensors for which its result has changed."""
        state = self.stages.states[key]
        before = self._results.get(key, StageResult(None, {}, frozenset()))
        self._looked = set()
        said: dict[Tensor, VectorLayout] = {}
        product = self._evaluate_stage(state, LayoutScope(self, said))
        self.products.update(dict.fromkeys(state.tensors, product))
        now = self._results[key] = StageResult(product, said, frozenset(self._looked))
        self._replace(key, before, now)
        differ = {each for each in before.lanes.keys() | said.keys() if before.lanes.get(each) != said.get(each)}
        return differ if _is_same(before.product, product) else differ.union(state.tensors)

    def _replace(self, key: StageId, before: StageResult, now: StageResult) -> None:
        for tensor in before.lanes.keys() - now.lanes.keys():
            del self._implied[tensor][key]
        for tensor, lanes in now.lanes.items():
            self._implied.setdefault(tensor, {})[key] = lanes
        for tensor in before.looked - now.looked:
            self._dependents[tensor].remove(key)
        for tensor in now.looked - before.looked:
            self._dependents.setdefault(tensor, set()).add(key)

    def look(self, tensor: Tensor) -> StageState | None:
        """The state of the producer of a tensor, recorded as a dependency of the stage being analysed."""
        self._looked.add(tensor)
        key = self.stages.producers.get(tensor)
        return None if key is None else self.stages.states[key]

    def is_not_gemm(self, tensor: Tensor) -> bool:
        """Whether the producer of a tensor is analysed already and is no GEMM."""
        self._looked.add(tensor)
        key = self.stages.producers.get(tensor)
        return key is not None and self.stages.order[key] < self._position and self.products[tensor] is None

    def known(self, tensor: Tensor) -> VectorLayout | None:
        """The layout that the last of the earlier stages implies for a tensor, else the given one, if any."""
        self._looked.add(tensor)
        latest, last, order = None, -1, self.stages.order
        for key, lanes in self._implied.get(tensor, {}).items():
            if last < order[key] < self._position:
                latest, last = lanes, order[key]
        return latest if latest is not None else self._given.get(tensor)


def _is_same(one: GemmMatch | None, other: GemmMatch | None) -> bool:
    """Whether two matches have the same fields, compared by identity, since ``==`` of reads builds an expression."""
    return one is other or (one is not None and other is not None and all(map(is_, _FIELDS(one), _FIELDS(other))))


class TrackedLookup:
    """A ``ProducerLookup`` that records each query as a dependency of the stage being analysed."""

    def __init__(self, schedule: ScheduleView, analysis: IncrementalAnalysis) -> None:
        self._schedule, self._analysis = schedule, analysis

    def producer(self, tensor: Tensor) -> StageView | None:
        """The stage that computes the tensor; None for an input."""
        self._analysis.look(tensor)
        return self._schedule.producer(tensor)

    def scope_of(self, tensor: Tensor) -> str:
        """The memory that holds the tensor."""
        self._analysis.look(tensor)
        return self._schedule.scope_of(tensor)
