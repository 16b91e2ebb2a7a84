"""The value that a schedule is, and how one looks at it.

A ``ScheduleState`` never changes: a command or a pass makes another one. Whoever asks about one does so through a
``ScheduleView``, in which each stage is an object that leads on to its readers and its host. An ``Edit`` is a view that
goes on to other states, and the handle of the user is an edit with commands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar, overload

from numpy.typing import NDArray

from lathe.frontend import Computation, Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.def_use import MANY, DefUseIndex, Stages
from lathe.scheduler.schedule_ir.derating import ALL_THERE_IS, Derating
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.loops import AffineMap, AffineSchedule, AxisLike, LoopAxis, made_by, replaced_by
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState
from lathe.scheduler.schedule_ir.storage import StorageBuffer

K = TypeVar("K")
T = TypeVar("T")

MAPPINGS = ("stages", "layouts", "allocations", "views", "constants")
"""The fields of a ``ScheduleState`` that are mappings."""


def read_only(mapping: Mapping[K, T]) -> MappingProxyType[K, T]:
    """The mapping, not to be written to. It is not copied: who made it lets go of it."""
    return mapping if isinstance(mapping, MappingProxyType) else MappingProxyType(mapping)


def _protect(arrays: Mapping[Tensor, NDArray[Any]]) -> None:
    for each in arrays.values():
        each.setflags(write=False)


@dataclass(frozen=True, eq=False)
class ScheduleState:
    """In which order, nesting and memory the stages of a program are computed.

    All its mappings are read-only, however they were given, and so are the arrays of ``constants``.
    """

    program: tuple[Tensor, ...]
    """The outputs as the user names them; a transformed layout puts others into ``outputs``."""
    outputs: tuple[Tensor, ...]
    stages: Mapping[StageId, StageState]
    """In their order."""
    layouts: Mapping[Tensor, TensorLayout] = field(default_factory=lambda: MappingProxyType({}))
    """By the tensor that stands for one of another layout."""
    host_copies: tuple[tuple[str, Tensor], ...] = ()
    """Steps at the program's edge that the user speaks of."""
    allocations: Mapping[StorageBuffer, ComputeAt] = field(default_factory=lambda: MappingProxyType({}))
    """Buffers that live within one iteration of a loop."""
    derating: Derating = ALL_THERE_IS
    """What the machine has less of for which tiles are chosen that are left open."""
    has_recurrences: bool = False
    """Whether stages need each other's earlier values, or their own."""
    speculatable: frozenset[StageId] = frozenset()
    """Stages that may be loaded before they are stored, where completed for a machine: ``mark_speculatable_loads``."""
    views: Mapping[Tensor, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    """Placeholders that passes have put in the place of another one, reshaped."""
    constants: Mapping[Tensor, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))
    """Values of inputs that passes have added."""

    def __post_init__(self) -> None:
        self.__dict__.update((name, read_only(getattr(self, name))) for name in MAPPINGS)
        _protect(self.constants)

    @cached_property
    def tables(self) -> DefUseIndex:
        """Makers, readers and guests of the stages; what is as it was in a state before is taken from there."""
        before: DefUseIndex | None = self.__dict__.pop("_tables_before", None)
        return DefUseIndex(self.stages) if before is None or len(self.stages) < MANY else before.then(self.stages)

    def is_same_state(self, other: "ScheduleState") -> bool:
        """Whether this is ``other`` but for the mapping of the stages, which passes that change none make anew."""
        rest = (each.name for each in fields(self) if each.name != "stages")
        return all(getattr(self, name) is getattr(other, name) for name in rest) and (
            [*self.stages] == [*other.stages]
            and all(one is two for one, two in zip(self.stages.values(), other.stages.values(), strict=True))
        )

    def replace(self, **changes: object) -> "ScheduleState":
        """The schedule with other values of some fields.

        ``dataclasses.replace`` would ask for every field and find the tables again, and every command makes states.
        """
        new = object.__new__(ScheduleState)
        new.__dict__.update(self.__dict__, **changes)
        for name in changes:
            if name in MAPPINGS:
                new.__dict__[name] = read_only(new.__dict__[name])
        if "stages" in changes and "tables" in self.__dict__:
            new.__dict__["_tables_before"] = new.__dict__.pop("tables")
        if "constants" in changes:
            _protect(new.constants)
        return new

    def with_stages(
        self, stages: Mapping[StageId, StageState], changed: Mapping[StageId, StageState]
    ) -> "ScheduleState":
        """The schedule with other states of the same stages in the same order, of which some have ``changed``."""
        new = object.__new__(ScheduleState)
        new.__dict__.update(self.__dict__, stages=read_only(stages))
        if "tables" in self.__dict__:
            new.__dict__["tables"] = self.tables.with_changes(new.stages, changed)
        return new


