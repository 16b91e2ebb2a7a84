"""The immutable value of a schedule, and read-only views of it.

A ``ScheduleState`` never changes: primitives and passes create new ones. A ``ScheduleView`` gives access to one, with
an object per stage that leads on to its consumers and its enclosing stage. An ``Edit`` is a view that moves on to other
states; the user's handle is an ``Edit`` with the primitives as methods.
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
from lathe.scheduler.schedule_ir.derating import NO_DERATING, Derating
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.loops import (
    AffineMap,
    AffineSchedule,
    AxisLike,
    LoopAxis,
    created_loops,
    replaced_loops,
)
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState
from lathe.scheduler.schedule_ir.storage import StorageBuffer

K = TypeVar("K")
T = TypeVar("T")

MAPPINGS = ("stages", "layouts", "allocations", "views", "constants")
"""The fields of a ``ScheduleState`` that are mappings."""


def read_only(mapping: Mapping[K, T]) -> MappingProxyType[K, T]:
    """A read-only view of the mapping. It is not copied: the caller must not change it afterwards."""
    return mapping if isinstance(mapping, MappingProxyType) else MappingProxyType(mapping)


def _protect(arrays: Mapping[Tensor, NDArray[Any]]) -> None:
    for each in arrays.values():
        each.setflags(write=False)


@dataclass(frozen=True, eq=False)
class ScheduleState:
    """Order, loops, compute locations and memory scopes of a program's stages.

    All mappings are wrapped read-only, and so are the arrays of ``constants``.
    """

    program: tuple[Tensor, ...]
    """The outputs as the user names them; ``outputs`` has those that replace them when a layout is transformed."""
    outputs: tuple[Tensor, ...]
    stages: Mapping[StageId, StageState]
    """In schedule order."""
    layouts: Mapping[Tensor, TensorLayout] = field(default_factory=lambda: MappingProxyType({}))
    """By the tensor that stands for the transformed one."""
    host_copies: tuple[tuple[str, Tensor], ...] = ()
    """Copies between host CPU and device that the user has declared."""
    allocations: Mapping[StorageBuffer, ComputeAt] = field(default_factory=lambda: MappingProxyType({}))
    """The loop in each iteration of which a buffer is allocated."""
    derating: Derating = NO_DERATING
    """The derated machine for which ``build`` chooses tiles that the user has left open."""
    has_recurrences: bool = False
    """Whether stages read earlier values of each other in a recurrence, or of themselves."""
    speculatable: frozenset[StageId] = frozenset()
    """Stages that may be loaded before they are stored, in a lowered schedule: ``mark_speculatable_loads``."""
    views: Mapping[Tensor, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    """Placeholders by which passes have replaced others, reshaped."""
    constants: Mapping[Tensor, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))
    """Values of inputs that passes have added."""

    def __post_init__(self) -> None:
        self.__dict__.update((name, read_only(getattr(self, name))) for name in MAPPINGS)
        _protect(self.constants)

    @cached_property
    def def_use(self) -> DefUseIndex:
        """Producers, consumers and attached stages; updated incrementally from the state before if that is cheaper."""
        before: DefUseIndex | None = self.__dict__.pop("_tables_before", None)
        return DefUseIndex(self.stages) if before is None or len(self.stages) < MANY else before.then(self.stages)

    def is_same_state(self, other: "ScheduleState") -> bool:
        """Whether this equals ``other`` by identity, except for the mapping of the stages, which may be a copy."""
        rest = (each.name for each in fields(self) if each.name != "stages")
        return all(getattr(self, name) is getattr(other, name) for name in rest) and (
            [*self.stages] == [*other.stages]
            and all(one is two for one, two in zip(self.stages.values(), other.stages.values(), strict=True))
        )

    def replace(self, **changes: object) -> "ScheduleState":
        """The schedule with other values of some fields.

        ``dataclasses.replace`` would read every field and rebuild the def-use index, which is slow for every primitive.
        """
        new = object.__new__(ScheduleState)
        new.__dict__.update(self.__dict__, **changes)
        for name in changes:
            if name in MAPPINGS:
                new.__dict__[name] = read_only(new.__dict__[name])
        if "stages" in changes and "def_use" in self.__dict__:
            new.__dict__["_tables_before"] = new.__dict__.pop("def_use")
        if "constants" in changes:
            _protect(new.constants)
        return new

    def with_stages(
        self, stages: Mapping[StageId, StageState], changed: Mapping[StageId, StageState]
    ) -> "ScheduleState":
        """The schedule after some stages have ``changed`` state; stages and their order are the same."""
        new = object.__new__(ScheduleState)
        new.__dict__.update(self.__dict__, stages=read_only(stages))
        if "def_use" in self.__dict__:
            new.__dict__["def_use"] = self.def_use.with_changes(new.stages, changed)
        return new


class StageView:
    """One stage of a schedule as it is now; ``state`` has its loops, compute location, tags and memory.

    The schedule keeps ``state`` up to date, since a primitive reads it hundreds of times. Nothing else may set it.
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
        raise AttributeError(
            f"{name} of stage {self.name} cannot be set. Use schedule primitives, which change stages."
        )

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
        """The computation with its present reads and writes (caches redirect reads)."""
        return self.state.computation

    @property
    def tensor(self) -> Tensor:
        """The tensor that the stage computes; the first of several."""
        return self.state.tensor

    @property
    def enclosing(self) -> "StageView | None":
        """The enclosing stage, in one of whose loops this one is computed; None at the root."""
        place = self.state.attachment
        return None if place is None else self._schedule.at(place)

    def find(self, axis: AxisLike, command: str) -> LoopAxis:
        """The present loop that ``axis`` names.

        Raises ScheduleError for an axis of another stage, or one that has been split or fused away.
        """
        found = self._candidates(axis)
        present = [each for each in found if each in self.state.leaves]
        if len(present) == 1:
            return present[0]
        loops = ", ".join(leaf.name for leaf in self.state.leaves)
        must = f"axis of {command} on stage {self.name} must be one of its present loops ({loops}), not"
        if present:
            raise ScheduleError(
                f"{must} {axis!r}, which names {len(present)} of them. Pass the axis itself.", kind="argument"
            )
        if found:
            derived = [each for each in self.state.relations if found[0] in replaced_loops(each)]
            earlier = "split or fuse"
            if derived and isinstance(derived[0], AffineMap | AffineSchedule):
                earlier = derived[0].command if isinstance(derived[0], AffineMap) else "set_schedule"
            raise ScheduleError(
                f"{must} {found[0].name!r}, which an earlier {earlier} has replaced. Use the loops that {earlier} "
                "returned.",
                kind="argument",
            )
        name = repr(axis if isinstance(axis, str) else getattr(axis, "name", axis))
        if not isinstance(axis, str) and hasattr(axis, "name"):
            name += " of another stage"
        raise ScheduleError(
            f"{must} {name}. Take it from s[{self.name}].axis, .reduce_axis or the result of a primitive on this "
            "stage.",
            kind="argument",
        )

    def _candidates(self, axis: AxisLike) -> list[LoopAxis]:
        """The loops, present or replaced, that an axis or a name may refer to."""
        known: dict[LoopAxis, None] = dict.fromkeys((*self.state.roots, *self.state.leaves))
        for relation in self.state.relations:
            known.update(dict.fromkeys((*replaced_loops(relation), *created_loops(relation))))
        if isinstance(axis, str):
            return [each for each in known if each.name == axis]
        return [each for each in known if each is axis or (each.source is not None and each.source is axis)]

    def __repr__(self) -> str:
        return f"Stage({self.name})"


