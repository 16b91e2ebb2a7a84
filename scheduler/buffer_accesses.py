"""All writes and reads of one buffer of the user's, chunk by chunk of a partitioned nest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.frontend.accesses import Guard
from lathe.frontend.expressions import AxisRef, Expr
from lathe.scheduler.event_times import NO_TAG, Events, Occurrence, Tag, events
from lathe.scheduler.storage import Allocated, Storage

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Batch:
    """Events of one chunk, or those of the host, which are of no chunk; ``stage`` is the one whose values these are."""

    stage: "Stage"
    occurrence: Occurrence | None
    found: Events


class Accesses:
    """The writes and reads of a buffer. ``tag`` says what else is asked for about the loops around a chunk.

    Values have numbers: those of each stage from ``first_value`` on; ``cell_of`` are the numbers of their cells.
    Raises TooManyEvents when there are too many.
    """

    def __init__(
        self,
        schedule: "Schedule",
        allocated: Allocated,
        occurrences: Sequence[Occurrence],
        end: int,
        tag: Callable[[Occurrence], Tag] = lambda _: NO_TAG,
    ) -> None:
        self.schedule = schedule
        self.allocated = allocated
        self.occurrences = occurrences
        self.end = end
        self.tag = tag
        self.first_value: dict[Stage, int] = {}
        count = 0
        for stage in allocated.users:
            self.first_value[stage] = count
            count += storage_of(stage).values
        self.cell_of = np.concatenate([storage_of(stage).cells(allocated.shape) for stage in allocated.users])

    def writes(self) -> Iterator[Batch]:
        """Where values begin: a statement without reduction, or the start of one."""
        for stage in self.allocated.users:
            for each in self._chunks(stage):
                if each.chunk.role != "update":
                    yield Batch(stage, each, self._events(each, stage.tensor, _own_index(stage), len(each.around)))

    def reads(self) -> Iterator[Batch]:
        """Where values are needed: by readers, by updates of a reduction, by the host when everything is done."""
        for stage in self.allocated.users:
            starts = [each for each in self._chunks(stage) if each.chunk.role != "update"]
            for each in self._chunks(stage):
                if each.chunk.role == "update":
                    kept = _beside(each, starts)
                    yield Batch(stage, each, self._events(each, stage.tensor, _own_index(stage), kept))
            for reader in self.schedule.readers(stage.tensor):
                for each in self._chunks(reader):
                    if each.chunk.role == "init":
                        continue
                    kept = _beside(each, starts)
                    for access in reader.state.computation.reads:
                        if access.tensor is stage.tensor:
                            found = self._events(each, stage.tensor, access.indices, kept, access.guards)
                            yield Batch(stage, each, found)
            if stage.tensor in self.schedule.outputs:
                count = storage_of(stage).values
                numbers: Ints = np.arange(count, dtype=np.int64)
                yield Batch(stage, None, Events(np.full(count, self.end), numbers, np.full(count, -1)))

    def _chunks(self, stage: "Stage") -> list[Occurrence]:
        return [each for each in self.occurrences if each.chunk.placement.stage is stage]

    def _events(
        self, occurrence: Occurrence, tensor: Tensor, indices: Sequence[Expr], kept: int, guards: Sequence[Guard] = ()
    ) -> Events:
        return events(occurrence, indices, tensor.shape, guards, kept, self.tag(occurrence))


def storage_of(stage: "Stage") -> Storage:
    """The storage that the user has given a stage."""
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} has no cells of its own"
    return storage


def _own_index(stage: "Stage") -> list[Expr]:
    return [AxisRef(axis) for axis in stage.state.computation.axes]


def _beside(occurrence: Occurrence, writers: Sequence[Occurrence]) -> int:
    """How many loops are around a chunk and one that writes what it reads, at most."""
    return max((occurrence.shared(writer) for writer in writers), default=0)