class StageView:
    """One stage of a schedule as it is now; ``state``: its loops, place, tags and memory.

    The schedule keeps ``state`` up to date, since a command asks for it hundreds of times. Nobody else may set it.
    """

    __slots__ = ("_schedule", "id", "state")

    _schedule: "ScheduleView"
    id: StageId
    state: StageState

    def __init__(self, schedule: "ScheduleView", key: StageId, state: StageState) -> None:
        object.__setattr__(self, "_schedule", schedule)
        object.__setattr__(self, "id", key)
        object.__setattr__(self, "state", state)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} of stage {self.name} cannot be set. Commands change stages.")

    @property
    def schedule(self) -> "ScheduleView":
        """The schedule that this is a stage of."""
        return self._schedule

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self.state.computation.name

    @property
    def op(self) -> Computation:
        """The computation, as it reads and writes now (caches redirect reads)."""
        return self.state.computation

    @property
    def tensor(self) -> Tensor:
        """What the stage computes; the first of several tensors."""
        return self.state.tensor

    @property
    def host(self) -> "StageView | None":
        """The stage in one of whose loops this one is computed, if it is."""
        place = self.state.attachment
        return None if place is None else self._schedule.at(place)

    def find(self, axis: AxisLike, command: str) -> LoopAxis:
        """The present loop that ``axis`` names.

        Raises ScheduleError if it is an axis of another stage, or has been split or fused away.
        """
        found = self._candidates(axis)
        present = [each for each in found if each in self.state.leaves]
        if len(present) == 1:
            return present[0]
        loops = ", ".join(leaf.name for leaf in self.state.leaves)
        wanted = f"axis of {command} on stage {self.name} must be one of its present loops ({loops}), not"
        if present:
            raise ScheduleError(
                f"{wanted} {axis!r}, which names {len(present)} of them. Pass the axis itself.", kind="argument"
            )
        if found:
            made = [each for each in self.state.relations if found[0] in replaced_by(each)]
            earlier = "split or fuse"
            if made and isinstance(made[0], AffineMap | AffineSchedule):
                earlier = made[0].command if isinstance(made[0], AffineMap) else "set_schedule"
            raise ScheduleError(
                f"{wanted} {found[0].name!r}, which an earlier {earlier} has replaced. Use the axes that the command "
                "returned.",
                kind="argument",
            )
        name = repr(axis if isinstance(axis, str) else getattr(axis, "name", axis))
        if not isinstance(axis, str) and hasattr(axis, "name"):
            name += " of another stage"
        raise ScheduleError(
            f"{wanted} {name}. Take it from s[{self.name}].axis, .reduce_axis or from what a command on this stage "
            "returned.",
            kind="argument",
        )

    def _candidates(self, axis: AxisLike) -> list[LoopAxis]:
        """The loops, present or replaced, that an axis or a name may mean."""
        known: dict[LoopAxis, None] = dict.fromkeys((*self.state.roots, *self.state.leaves))
        for relation in self.state.relations:
            known.update(dict.fromkeys((*replaced_by(relation), *made_by(relation))))
        if isinstance(axis, str):
            return [each for each in known if each.name == axis]
        return [each for each in known if each is axis or (each.source is not None and each.source is axis)]

    def __repr__(self) -> str:
        return f"Stage({self.name})"