class ScheduleView:
    """A read-only schedule: ``s[C]`` is the stage that computes tensor ``C``."""

    def __init__(self, state: ScheduleState) -> None:
        self._state = state
        self._views: dict[StageId, Any] = {}  # of the class of stages that ``_view`` creates
        self._stages: tuple[StageView, ...] = ()  # built on first use
        self.derived: dict[str, Any] = {}  # results cached for the present state: ``place_stages``

    @property
    def state(self) -> ScheduleState:
        """The state that is viewed."""
        return self._state

    @property
    def program(self) -> tuple[Tensor, ...]:
        """The outputs as the user names them."""
        return self._state.program

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs in their present layouts."""
        return self._state.outputs

    @property
    def layouts(self) -> Mapping[Tensor, TensorLayout]:
        """Transformed layouts, by the tensors that stand for the transformed ones."""
        return self._state.layouts

    @property
    def allocations(self) -> Mapping[StorageBuffer, ComputeAt]:
        """The loop in each iteration of which a buffer is allocated."""
        return self._state.allocations

    @property
    def host_copies(self) -> tuple[tuple[str, Tensor], ...]:
        """Copies between host CPU and device that the user has declared."""
        return self._state.host_copies

    @property
    def has_recurrences(self) -> bool:
        """Whether stages read earlier values of each other in a recurrence, or of themselves."""
        return self._state.has_recurrences

    @property
    def speculatable(self) -> frozenset[StageId]:
        """Stages that may be loaded before they are stored."""
        return self._state.speculatable

    @property
    def stages(self) -> tuple[StageView, ...]:
        """The stages in schedule order."""
        if not self._stages:
            self._stages = tuple(map(self.by_id, self._state.stages))
        return self._stages

    def by_id(self, key: StageId) -> StageView:
        """The stage of this identity, always as the same object."""
        found: StageView | None = self._views.get(key)
        if found is None:
            found = self._views[key] = self._view(key, self._state.stages[key])
        return found

    def _view(self, key: StageId, state: StageState) -> StageView:
        return StageView(self, key, state)

    def at(self, place: ComputeAt) -> StageView:
        """The stage in whose loop a compute location is."""
        return self.by_id(place.enclosing)

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
                f"stage of the schedule must be selected by its tensor, as in s[C], not by {tensor!r}. Its stages are "
                f"{names}.",
                kind="argument",
            )
        raise ScheduleError(
            f"stage of the schedule must be one of {names}, not {tensor.name!r}. Inputs have no stage: use "
            "s.cache_read to place a copy of one.",
            kind="argument",
        )

    @overload
    def current(self, tensor: Tensor) -> Tensor: ...

    @overload
    def current(self, tensor: T) -> T | Tensor: ...

    def current(self, tensor: object) -> object:
        """The tensor that stands for the given one (or its computation) after layout transformations."""
        for present, layout in self.layouts.items():
            if tensor is not None and any(tensor is each or tensor is each.computation for each in layout.predecessors):
                return present
        return tensor

    def layout(self, tensor: Tensor) -> TensorLayout:
        """The physical layout of a tensor: row-major, unless ``transform_layout`` has changed it."""
        present = self.current(tensor)
        if not isinstance(present, Tensor) or (self.producer(present) is None and not self.consumers(present)):
            name = getattr(tensor, "name", tensor)
            raise ScheduleError(
                f"tensor of layout must be one that the program reads or computes, not {name!r}.", kind="argument"
            )
        return self.layouts.get(present, TensorLayout(present))

    def consumers(self, tensor: Tensor) -> Sequence[StageView]:
        """The consumers of the tensor, in schedule order."""
        return self._present(self._state.def_use.consumers.get(tensor, ()))

    def producer(self, tensor: Tensor) -> StageView | None:
        """The producer of the tensor; None for an input."""
        key = self._state.def_use.producers.get(tensor)
        return None if key is None else self.by_id(key)

    def scope_of(self, tensor: Tensor) -> str:
        """The memory scope of the tensor."""
        producer = self.producer(tensor)
        return DRAM if producer is None else producer.state.scope

    def attached(self, stage: StageView) -> Sequence[StageView]:
        """The stages that are computed in a loop of ``stage``, in schedule order."""
        return self._present(self._state.def_use.attached.get(stage.id, ()))

    def _present(self, keys: Stages) -> Sequence[StageView]:
        """The stages of these identities, without those outside the view."""
        return [self.by_id(key) for key in keys]

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.name for stage in self.stages)})"


class SubSchedule(ScheduleView):
    """A schedule restricted to some of its stages; their views are those of the whole schedule."""

    def __init__(self, whole: ScheduleView, stages: Sequence[StageView]) -> None:
        super().__init__(whole.state)
        self._whole = whole
        self._stages = tuple(stages)
        self._ids = {stage.id for stage in stages}

    @property
    def stages(self) -> tuple[StageView, ...]:
        """These stages, in schedule order."""
        return self._stages

    def producer(self, tensor: Tensor) -> StageView | None:
        """The producer of the tensor; None if it is outside the subschedule."""
        producer = super().producer(tensor)
        return producer if producer is not None and producer.id in self._ids else None

    def by_id(self, key: StageId) -> StageView:
        """The view of this stage in the whole schedule."""
        return self._whole.by_id(key)

    def _present(self, keys: Stages) -> Sequence[StageView]:
        """The stages of these identities that belong to the subschedule."""
        return [self.by_id(key) for key in keys if key in self._ids]
