"""Who makes a tensor, who reads it, and what is computed in whose loops: found once for a state of a schedule."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from lathe.frontend import Tensor
from lathe.scheduler.state.stage import StageId, StageState

Stages = tuple[StageId, ...]


@dataclass(frozen=True, eq=False)
class Tables:
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

    def with_changes(self, stages: Mapping[StageId, StageState], changed: Mapping[StageId, StageState]) -> "Tables":
        """The tables of other states of the same stages in the same order, of which some have ``changed``.

        A table that says the same of these as before is taken over.
        """
        new = Tables(stages)
        pairs = [(self.stages[key], state) for key, state in changed.items()]
        same = {
            "makers": all(one.tensors == other.tensors for one, other in pairs),
            "readers": all(one.computation is other.computation for one, other in pairs),
            "attached": all(_host(one) is _host(other) for one, other in pairs),
        }
        for name, kept in same.items():
            if kept and name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        return new


def _host(state: StageState) -> StageId | None:
    return None if state.attachment is None else state.attachment.host
