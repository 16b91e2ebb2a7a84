"""Folded storage: the writes and reads of a buffer as events, compared cell by cell.

A value is live from its write to its last read; each update of a reduction reads the accumulator. In the order of the
nest (``loop_ir/timestamps.py``) the last write before a read must be that of the value read. Of reads in the same
iteration of the loops around producer and consumer, only the last one matters. The host CPU reads values of outputs at
the end. A cell that two iterations of an unordered loop access must be written by neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.arith.linear import LoopVariable
from lathe.frontend.expr.nodes import AxisRef
from lathe.scheduler.legality.events import Events, Use
from lathe.scheduler.legality.reaching_write_query import Ordering, Violation
from lathe.scheduler.legality.slice_symmetry import symmetric_dimensions
from lathe.scheduler.legality.witnesses import value_gone
from lathe.scheduler.loop_ir.timestamps import NO_TAG, Occurrence, Tag
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.storage import Storage
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer

Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class FoldedAccesses:
    """Accesses to a buffer by the chunks of a partitioned nest, which ends at time ``end``.

    A buffer may be allocated in each iteration of a loop; what another iteration has written is lost.
    """

    schedule: ScheduleView
    allocated: UserBuffer
    occurrences: Sequence[Occurrence]
    end: int

    def violation(self, order: Ordering) -> Violation | None:
        """The first read that finds another value, or the first cell that unordered iterations share.

        Raises QueryBudgetExceeded if there are too many events.
        """
        return self._shared(order.outside, order.free) if order.free else self._overwritten()

    def _overwritten(self) -> Violation | None:
        location, users = self.schedule.allocations.get(self.allocated.buffer), self.allocated.users
        lifetime: LoopVariable | None = None  # the loop in each iteration of which the buffer is allocated
        if location is not None:
            placements = (each.chunk.placement for each in self.occurrences)
            loops = next(each.loops for each in placements if each.stage is self.schedule.at(location))
            lifetime = loops.of_leaf[location.axis][-1]
        writes, reads = self._uses((lambda _: NO_TAG) if lifetime is None else partial(Tag.begin, variable=lifetime))
        fixed = symmetric_dimensions(storage_of(users[0]), _all_of(writes), _all_of(reads)) if len(users) == 1 else []
        host = [
            _Part(each, None, self._at_the_end(each, fixed)) for each in users if each.tensor in self.schedule.outputs
        ]
        events = _Events(self.allocated, _parts(writes, fixed), [*_parts(reads, fixed), *host])
        written, values, cells = events.written, events.values, events.cells
        times = 2 * events.times
        times[written] += 1  # an instance reads before it writes
        order = _in_order(cells, times, 2 * self.end + 2)
        latest = np.maximum.accumulate(np.where(written[order], np.arange(len(order)), -1))
        source = np.where(latest >= 0, order[np.maximum(latest, 0)], -1)
        has_source = ~written[order] & (source >= 0) & (cells[source] == cells[order])
        mismatched = has_source & (values[source] != values[order])
        if lifetime is not None:
            mismatched |= has_source & ((events.tags[source] != events.tags[order]) | (events.tags[order] < 0))
        violations = np.flatnonzero(mismatched)
        if not len(violations):
            return None
        chosen = violations[np.argmin(times[order[violations]])]
        read, write = int(order[chosen]), int(source[chosen])
        cell, reader = self._index_of(int(cells[read])), events.part_of(read).occurrence
        value, found = events.value_of(read), events.value_of(write)
        witness = value_gone(self.allocated.buffer.name, cell, value, found, reader, int(events.times[read]))
        return Violation(cell, witness)

    def _shared(self, outside: Sequence[LoopVariable], free: Sequence[LoopVariable]) -> Violation | None:
        variables = (*outside, *free)
        inside = [each for each in self.occurrences if all(each.depth_of(variable) for variable in variables)]
        writes, reads = replace(self, occurrences=inside)._uses(partial(Tag.values, variables=variables))
        if not writes:
            return None
        events = _Events(self.allocated, _parts(writes), _parts(reads))
        around, iterations = np.divmod(events.tags, prod(variable.extent for variable in free))
        most = self.allocated.cells
        _, around = np.unique(around, return_inverse=True)
        keys, position = np.unique(around.reshape(-1) * most + events.cells, return_inverse=True)
        found = written_cell_of_two(position.reshape(-1), iterations, events.written, len(keys))
        return None if found is None else Violation(self._index_of(int(keys[found]) % most))

    def _uses(self, tag: Callable[[Occurrence], Tag]) -> "tuple[list[_Use], list[_Use]]":
        """Writes of values, which start a reduction or need none, and reads of them by consumers and by updates.

        ``tag`` computes the tag of an event from the loops around its chunk.
        """
        writes: list[_Use] = []
        reads: list[_Use] = []
        for stage in self.allocated.users:
            computation, shape = stage.state.computation, stage.tensor.shape
            index = tuple(AxisRef(axis) for axis in computation.axes)
            exists = () if computation.where is None else ((computation.where, True),)
            starts = [each for each in self._chunks(stage) if each.chunk.role != "update"]
            for each in self._chunks(stage):
                if each in starts:
                    writes.append((stage, Use(each, index, shape, len(each.around), exists, tag(each))))
                else:
                    reads.append((stage, Use(each, index, shape, _shared_depth(each, starts), exists, tag(each))))
            for reader in self.schedule.consumers(stage.tensor):
                own = [access for access in reader.state.computation.reads if access.tensor is stage.tensor]
                for each in self._chunks(reader):
                    depth = _shared_depth(each, starts)
                    for access in own if each.chunk.role != "init" else []:
                        use = Use(each, tuple(access.indices), shape, depth, tuple(access.guards), tag(each))
                        reads.append((stage, use))
        return writes, reads

    def _chunks(self, stage: StageView) -> list[Occurrence]:
        return [each for each in self.occurrences if each.chunk.placement.stage is stage]

    def _at_the_end(self, stage: StageView, fixed: Sequence[int]) -> Events:
        """Reads of an output by the host CPU at the end; only at index 0 of the ``fixed`` dimensions."""
        shape = [1 if dim in fixed else extent for dim, extent in enumerate(stage.tensor.shape)]
        values: Ints = np.ravel_multi_index(tuple(np.indices(shape)), stage.tensor.shape).reshape(-1)
        return Events(np.full(len(values), self.end), values, np.full(len(values), -1))

    def _index_of(self, cell: int) -> tuple[int, ...]:
        return _unravel(cell, self.allocated.shape)


def written_cell_of_two(cells: Ints, iterations: Ints, written: Truths, count: int) -> int | None:
    """The first cell that two iterations access and one of them writes; None if there is none.

    Each array has one number per access; those of cells are below ``count``.
    """
    user = np.empty(count, np.int64)
    user[cells] = iterations
    others = cells[user[cells] != iterations]
    if not len(others):
        return None
    both = np.zeros((2, count), np.bool_)
    both[0, others] = True
    both[1, cells[written]] = True
    found = np.flatnonzero(both.all(axis=0))
    return int(found[0]) if len(found) else None


def storage_of(stage: StageView) -> Storage:
    """The storage map that the user has given a stage."""
    storage = stage.state.storage
    assert storage is not None, f"{stage.name} has no storage map"
    return storage


_Use = tuple[StageView, Use]


@dataclass(frozen=True)
class _Part:
    """Events of one chunk, or of the host CPU, which has no chunk; ``stage`` is the one whose values they access."""

    stage: StageView
    occurrence: Occurrence | None
    events: Events


class _Events:
    """The concatenated events of parts. Values are numbered consecutively, stage by stage."""

    def __init__(self, allocated: UserBuffer, writes: Sequence[_Part], reads: Sequence[_Part]) -> None:
        self.parts = [*writes, *reads]
        counts = [storage_of(stage).values for stage in allocated.users]
        self.first_value = dict(zip(allocated.users, np.cumsum([0, *counts]).tolist(), strict=False))
        self.times = self._joined(lambda each: each.events.times)
        self.tags = self._joined(lambda each: each.events.tags)
        self.values = self._joined(lambda each: each.events.values + self.first_value[each.stage])
        self.cells = np.concatenate([storage_of(each).cells(allocated.shape) for each in allocated.users])[self.values]
        self.written = np.arange(len(self.times)) < sum(len(each.events.times) for each in writes)

    def _joined(self, numbers: Callable[[_Part], Ints]) -> Ints:
        return np.concatenate([np.empty(0, np.int64), *map(numbers, self.parts)])

    def part_of(self, event: int) -> _Part:
        ends = np.cumsum([len(part.events.times) for part in self.parts])
        return self.parts[int(np.searchsorted(ends, event, side="right"))]

    def value_of(self, event: int) -> tuple[StageView, tuple[int, ...]]:
        """The stage that computes the value of an event, and its index."""
        stage = self.part_of(event).stage
        return stage, _unravel(int(self.values[event]) - self.first_value[stage], stage.tensor.shape)


def _parts(uses: Sequence[_Use], fixed: Sequence[int] = ()) -> list[_Part]:
    return [_Part(stage, use.occurrence, use.events(fixed)) for stage, use in uses]


def _all_of(uses: Sequence[_Use]) -> list[Use]:
    return [use for _, use in uses]


def _shared_depth(occurrence: Occurrence, writers: Sequence[Occurrence]) -> int:
    """The maximum number of loops around both a chunk and a chunk that writes what it reads."""
    return max((occurrence.shared(writer) for writer in writers), default=0)


def _in_order(cells: Ints, times: Ints, end: int) -> Ints:
    """Event indices ordered by cell, then by time."""
    most = int(cells.max(initial=0)) + 1
    if most * end < 1 << 62:
        return np.argsort(cells * end + times, kind="stable")
    return np.lexsort((times, cells))


def _unravel(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(number, shape))
