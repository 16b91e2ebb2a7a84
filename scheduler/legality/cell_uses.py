"""All writes and reads of one buffer of the user's, chunk by chunk of a partitioned nest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.frontend.accesses import Guard
from lathe.frontend.expressions import AxisRef, Expr
from lathe.scheduler.legality.alike_slices import alike
from lathe.scheduler.legality.events import Events, Use
from lathe.scheduler.nest.times import NO_TAG, Occurrence, Tag
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.storage import Storage
from lathe.scheduler.state.stored import Allocated

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Batch:
    """Events of one chunk, or those of the host, which are of no chunk; ``stage`` is the one whose values these are."""

    stage: StageView
    occurrence: Occurrence | None
    found: Events


class Accesses:
    """The writes and reads of a buffer. ``tag`` says what else is asked for about the loops around a chunk.

    Values have numbers: those of each stage from ``first_value`` on; ``cell_of`` are the numbers of their cells.
    ``fixed`` are the dimensions of its values along which one slice tells for all (only where ``slices`` will do).
    """

    def __init__(
        self,
        schedule: ScheduleView,
        allocated: Allocated,
        occurrences: Sequence[Occurrence],
        end: int,
        tag: Callable[[Occurrence], Tag] = lambda _: NO_TAG,
        *,
        slices: bool = False,
    ) -> None:
        self.schedule = schedule
        self.allocated = allocated
        self.occurrences = occurrences
        self.end = end
        self.tag = tag
        self.first_value: dict[StageView, int] = {}
        count = 0
        for stage in allocated.users:
            self.first_value[stage] = count
            count += storage_of(stage).values
        self.cell_of = np.concatenate([storage_of(stage).cells(allocated.shape) for stage in allocated.users])
        self._writes = [(stage, use) for stage in allocated.users for use in self._writes_of(stage)]
        self._reads = [(stage, use) for stage in allocated.users for use in self._reads_of(stage)]
        self.fixed: list[int] = []
        if slices and len(allocated.users) == 1:
            writes, reads = [use for _, use in self._writes], [use for _, use in self._reads]
            self.fixed = alike(storage_of(allocated.users[0]), writes, reads)

    def writes(self) -> Iterator[Batch]:
        """Where values begin: a statement without reduction, or the start of one. Raises TooManyEvents."""
        for stage, use in self._writes:
            yield Batch(stage, use.occurrence, use.events(self.fixed))

    def reads(self) -> Iterator[Batch]:
        """Where values are needed: by readers, by updates of a reduction, by the host when everything is done.

        Raises TooManyEvents.
        """
        for stage, use in self._reads:
            yield Batch(stage, use.occurrence, use.events(self.fixed))
        for stage in self.allocated.users:
            if stage.tensor in self.schedule.outputs:
                shape = [1 if dim in self.fixed else extent for dim, extent in enumerate(stage.tensor.shape)]
                numbers: Ints = np.ravel_multi_index(tuple(np.indices(shape)), stage.tensor.shape).reshape(-1)
                yield Batch(stage, None, Events(np.full(len(numbers), self.end), numbers, np.full(len(numbers), -1)))

    def _writes_of(self, stage: StageView) -> Iterator[Use]:
        for each in self._chunks(stage):
            if each.chunk.role != "update":
                yield self._use(each, stage.tensor, _own_index(stage), len(each.around), _own_guards(stage))

    def _reads_of(self, stage: StageView) -> Iterator[Use]:
        starts = [each for each in self._chunks(stage) if each.chunk.role != "update"]
        for each in self._chunks(stage):
            if each.chunk.role == "update":
                yield self._use(each, stage.tensor, _own_index(stage), _beside(each, starts), _own_guards(stage))
        for reader in self.schedule.readers(stage.tensor):
            for each in self._chunks(reader):
                if each.chunk.role == "init":
                    continue
                kept = _beside(each, starts)
                for access in reader.state.computation.reads:
                    if access.tensor is stage.tensor:
                        yield self._use(each, stage.tensor, access.indices, kept, access.guards)

    def _chunks(self, stage: StageView) -> list[Occurrence]:
        return [each for each in self.occurrences if each.chunk.placement.stage is stage]

    def _use(
        self, occurrence: Occurrence, tensor: Tensor, indices: Sequence[Expr], kept: int, guards: Sequence[Guard] = ()
    ) -> Use:
        return Use(occurrence, tuple(indices), tensor.shape, kept, tuple(guards), self.tag(occurrence))


def storage_of(stage: StageView) -> Storage:
    """The storage that the user has given a stage."""
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} has no cells of its own"
    return storage


def _own_index(stage: StageView) -> list[Expr]:
    return [AxisRef(axis) for axis in stage.state.computation.axes]


def _own_guards(stage: StageView) -> list[Guard]:
    """The condition under which a value exists."""
    where = stage.state.computation.where
    return [] if where is None else [(where, True)]


def _beside(occurrence: Occurrence, writers: Sequence[Occurrence]) -> int:
    """How many loops are around a chunk and one that writes what it reads, at most."""
    return max((occurrence.shared(writer) for writer in writers), default=0)
