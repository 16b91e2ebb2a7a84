"""Does every read find its value in its cell? Exact, for buffers whose cells hold several values one after the other.

A value is live from when it is written to when it is last read; the accumulator of a reduction is read by each update.
All writes and reads of a buffer get their times (``event_times.py``) and are put in order, cell by cell: what was last
written before a read must be the value that is read. Of reads in the same iteration of the loops around writer and
reader, the last one tells for all. Values of outputs are read when everything is done, by the host.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.frontend.expressions import AxisRef
from lathe.scheduler.errors import LegalityError, ScheduleError, StorageWitness, Witness
from lathe.scheduler.event_times import LARGEST, Events, Occurrence, TooManyEvents, events, occurrences_of
from lathe.scheduler.linear import LoopVariable
from lathe.scheduler.nest import build_nest
from lathe.scheduler.partition import partition
from lathe.scheduler.storage import Allocated, Storage, storages_of

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage

Ints = NDArray[np.int64]


@dataclass(eq=False)
class _Batch:
    """Events of one chunk, or those of the host, which are of no chunk."""

    stage: "Stage"  # whose values these are
    occurrence: Occurrence | None
    found: Events


def check_storage(schedule: "Schedule", command: str, changed: "set[Stage] | None" = None) -> None:
    """Raises LegalityError, with a witness, if a value would be gone from its cell when it is read.

    Only buffers that ``changed`` stages may concern are looked at; all, if that is None. Raises ScheduleError where
    there are too many events to look at.
    """
    buffers = [each for each in storages_of(schedule.stages).values() if _needs_check(schedule, each, changed)]
    if not buffers:
        return
    occurrences, end = occurrences_of(partition(build_nest(schedule, largest_blocks=True)))
    for allocated in buffers:
        try:
            _Timeline(schedule, allocated, occurrences, end).check(command)
        except TooManyEvents:
            raise ScheduleError(
                f"storage of {_named(allocated)} must be one that can be checked with {LARGEST} reads and writes of "
                f"it, not with more ({command}). Let its stages compute less, or give each value a cell of its own."
            ) from None


def _needs_check(schedule: "Schedule", allocated: Allocated, changed: "set[Stage] | None") -> bool:
    stages = allocated.users
    shared = len(stages) > 1 or allocated.buffer in schedule.allocations
    if not shared and not _storage(stages[0]).folds(allocated.shape):
        return False
    return changed is None or bool(_concerned(schedule, allocated) & changed)


def _concerned(schedule: "Schedule", allocated: Allocated) -> "set[Stage]":
    """The stages whose place and loops decide when a buffer's values are written and read."""
    found: set[Stage] = set()
    waiting = list(allocated.users)
    for stage in allocated.users:
        waiting += [reader for tensor in stage.state.tensors for reader in schedule.readers(tensor)]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            if current.state.attachment is not None:
                waiting.append(current.state.attachment.stage)
                # what it computes there follows from what its readers need
                waiting += [reader for tensor in current.state.tensors for reader in schedule.readers(tensor)]
    return found