class ScheduleView:
    """A schedule to look at: ``s[C]`` is the stage that computes tensor ``C``."""

    def __init__(self, state: ScheduleState) -> None:
        self._state = state
        self._views: dict[StageId, Any] = {}  # which kind of stages, its class says
        self._stages: tuple[StageView, ...] = ()  # where they have been asked for
        self.derived: dict[str, Any] = {}  # what has been found of the present state, and of which: ``place_stages``

    @property
    def state(self) -> ScheduleState:
        """The value that is looked at."""
        return self._state

    @property
    def program(self) -> tuple[Tensor, ...]:
        """The outputs as the user names them."""
        return self._state.program

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs in the layouts that they have now."""
        return self._state.outputs

    @property
    def layouts(self) -> Mapping[Tensor, TensorLayout]:
        """Transformed layouts, by the tensors that they have made."""
        return self._state.layouts

    @property
    def allocations(self) -> Mapping[StorageBuffer, ComputeAt]:
        """Buffers that live within one iteration of a loop."""
        return self._state.allocations

    @property
    def host_copies(self) -> tuple[tuple[str, Tensor], ...]:
        """Steps at the program's edge."""
        return self._state.host_copies

    @property
    def has_recurrences(self) -> bool:
        """Whether stages need each other's earlier values, or their own."""
        return self._state.has_recurrences

    @property
    def speculatable(self) -> frozenset[StageId]:
        """Stages that may be loaded before they are stored."""
        return self._state.speculatable

    @property
    def stages(self) -> tuple[StageView, ...]:
        """The stages in order."""
        if not self._stages:
            self._stages = tuple(map(self.by_id, self._state.stages))
        return self._stages

    def by_id(self, key: StageId) -> StageView:
        """The stage that has this identity, always as the same object."""
        found: StageView | None = self._views.get(key)
        if found is None:
            found = self._views[key] = self._view(key, self._state.stages[key])
        return found

    def _view(self, key: StageId, state: StageState) -> StageView:
        return StageView(self, key, state)

    def at(self, place: ComputeAt) -> StageView:
        """The stage in whose loop a place is."""
        return self.by_id(place.host)

    def __getitem__(self, tensor: "Tensor | Computation | StageView") -> StageView:
        """The stage of a tensor or computation. Raises ScheduleError if the schedule has none."""
        tensor = self.current(tensor)
        for stage in self.stages:
            state = stage.state
            if stage is tensor or tensor in state.tensors or state.computation is tensor:
                return stage
        for stage in self.stages:
            if isinstance(tensor, Computation) and any(each.computation is tensor for each in stage.state.tensors):
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        if not isinstance(tensor, Tensor | Computation | StageView):
            raise ScheduleError(
                f"stage of the schedule must be asked for by its tensor, as in s[C], not by {tensor!r}. Its stages are "
                f"{names}.",
                kind="argument",
            )
        raise ScheduleError(
            f"stage of the schedule must be one of {names}, not {tensor.name!r}. Inputs have no stage: cache them with "
            "s.cache_read to place them.",
            kind="argument",
        )

    @overload
    def current(self, tensor: Tensor) -> Tensor: ...

    @overload
    def current(self, tensor: T) -> T | Tensor: ...

    def current(self, tensor: object) -> object:
        """The tensor that stands for the given one (or its computation) since its layout has been transformed."""
        for seen, layout in self.layouts.items():
            if tensor is not None and any(tensor is each or tensor is each.computation for each in layout.earlier):
                return seen
        return tensor

    def layout(self, tensor: Tensor) -> TensorLayout:
        """How the elements of a tensor are laid out: row-major, unless ``transform_layout`` says otherwise."""
        seen = self.current(tensor)
        if not isinstance(seen, Tensor) or (self.maker(seen) is None and not self.readers(seen)):
            name = getattr(tensor, "name", tensor)
            raise ScheduleError(
                f"tensor of layout must be one that the program reads or computes, not {name!r}.", kind="argument"
            )
        return self.layouts.get(seen, TensorLayout(seen))

    def readers(self, tensor: Tensor) -> Sequence[StageView]:
        """The stages that read the tensor, in order."""
        return self._present(self._state.tables.readers.get(tensor, ()))

    def maker(self, tensor: Tensor) -> StageView | None:
        """The stage that computes the tensor; None for an input."""
        key = self._state.tables.makers.get(tensor)
        return None if key is None else self.by_id(key)

    def scope_of(self, tensor: Tensor) -> str:
        """The memory in which the tensor is."""
        maker = self.maker(tensor)
        return DRAM if maker is None else maker.state.scope

    def attached(self, stage: StageView) -> Sequence[StageView]:
        """The stages that are computed in a loop of ``stage``, in order."""
        return self._present(self._state.tables.attached.get(stage.id, ()))

    def _present(self, keys: Stages) -> Sequence[StageView]:
        """The stages that have these identities, as far as they belong to what is looked at."""
        return [self.by_id(key) for key in keys]

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.name for stage in self.stages)})"


class SubSchedule(ScheduleView):
    """Some stages of a schedule, as if there were no others; each is the stage that it is in the whole."""

    def __init__(self, whole: ScheduleView, stages: Sequence[StageView]) -> None:
        super().__init__(whole.state)
        self._whole = whole
        self._stages = tuple(stages)
        self._ids = {stage.id for stage in stages}

    @property
    def stages(self) -> tuple[StageView, ...]:
        """These stages, in order."""
        return self._stages

    def maker(self, tensor: Tensor) -> StageView | None:
        """The stage that computes the tensor; None for what comes from outside the part."""
        maker = super().maker(tensor)
        return maker if maker is not None and maker.id in self._ids else None

    def by_id(self, key: StageId) -> StageView:
        """The stage of the whole that has this identity."""
        return self._whole.by_id(key)

    def _present(self, keys: Stages) -> Sequence[StageView]:
        """These of the stages that belong to the part."""
        return [self.by_id(key) for key in keys if key in self._ids]
