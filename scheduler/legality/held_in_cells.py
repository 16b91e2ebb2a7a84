"""Does every read find its value in its cell? Exact, for buffers whose cells hold several values one after the other.

A value is live from when it is written to when it is last read; the accumulator of a reduction is read by each update.
All writes and reads of a buffer get their times (``nest/times.py``) and are put in order, cell by cell: what was last
written before a read must be the value that is read. Of reads in the same iteration of the loops around writer and
reader, the last one tells for all. Values of outputs are read when everything is done, by the host.
"""

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.indices.linear import LoopVariable
from lathe.scheduler.errors import LegalityError, ScheduleError, StorageWitness, Witness
from lathe.scheduler.legality.cell_uses import Accesses, Batch, storage_of
from lathe.scheduler.legality.events import LARGEST, TooManyEvents
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.partition import partition
from lathe.scheduler.nest.times import NO_TAG, Occurrence, Tag, occurrences_of
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.stored import Allocated, storages_of

Ints = NDArray[np.int64]


def check_storage(schedule: ScheduleView, command: str, changed: set[StageView] | None = None) -> None:
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
                f"it, not with more ({command}). Let its stages compute less, or give each value a cell of its own.",
                kind="limit",
            ) from None


def _needs_check(schedule: ScheduleView, allocated: Allocated, changed: set[StageView] | None) -> bool:
    stages = allocated.users
    shared = len(stages) > 1 or allocated.buffer in schedule.allocations
    if not shared and not storage_of(stages[0]).folds(allocated.shape):
        return False
    return changed is None or bool(_concerned(schedule, allocated) & changed)


def _concerned(schedule: ScheduleView, allocated: Allocated) -> set[StageView]:
    """The stages whose place and loops decide when a buffer's values are written and read."""
    found: set[StageView] = set()
    waiting = list(allocated.users)
    for stage in allocated.users:
        waiting += [reader for tensor in stage.state.tensors for reader in schedule.readers(tensor)]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            if current.state.attachment is not None:
                waiting.append(schedule.at(current.state.attachment))
                # what it computes there follows from what its readers need
                waiting += [reader for tensor in current.state.tensors for reader in schedule.readers(tensor)]
    waiting = list(found)  # what is computed inside a stage's loops, or no longer is, orders its statements
    while waiting:
        makers = [schedule.maker(read.tensor) for read in waiting.pop().state.computation.reads]
        new = {each for each in makers if each is not None} - found
        found |= new
        waiting += new
    return found


class _Timeline:
    """All writes and reads of one buffer, in order."""

    def __init__(self, schedule: ScheduleView, allocated: Allocated, occurrences: list[Occurrence], end: int) -> None:
        self.schedule = schedule
        self.allocated = allocated
        self.end = end
        self.variable: LoopVariable | None = None  # in whose iterations the buffer lives
        place = schedule.allocations.get(allocated.buffer)
        if place is not None:
            placements = (each.chunk.placement for each in occurrences)
            loops = next(each.loops for each in placements if each.stage is schedule.at(place))
            self.variable = loops.of_leaf[place.axis][-1]
        self.accesses = Accesses(schedule, allocated, occurrences, end, self._tag, slices=True)
        self.first_value, self.cell_of = self.accesses.first_value, self.accesses.cell_of

    def _tag(self, occurrence: Occurrence) -> Tag:
        return NO_TAG if self.variable is None else Tag.begin(occurrence, self.variable)

    def check(self, command: str) -> None:
        writes, reads = list(self.accesses.writes()), list(self.accesses.reads())
        batches = [*writes, *reads]
        times = np.concatenate([2 * each.found.times for each in batches])
        values = np.concatenate([each.found.values + self.first_value[each.stage] for each in batches])
        iterations = np.concatenate([each.found.tags for each in batches])
        written = np.zeros(len(times), np.bool_)
        written[: sum(len(each.found.times) for each in writes)] = True
        times[written] += 1  # an instance reads first
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

    def _refuse(self, batches: list[Batch], read: int, write: int, values: Ints, times: Ints, command: str) -> None:
        reading, writing = _batch_of(batches, read), _batch_of(batches, write)
        stage, other = reading.stage, writing.stage
        storage = storage_of(stage)
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
            host = self.schedule.at(place)
            witness: Witness = Witness(name, cell, stage.name, producer, reader, consumer)
            who = reader if reader else "the host"
            raise LegalityError(
                f"values in buffer {name} must live within one iteration of loop {place.axis.name} of "
                f"{host.name}, for each of which it is allocated anew ({command}), not be read by {who} in "
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

    def _instance(self, stage: StageView, value: int) -> dict[str, int]:
        index = _unravel(value - self.first_value[stage], stage.tensor.shape)
        return {axis.name: n for axis, n in zip(stage.state.computation.axes, index, strict=True)}


def _named(allocated: Allocated) -> str:
    return " and ".join(stage.name for stage in allocated.users)


def _in_order(cells: Ints, times: Ints, end: int) -> Ints:
    """Events cell by cell, in each by time."""
    most = int(cells.max(initial=0)) + 1
    if most * end < 1 << 62:
        return np.argsort(cells * end + times, kind="stable")
    return np.lexsort((times, cells))


def _batch_of(batches: list[Batch], event: int) -> Batch:
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