class _Timeline:
    """All writes and reads of one buffer."""

    def __init__(self, schedule: "Schedule", allocated: Allocated, occurrences: list[Occurrence], end: int) -> None:
        self.schedule = schedule
        self.allocated = allocated
        self.occurrences = occurrences
        self.end = end
        self.variable = self._allocation()
        self.first_value: dict[Stage, int] = {}
        count = 0
        for stage in allocated.users:
            self.first_value[stage] = count
            count += _storage(stage).values
        self.cell_of = np.concatenate([_storage(stage).cells(allocated.shape) for stage in allocated.users])

    def _allocation(self) -> LoopVariable | None:
        """The loop in whose iterations the buffer lives, if it is allocated in one."""
        place = self.schedule.allocations.get(self.allocated.buffer)
        if place is None:
            return None
        placement = next(each.chunk.placement for each in self.occurrences if each.chunk.placement.stage is place.stage)
        return placement.loops.of_leaf[place.axis][-1]

    def check(self, command: str) -> None:
        writes = list(self._writes())
        reads = list(self._reads())
        batches = [*writes, *reads]
        times = np.concatenate([2 * each.found.times + (each in writes) for each in batches])
        values = np.concatenate([each.found.values + self.first_value[each.stage] for each in batches])
        iterations = np.concatenate([each.found.iterations for each in batches])
        written = np.zeros(len(times), np.bool_)
        written[: sum(len(each.found.times) for each in writes)] = True
        cells = self.cell_of[values]
        order = _in_order(cells, times, 2 * self.end + 2)
        latest = np.maximum.accumulate(np.where(written[order], np.arange(len(order)), -1))
        source = np.where(latest >= 0, order[np.maximum(latest, 0)], -1)
        wanted = ~written[order] & (source >= 0) & (cells[source] == cells[order])
        wrong = wanted & (values[source] != values[order])
        if self.variable is not None:
            wrong |= wanted & ((iterations[source] != iterations[order]) | (iterations[order] < 0))
        if not wrong.any():
            return
        bad = np.flatnonzero(wrong)
        chosen = bad[np.argmin(times[order[bad]])]
        self._refuse(batches, int(order[chosen]), int(source[chosen]), values, times, command)

    def _writes(self) -> Iterator[_Batch]:
        for stage in self.allocated.users:
            for each in self._chunks(stage):
                if each.chunk.role == "update":
                    continue
                indices = [AxisRef(axis) for axis in stage.state.computation.axes]
                yield _Batch(stage, each, self._events(each, stage.tensor, indices, len(each.around)))

    def _reads(self) -> Iterator[_Batch]:
        for stage in self.allocated.users:
            starts = [each for each in self._chunks(stage) if each.chunk.role != "update"]
            for each in self._chunks(stage):
                if each.chunk.role == "update":
                    indices = [AxisRef(axis) for axis in stage.state.computation.axes]
                    yield _Batch(stage, each, self._events(each, stage.tensor, indices, _beside(each, starts)))
            for reader in self.schedule.readers(stage.tensor):
                for each in self._chunks(reader):
                    if each.chunk.role == "init":
                        continue
                    for access in reader.state.computation.reads:
                        if access.tensor is stage.tensor:
                            kept = _beside(each, starts)
                            found = self._events(each, stage.tensor, access.indices, kept, access.guards)
                            yield _Batch(stage, each, found)
            if stage.tensor in self.schedule.outputs:
                count = _storage(stage).values
                numbers: Ints = np.arange(count, dtype=np.int64)
                yield _Batch(stage, None, Events(np.full(count, self.end), numbers, np.full(count, -1)))

    def _chunks(self, stage: "Stage") -> list[Occurrence]:
        return [each for each in self.occurrences if each.chunk.placement.stage is stage]

    def _events(
        self, occurrence: Occurrence, tensor: Tensor, indices: object, kept: int, guards: object = ()
    ) -> Events:
        depth = None if self.variable is None else occurrence.depth_of(self.variable)
        return events(occurrence, indices, tensor.shape, guards, kept, depth)  # type: ignore[arg-type]

    def _refuse(self, batches: list[_Batch], read: int, write: int, values: Ints, times: Ints, command: str) -> None:
        reading, writing = _batch_of(batches, read), _batch_of(batches, write)
        stage, other = reading.stage, writing.stage
        storage = _storage(stage)
        producer = self._instance(stage, int(values[read]))
        consumer: dict[str, int] = {}
        reader = ""
        if reading.occurrence is not None:
            reader = reading.occurrence.chunk.placement.stage.name
            point = reading.occurrence.instance_at(int(times[read]) // 2)
            computation = reading.occurrence.chunk.placement.state.computation
            consumer = {axis.name: point[axis] for axis in (*computation.axes, *computation.reduce_axes)}
        cell = _unravel(int(self.cell_of[values[read]]), self.allocated.shape)
        name = self.allocated.buffer.name
        if values[read] == values[write]:
            place = self.schedule.allocations[self.allocated.buffer]
            witness: Witness = Witness(name, cell, stage.name, producer, reader, consumer)
            who = reader if reader else "the host"
            raise LegalityError(
                f"values in buffer {name} must live within one iteration of loop {place.axis.name} of "
                f"{place.stage.name}, for each of which it is allocated anew ({command}), not be read by {who} in "
                f"another: {witness if reader else 'they are outputs'}. Allocate it at a loop outside.",
                witness,
            )
        overwriter = self._instance(other, int(values[write]))
        witness = StorageWitness(name, cell, stage.name, producer, reader, consumer, other.name, overwriter)
        what = f"store_in of {stage.name} as {storage}"
        if other is not stage:
            what = f"buffer {name}, shared by {stage.name} and {other.name},"
        raise LegalityError(
            f"{what} must keep each value until it is last read, not let another take its cell before ({command}): "
            f"{witness}. Give the buffer more cells, or let values be read sooner after they are made.",
            witness,
        )

    def _instance(self, stage: "Stage", value: int) -> dict[str, int]:
        index = _unravel(value - self.first_value[stage], stage.tensor.shape)
        return {axis.name: n for axis, n in zip(stage.state.computation.axes, index, strict=True)}


def _beside(occurrence: Occurrence, writers: list[Occurrence]) -> int:
    """How many loops are around a chunk and one that writes what it reads, at most."""
    return max((occurrence.shared(writer) for writer in writers), default=0)


def _storage(stage: "Stage") -> Storage:
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} has no cells of its own"
    return storage


def _named(allocated: Allocated) -> str:
    return " and ".join(stage.name for stage in allocated.users)


def _in_order(cells: Ints, times: Ints, end: int) -> Ints:
    """Events cell by cell, in each by time."""
    most = int(cells.max(initial=0)) + 1
    if most * end < 1 << 62:
        return np.argsort(cells * end + times, kind="stable")
    return np.lexsort((times, cells))


def _batch_of(batches: list[_Batch], event: int) -> _Batch:
    for batch in batches:
        if event < len(batch.found.times):
            return batch
        event -= len(batch.found.times)
    raise AssertionError("an event of no chunk")


def _unravel(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        index.insert(0, number % extent)
        number //= extent
    assert not number, f"no cell of {shape}"
    return tuple(index)
