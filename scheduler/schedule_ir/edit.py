"""Mutable views of a schedule, which move from one immutable state to the next."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Self, TypeVar, cast

from lathe.frontend import Computation, Tensor
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState, ScheduleView, StageView, read_only
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState

S = TypeVar("S", bound=StageView)


class EditedStage(StageView):
    """One stage of a mutable schedule."""

    __slots__ = ()

    _schedule: "Edit"

    @property
    def schedule(self) -> "Edit":
        """The mutable schedule that this is a stage of."""
        return self._schedule

    @property
    def enclosing(self) -> "EditedStage | None":
        """The enclosing stage, in one of whose loops this one is computed; None at the root."""
        return cast("EditedStage | None", super().enclosing)

    def put(self, state: StageState) -> None:
        """Replace the state of the stage."""
        self.schedule.put({self: state})

    def change(self, **changes: Any) -> None:
        """Replace some fields of its state."""
        self.put(replace(self.state, **changes))


class Transaction:
    """The context manager of ``Edit.transaction``; a generator would cost as much as a cheap primitive."""

    __slots__ = ("_before", "_edit")

    def __init__(self, edit: "Edit") -> None:
        self._edit, self._before = edit, edit.state

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._edit.reset_to(self._before)


class Edit(ScheduleView):
    """A schedule that can be changed. Its earlier states stay valid, since states are immutable."""

    replaying = False
    """Whether primitives are being replayed with numbers for parameters: see ``schedule_trace``."""

    _stages: "tuple[EditedStage, ...]"

    def _view(self, key: StageId, state: StageState) -> StageView:
        return EditedStage(self, key, state)

    def by_id(self, key: StageId) -> EditedStage:
        """The stage of this identity, always as the same object."""
        found: EditedStage | None = self._views.get(key)
        return found or cast(EditedStage, super().by_id(key))

    def _see(self, key: StageId, state: StageState) -> None:
        """Set the state that a stage's view shows, whether the stage is in the order or not."""
        view = self._views.get(key)
        if view is None:
            self._views[key] = self._view(key, state)
        else:
            object.__setattr__(view, "state", state)

    def fork(self) -> Self:
        """A copy of the same class that starts from the present state."""
        copy = type(self).__new__(type(self))
        Edit.__init__(copy, self._state)
        return copy

    def own(self, stage: StageView) -> EditedStage:
        """The mutable stage for a view of one of this schedule's stages."""
        return self.by_id(stage.id)

    def reset_to(self, state: ScheduleState) -> None:
        """Switch to another state. The view of a stage that the state lacks keeps its last state."""
        before, after = self._state.stages, state.stages
        if before is not after:
            for key, old in before.items():
                if key not in after:
                    self._see(key, old)
            for key, new in after.items():
                if before.get(key) is not new:
                    self._see(key, new)
            self._stages = ()
        self._state = state

    def update(self, **changes: Any) -> None:
        """Replace some fields of the state."""
        self.reset_to(self._state.replace(**changes))

    def new(self, state: StageState) -> EditedStage:
        """A stage that is not in the order yet."""
        key = StageId(state.computation.name)
        self._see(key, state)
        return cast(EditedStage, self._views[key])

    def put(self, changes: Mapping[S, StageState]) -> None:
        """Replace the states of stages; their order stays."""
        if not changes:
            return
        present = self._state.stages
        for stage, state in changes.items():
            self._see(stage.id, state)
        changed = {stage.id: state for stage, state in changes.items() if stage.id in present}
        self._state = self._state.with_stages(read_only(present) | changed, changed)  # faster than unpacking it

    def reorder_stages(self, stages: Iterable[StageView]) -> None:
        """Make these the stages of the schedule, in this order."""
        self.update(stages={stage.id: stage.state for stage in stages})

    def insert(
        self, stage: StageView | StageState, *, before: StageView | None = None, behind: StageView | None = None
    ) -> EditedStage:
        """Insert a stage, new or moved from another position, directly before or after another one."""
        placed = self.new(stage) if isinstance(stage, StageState) else self.own(stage)
        order: list[StageView] = [each for each in self.stages if each is not placed]
        neighbour = before if before is not None else behind
        assert neighbour is not None, f"no position for {placed.name}"
        order.insert(order.index(neighbour) + (before is None), placed)
        self.reorder_stages(order)
        return placed

    def remove(self, stage: StageView) -> None:
        """Remove a stage."""
        self.reorder_stages([each for each in self.stages if each is not stage])

    def transaction(self) -> "Transaction":
        """A context that restores the present state if an error is raised inside."""
        return Transaction(self)

    @property
    def stages(self) -> tuple[EditedStage, ...]:
        """The stages in schedule order."""
        return self._stages or cast("tuple[EditedStage, ...]", super().stages)

    def __getitem__(self, tensor: Tensor | Computation | StageView) -> EditedStage:
        """The stage of a tensor or computation. Raises ScheduleError if the schedule has none."""
        return cast(EditedStage, super().__getitem__(tensor))

    def consumers(self, tensor: Tensor) -> Sequence[EditedStage]:
        """The consumers of the tensor, in schedule order."""
        return cast("Sequence[EditedStage]", super().consumers(tensor))

    def producer(self, tensor: Tensor) -> EditedStage | None:
        """The producer of the tensor; None for an input."""
        key = self._state.def_use.producers.get(tensor)
        return None if key is None else self.by_id(key)

    def attached(self, stage: StageView) -> Sequence[EditedStage]:
        """The stages that are computed in a loop of ``stage``, in schedule order."""
        return cast("Sequence[EditedStage]", super().attached(stage))

    def at(self, place: ComputeAt) -> EditedStage:
        """The stage in whose loop a compute location is."""
        return self.by_id(place.enclosing)


_NAME = attrgetter("computation.name")


def fresh_name(schedule: ScheduleView, wanted: str, others: Collection[str] = ()) -> str:
    """``wanted``, with a number appended if a stage, an input or one of ``others`` has that name."""
    state = schedule.state
    taken = {*others, *map(_NAME, state.stages.values())}
    taken |= {tensor.name for tensor in state.def_use.consumers}
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{count}"
    return name
