"""What stages say about lanes, one after the other, and which of them say something else when a schedule has changed.

A stage is heard when those before it have spoken. What it says depends on itself, on how loops cut what it makes, and
on what it looks at: the lanes that are known of a tensor by then, and the stage that makes it. So a stage is heard
again where one of these is another, and nobody else: tiles of one group among hundreds are chosen without planning the
lanes of the others anew. (This is incremental attribute evaluation, as in T. Reps, "Optimal-time incremental semantic
analysis for syntax-directed editors", 1982: what has changed is heard in order, and spreads to who looked at it.)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from operator import attrgetter, is_
from typing import Protocol

from lathe.frontend import Tensor
from lathe.scheduler.layout.match_gemm import GemmMatch, KnownLanes
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageId, StageState, VectorLayout

HEARD = attrgetter("computation", "tensors", "scope", "lanes", "sequential_dims", "on_alu", "pragma")
"""All of a stage that what it says, and what others say because of it, depends on."""

_PARTS = attrgetter(*(each.name for each in fields(GemmMatch)))


@dataclass(frozen=True)
class StagesInOrder:
    """The stages of a schedule at one time: in which order, in which states, and who makes a tensor."""

    states: Mapping[StageId, StageState] = field(default_factory=dict)
    order: Mapping[StageId, int] = field(default_factory=dict)
    makers: Mapping[Tensor, StageId] = field(default_factory=dict)

    def is_reordered(self, states: Mapping[StageId, StageState]) -> bool:
        """Whether stages that there are at a later time, too, stand in another order then."""
        if list(states) == list(self.order):
            return False
        return [key for key in self.order if key in states] != [key for key in states if key in self.order]

    def changed(self, states: Mapping[StageId, StageState]) -> "Changes":
        """What is different when these are the stages, in the same order as far as there are the same."""
        order = self.order if states.keys() == self.order.keys() else {key: place for place, key in enumerate(states)}
        had = self.states
        other = [key for key, state in states.items() if had.get(key) is not state]
        was = [key for key, state in had.items() if states.get(key) is not state]
        makers = self.makers
        if [had[key].tensors for key in was] != [states[key].tensors for key in other]:
            gone = {tensor for key in was for tensor in had[key].tensors}
            makers = {tensor: key for tensor, key in makers.items() if tensor not in gone}
            makers |= {tensor: key for key in other for tensor in states[key].tensors}
        return Changes(self, StagesInOrder(states, order, makers), other, was)


@dataclass(frozen=True)
class Changes:
    """Stages before and now: ``others`` are in other states or new, ``were`` have been in others or are gone."""

    before: StagesInOrder
    now: StagesInOrder
    others: Sequence[StageId]
    were: Sequence[StageId]


@dataclass(frozen=True)
class StageResult:
    """What a stage has said: the product that it is, if any, and lanes of tensors; ``looked``: at these before."""

    product: GemmMatch | None
    lanes: Mapping[Tensor, VectorLayout]
    looked: frozenset[Tensor]


class LayoutEnv(KnownLanes, Protocol):
    """Lanes of tensors, of which more may become known."""

    def __contains__(self, tensor: object, /) -> bool:
        """Whether the lanes of a tensor are known."""

    def update(self, more: Mapping[Tensor, VectorLayout], /) -> None:
        """Say what the lanes of tensors are."""


class LayoutScope:
    """Lanes as a stage finds them: as given, as stages before it have said, and as it has said itself since."""

    def __init__(self, hearing: "IncrementalAnalysis", said: dict[Tensor, VectorLayout]) -> None:
        self._hearing = hearing
        self.said = said

    def get(self, tensor: Tensor) -> VectorLayout | None:
        """The lanes of a tensor, if they are known."""
        own = self.said.get(tensor)
        return own if own is not None else self._hearing.known(tensor)

    def __getitem__(self, tensor: Tensor) -> VectorLayout:
        found = self.get(tensor)
        assert found is not None, f"nothing is known of {tensor.name}"
        return found

    def __contains__(self, tensor: object) -> bool:
        return isinstance(tensor, Tensor) and self.get(tensor) is not None

    def update(self, more: Mapping[Tensor, VectorLayout]) -> None:
        """Say what the lanes of tensors are."""
        self.said.update(more)

    def trying(self, more: Mapping[Tensor, VectorLayout]) -> "LayoutScope":
        """As if these had been said, too."""
        return LayoutScope(self._hearing, {**self.said, **more})


class IncrementalAnalysis:
    """All that the stages of a schedule have said.

    ``speak`` lets one of them: it looks at lanes by the ``LayoutScope`` it is given, and at all else by ``look``.
    """

    def __init__(self, speak: Callable[[StageState, LayoutScope], GemmMatch | None]) -> None:
        self.stages = StagesInOrder()
        self.products: dict[Tensor, GemmMatch | None] = {}
        self.lanes: dict[Tensor, VectorLayout] = {}
        """The lanes of tensors when all have spoken."""
        self._speak = speak
        self._place = 0
        self._looked: set[Tensor] = set()
        self._given: dict[Tensor, VectorLayout] = {}
        self._sayings: dict[StageId, StageResult] = {}
        self._said: dict[Tensor, dict[StageId, VectorLayout]] = {}
        self._lookers: dict[Tensor, set[StageId]] = {}

    def renew(self, changes: Changes, cut: set[Tensor]) -> None:
        """Hear those again of whose grounds some are others, as the stages are now; ``cut``: tensors cut otherwise."""
        had, now, self.stages = changes.before.states, changes.now.states, changes.now
        alike = {key for key in changes.others if key in had and HEARD(had[key]) == HEARD(now[key])}
        others = [key for key in changes.others if key not in alike]
        were = [key for key in changes.were if key not in alike]
        changed: set[Tensor] = set()
        for key in were:
            changed |= self._forget(key, had[key], gone=key not in now)
        for key in others:
            tensors, lanes = now[key].tensors, now[key].lanes
            changed.update(tensors)
            if lanes is not None:
                self._given.update(dict.fromkeys(tensors, lanes))
        again = {*others, *(self.stages.makers[tensor] for tensor in cut)}
        self._hear(again.union(*(self._lookers.get(tensor, ()) for tensor in changed)), changed)

    def _forget(self, key: StageId, state: StageState, *, gone: bool) -> set[Tensor]:
        """Let go what is known of a stage; the tensors that are others for that, of others too where it is gone."""
        for tensor in state.tensors:
            self._given.pop(tensor, None)
            self.products.pop(tensor, None)
        said = self._sayings.pop(key, None) if gone else None
        if said is None:
            return {*state.tensors}
        self._replace(key, said, StageResult(None, {}, frozenset()))
        return {*state.tensors, *said.lanes}

    def _hear(self, again: set[StageId], changed: set[Tensor]) -> None:
        order = self.stages.order
        waiting = sorted((order[key], key) for key in again)
        while waiting:
            self._place, key = heappop(waiting)
            for tensor in self._hear_one(key):
                changed.add(tensor)
                for looker in self._lookers.get(tensor, ()):
                    place = order[looker]
                    if place > self._place and looker not in again:
                        again.add(looker)
                        heappush(waiting, (place, looker))
        self._place = len(order)
        for tensor in changed:
            found = self.known(tensor) if tensor in self.stages.makers else None
            if found is None:
                self.lanes.pop(tensor, None)
            else:
                self.lanes[tensor] = found

    def _hear_one(self, key: StageId) -> set[Tensor]:
        """Let a stage speak; the tensors that it speaks of otherwise than before."""
        state = self.stages.states[key]
        before = self._sayings.get(key, StageResult(None, {}, frozenset()))
        self._looked = set()
        said: dict[Tensor, VectorLayout] = {}
        product = self._speak(state, LayoutScope(self, said))
        self.products.update(dict.fromkeys(state.tensors, product))
        now = self._sayings[key] = StageResult(product, said, frozenset(self._looked))
        self._replace(key, before, now)
        found = {tensor for tensor in before.lanes.keys() | said.keys() if before.lanes.get(tensor) != said.get(tensor)}
        return found if _is_same(before.product, product) else found.union(state.tensors)

    def _replace(self, key: StageId, before: StageResult, now: StageResult) -> None:
        for tensor in before.lanes.keys() - now.lanes.keys():
            del self._said[tensor][key]
        for tensor, lanes in now.lanes.items():
            self._said.setdefault(tensor, {})[key] = lanes
        for tensor in before.looked - now.looked:
            self._lookers[tensor].remove(key)
        for tensor in now.looked - before.looked:
            self._lookers.setdefault(tensor, set()).add(key)

    def look(self, tensor: Tensor) -> StageState | None:
        """The stage that makes a tensor, as it is; who is speaking has looked at it."""
        self._looked.add(tensor)
        key = self.stages.makers.get(tensor)
        return None if key is None else self.stages.states[key]

    def is_no_product(self, tensor: Tensor) -> bool:
        """Whether the stage that makes a tensor has spoken and is no product."""
        self._looked.add(tensor)
        key = self.stages.makers.get(tensor)
        return key is not None and self.stages.order[key] < self._place and self.products[tensor] is None

    def known(self, tensor: Tensor) -> VectorLayout | None:
        """The lanes of a tensor as the last has said that has spoken by now, or as they are given."""
        self._looked.add(tensor)
        found, last, order = None, -1, self.stages.order
        for key, lanes in self._said.get(tensor, {}).items():
            if last < order[key] < self._place:
                found, last = lanes, order[key]
        return found if found is not None else self._given.get(tensor)


def _is_same(one: GemmMatch | None, other: GemmMatch | None) -> bool:
    """Whether products are of the same parts, which are compared one by one, since ``==`` of reads is an expression."""
    return one is other or (one is not None and other is not None and all(map(is_, _PARTS(one), _PARTS(other))))


class TrackedLookup:
    """Who makes tensors, for who speaks: what it asks about it has looked at."""

    def __init__(self, schedule: ScheduleView, hearing: IncrementalAnalysis) -> None:
        self._schedule, self._hearing = schedule, hearing

    def maker(self, tensor: Tensor) -> StageView | None:
        """The stage that computes the tensor; None for an input."""
        self._hearing.look(tensor)
        return self._schedule.maker(tensor)

    def scope_of(self, tensor: Tensor) -> str:
        """The memory in which the tensor is."""
        self._hearing.look(tensor)
        return self._schedule.scope_of(tensor)
