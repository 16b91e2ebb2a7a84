"""A schedule that is being changed: a view that goes on from one state to the next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar, cast

from lathe.frontend import Computation, Tensor
from lathe.scheduler.schedule_ir.schedule import ScheduleState, ScheduleView, StageView, read_only
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageId, StageState

S = TypeVar("S", bound=StageView)


class EditedStage(StageView):
    """One stage of a schedule that is being changed."""

    __slots__ = ()

    _schedule: "Edit"

    @property
    def schedule(self) -> "Edit":
        """The edit that this is a stage of."""
        return self._schedule

    @property
    def host(self) -> "EditedStage | None":
        """The stage in one of whose loops this one is computed, if it is."""
        return cast("EditedStage | None", super().host)

    def put(self, state: StageState) -> None:
        """Let the stage be another."""
        self.schedule.put({self: state})

    def change(self, **changes: Any) -> None:
        """Let some fields of its state be others."""
        self.put(replace(self.state, **changes))


class Transaction:
    """What ``Edit.trying`` gives; a class, since a generator costs what a cheap command costs."""

    __slots__ = ("_before", "_edit")

    def __init__(self, edit: "Edit") -> None:
        self._edit, self._before = edit, edit.state

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._edit.reset_to(self._before)


class Edit(ScheduleView):
    """A schedule that is being changed. What it has been before stays as it was: states are values."""

    replaying = False
    """Whether commands are carried out again with numbers for parameters: see ``history``."""

    _stages: "tuple[EditedStage, ...]"

    def _view(self, key: StageId, state: StageState) -> StageView:
        return EditedStage(self, key, state)

    def by_id(self, key: StageId) -> EditedStage:
        """The stage that has this identity, always as the same object."""
        found: EditedStage | None = self._views.get(key)
        return found or cast(EditedStage, super().by_id(key))

    def _see(self, key: StageId, state: StageState) -> None:
        """A stage is from now on in this state, whether it has a place in the order or not."""
        view = self._views.get(key)
        if view is None:
            self._views[key] = self._view(key, state)
        else:
            object.__setattr__(view, "state", state)

    def fork(self) -> Self:
        """Another edit of the same kind that goes on from the present state."""
        twin = type(self).__new__(type(self))
        Edit.__init__(twin, self._state)
        return twin

    def own(self, stage: StageView) -> EditedStage:
        """A stage of this schedule that has been found by looking at it."""
        return self.by_id(stage.id)

    def reset_to(self, state: ScheduleState) -> None:
        """Go on from another state. A stage that is not there any more stays as it was last."""
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
        """Let some fields of the state be others."""
        self.reset_to(self._state.replace(**changes))

    def new(self, state: StageState) -> EditedStage:
        """A stage that has no place in the order yet."""
        key = StageId(state.computation.name)
        self._see(key, state)
        return cast(EditedStage, self._views[key])

    def put(self, changes: Mapping[S, StageState]) -> None:
        """Let stages be others, in the same order."""
        if not changes:
            return
        present = self._state.stages
        for stage, state in changes.items():
            self._see(stage.id, state)
        changed = {stage.id: state for stage, state in changes.items() if stage.id in present}
        self._state = self._state.with_stages(read_only(present) | changed, changed)  # quicker than unpacking it

    def reorder_stages(self, stages: Iterable[StageView]) -> None:
        """Let these be the stages, in this order."""
        self.update(stages={stage.id: stage.state for stage in stages})

    def insert(
        self, stage: StageView | StageState, *, before: StageView | None = None, behind: StageView | None = None
    ) -> EditedStage:
        """Put a stage, new or from another place, in front of one or behind it."""
        placed = self.new(stage) if isinstance(stage, StageState) else self.own(stage)
        order: list[StageView] = [each for each in self.stages if each is not placed]
        beside = before if before is not None else behind
        assert beside is not None, f"no place for {placed.name}"
        order.insert(order.index(beside) + (before is None), placed)
        self.reorder_stages(order)
        return placed

    def remove(self, stage: StageView) -> None:
        """Take a stage out."""
        self.reorder_stages([each for each in self.stages if each is not stage])

    def transaction(self) -> "Transaction":
        """What is done inside is as if it had not been where it raises an error."""
        return Transaction(self)

    @property
    def stages(self) -> tuple[EditedStage, ...]:
        """The stages in order."""
        return self._stages or cast("tuple[EditedStage, ...]", super().stages)

    def __getitem__(self, tensor: Tensor | Computation | StageView) -> EditedStage:
        """The stage of a tensor or computation. Raises ScheduleError if the schedule has none."""
        return cast(EditedStage, super().__getitem__(tensor))

    def readers(self, tensor: Tensor) -> Sequence[EditedStage]:
        """The stages that read the tensor, in order."""
        return cast("Sequence[EditedStage]", super().readers(tensor))

    def maker(self, tensor: Tensor) -> EditedStage | None:
        """The stage that computes the tensor; None for an input."""
        key = self._state.tables.makers.get(tensor)
        return None if key is None else self.by_id(key)

    def attached(self, stage: StageView) -> Sequence[EditedStage]:
        """The stages that are computed in a loop of ``stage``, in order."""
        return cast("Sequence[EditedStage]", super().attached(stage))

    def at(self, place: ComputeAt) -> EditedStage:
        """The stage in whose loop a place is."""
        return self.by_id(place.host)
