"""Who makes a tensor, who reads it, and what is computed in whose loops: found once for a state of a schedule.

Where a state follows from another, its tables follow from that one's: only what its changes touch is found anew.
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
"""From how many stages on it is quicker to find the tables of others from theirs than anew."""


@dataclass(frozen=True, eq=False)
class DefUseIndex:
    """What the stages of a schedule are to each other; each table is made when it is first asked for."""

    stages: Mapping[StageId, StageState]

    @cached_property
    def makers(self) -> Mapping[Tensor, StageId]:
        """The first stage that computes each tensor."""
        found: dict[Tensor, StageId] = {}
        for key, state in self.stages.items():
            for tensor in state.tensors:
                found.setdefault(tensor, key)
        return MappingProxyType(found)

    @cached_property
    def readers(self) -> Mapping[Tensor, Stages]:
        """The stages that read each tensor, in order."""
        found: dict[Tensor, dict[StageId, None]] = {}
        for key, state in self.stages.items():
            for read in state.computation.reads:
                found.setdefault(read.tensor, {})[key] = None
        return MappingProxyType({tensor: tuple(keys) for tensor, keys in found.items()})

    @cached_property
    def attached(self) -> Mapping[StageId, Stages]:
        """The stages that are computed in a loop of each stage, in order."""
        found: dict[StageId, list[StageId]] = {}
        for key, state in self.stages.items():
            if state.attachment is not None:
                found.setdefault(state.attachment.host, []).append(key)
        return MappingProxyType({host: tuple(keys) for host, keys in found.items()})

    @cached_property
    def order(self) -> Mapping[StageId, int]:
        """The place of each stage."""
        return {key: place for place, key in enumerate(self.stages)}

    def then(self, stages: Mapping[StageId, StageState]) -> "DefUseIndex":
        """The tables of other stages: some in other states, added or gone."""
        had = self.stages
        keys, before = list(stages), list(had)
        if keys != before and [key for key in before if key in stages] != [key for key in keys if key in had]:
            return DefUseIndex(stages)  # in another order
        new = {key: state for key, state in stages.items() if had.get(key) is not state}
        old = {key: state for key, state in had.items() if stages.get(key) is not state}
        return self._renewed(stages, old, new)

    def with_changes(
        self, stages: Mapping[StageId, StageState], changed: Mapping[StageId, StageState]
    ) -> "DefUseIndex":
        """The tables of other states of the same stages in the same order, of which some have ``changed``.

        A table that says the same of these as before is taken over.
        """
        pairs = [(self.stages[key], state) for key, state in changed.items()]
        same = {
            "makers": all(one.tensors == other.tensors for one, other in pairs),
            "readers": all(one.computation is other.computation for one, other in pairs),
            "attached": all(_hosts(one) == _hosts(other) for one, other in pairs),
            "order": True,
        }
        if len(stages) >= MANY and not all(same.values()):
            return self._renewed(stages, {key: self.stages[key] for key in changed}, changed)
        new = DefUseIndex(stages)
        for name, kept in same.items():
            if kept and name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        return new

    def _renewed(
        self,
        stages: Mapping[StageId, StageState],
        old: Mapping[StageId, StageState],
        new: Mapping[StageId, StageState],
    ) -> "DefUseIndex":
        """The tables of stages of which the ``old`` ones are others or gone, and the ``new`` ones others or added."""
        tables = DefUseIndex(stages)
        if "makers" in self.__dict__:
            gone = {tensor: key for key, state in old.items() for tensor in state.tensors}
            made = {tensor: key for key, state in new.items() for tensor in state.tensors}
            if gone == made:
                tables.__dict__["makers"] = self.makers
            elif len(self.makers) == sum(len(state.tensors) for state in self.stages.values()):  # none has two makers
                kept = {tensor: key for tensor, key in self.makers.items() if tensor not in gone}
                if not kept.keys() & made.keys():
                    tables.__dict__["makers"] = MappingProxyType(kept | made)
        if "readers" in self.__dict__:
            gone_reads, reads = ({key: _read(state) for key, state in each.items()} for each in (old, new))
            tables.__dict__["readers"] = _table_renewed(self.readers, gone_reads, reads, tables)
        if "attached" in self.__dict__:
            gone_hosts, hosts = ({key: _hosts(state) for key, state in each.items()} for each in (old, new))
            tables.__dict__["attached"] = _table_renewed(self.attached, gone_hosts, hosts, tables)
        return tables


def _read(state: StageState) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(read.tensor for read in state.computation.reads))


def _hosts(state: StageState) -> tuple[StageId, ...]:
    return () if state.attachment is None else (state.attachment.host,)


def _table_renewed(
    table: Mapping[K, Stages],
    old: Mapping[StageId, tuple[K, ...]],
    new: Mapping[StageId, tuple[K, ...]],
    tables: DefUseIndex,
) -> Mapping[K, Stages]:
    """A table of who mentions what, when some stages mention, or mentioned, something else."""
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
