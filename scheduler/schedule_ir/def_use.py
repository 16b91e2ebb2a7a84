"""Def-use index of a schedule state: producer and consumers of each tensor, attached stages of each stage.

The index of a state that is derived from another is updated incrementally: only entries that its changes touch are
computed again.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

from lathe.frontend import Tensor
from lathe.scheduler.schedule_ir.stage import StageId, StageState

K = TypeVar("K", bound=Hashable)
Stages = tuple[StageId, ...]
MANY = 16
"""Number of stages from which an incremental update is faster than building the tables again."""


@dataclass(frozen=True, eq=False)
class DefUseIndex:
    """Producers, consumers, attached stages and order of the stages of a schedule; each table is built on first use."""

    stages: Mapping[StageId, StageState]

    @cached_property
    def producers(self) -> Mapping[Tensor, StageId]:
        """The producer of each tensor: the first stage that computes it."""
        found: dict[Tensor, StageId] = {}
        for key, state in self.stages.items():
            for tensor in state.tensors:
                found.setdefault(tensor, key)
        return MappingProxyType(found)

    @cached_property
    def consumers(self) -> Mapping[Tensor, Stages]:
        """The consumers of each tensor, in schedule order."""
        found: dict[Tensor, dict[StageId, None]] = {}
        for key, state in self.stages.items():
            for read in state.computation.reads:
                found.setdefault(read.tensor, {})[key] = None
        return MappingProxyType({tensor: tuple(keys) for tensor, keys in found.items()})

    @cached_property
    def attached(self) -> Mapping[StageId, Stages]:
        """The stages that are computed in a loop of each stage, in schedule order."""
        found: dict[StageId, list[StageId]] = {}
        for key, state in self.stages.items():
            if state.attachment is not None:
                found.setdefault(state.attachment.enclosing, []).append(key)
        return MappingProxyType({host: tuple(keys) for host, keys in found.items()})

    @cached_property
    def order(self) -> Mapping[StageId, int]:
        """The position of each stage in the schedule."""
        return {key: place for place, key in enumerate(self.stages)}

    def then(self, stages: Mapping[StageId, StageState]) -> "DefUseIndex":
        """The index of another mapping of stages, in which some are changed, added or removed."""
        previous = self.stages
        keys, before = list(stages), list(previous)
        if keys != before and [key for key in before if key in stages] != [key for key in keys if key in previous]:
            return DefUseIndex(stages)  # in another order
        new = {key: state for key, state in stages.items() if previous.get(key) is not state}
        old = {key: state for key, state in previous.items() if stages.get(key) is not state}
        return self._renewed(stages, old, new)

    def with_changes(
        self, stages: Mapping[StageId, StageState], changed: Mapping[StageId, StageState]
    ) -> "DefUseIndex":
        """The index after some stages have ``changed`` state; stages and their order are the same.

        Tables that the changes do not affect are reused.
        """
        pairs = [(self.stages[key], state) for key, state in changed.items()]
        same = {
            "producers": all(one.tensors == other.tensors for one, other in pairs),
            "consumers": all(one.computation is other.computation for one, other in pairs),
            "attached": all(_hosts(one) == _hosts(other) for one, other in pairs),
            "order": True,
        }
        if len(stages) >= MANY and not all(same.values()):
            return self._renewed(stages, {key: self.stages[key] for key in changed}, changed)
        new = DefUseIndex(stages)
        for name, unaffected in same.items():
            if unaffected and name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        return new

    def _renewed(
        self, stages: Mapping[StageId, StageState], old: Mapping[StageId, StageState], new: Mapping[StageId, StageState]
    ) -> "DefUseIndex":
        """The index after the ``old`` states have been removed or replaced, and the ``new`` ones added."""
        tables = DefUseIndex(stages)
        if "producers" in self.__dict__:
            removed = {tensor: key for key, state in old.items() for tensor in state.tensors}
            added = {tensor: key for key, state in new.items() for tensor in state.tensors}
            if removed == added:
                tables.__dict__["producers"] = self.producers
            elif len(self.producers) == sum(
                len(state.tensors) for state in self.stages.values()
            ):  # no tensor has two producers
                remaining = {tensor: key for tensor, key in self.producers.items() if tensor not in removed}
                if not remaining.keys() & added.keys():
                    tables.__dict__["producers"] = MappingProxyType(remaining | added)
        if "consumers" in self.__dict__:
            gone_reads, reads = ({key: _read(state) for key, state in each.items()} for each in (old, new))
            tables.__dict__["consumers"] = _table_renewed(self.consumers, gone_reads, reads, tables)
        if "attached" in self.__dict__:
            gone_hosts, hosts = ({key: _hosts(state) for key, state in each.items()} for each in (old, new))
            tables.__dict__["attached"] = _table_renewed(self.attached, gone_hosts, hosts, tables)
        return tables


def _read(state: StageState) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(read.tensor for read in state.computation.reads))


def _hosts(state: StageState) -> tuple[StageId, ...]:
    return () if state.attachment is None else (state.attachment.enclosing,)


def _table_renewed(
    table: Mapping[K, Stages],
    old: Mapping[StageId, tuple[K, ...]],
    new: Mapping[StageId, tuple[K, ...]],
    tables: DefUseIndex,
) -> Mapping[K, Stages]:
    """A table of the stages that mention each key, updated for stages that now mention other keys."""
    if old == new:
        return table
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    found = dict(table)
    for each in {each for mentioned in (old, new) for key in changed for each in mentioned.get(key, ())}:
        keys = [key for key in found.get(each, ()) if key not in changed]
        keys += [key for key in changed if each in new.get(key, ())]
        if keys:
            found[each] = tuple(sorted(keys, key=tables.order.__getitem__))
        else:
            del found[each]
    return MappingProxyType(found)
