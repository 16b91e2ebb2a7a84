"""Which loops' iterations store different values in one cell, and so cannot be carried out at the same time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.indices.linear import LoopVariable
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.cell_uses import Accesses, Batch
from lathe.scheduler.legality.events import LARGEST, TooManyEvents
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.partition import partition
from lathe.scheduler.nest.times import Occurrence, Tag, occurrences_of
from lathe.scheduler.state.loops import LoopAxis
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.stored import Allocated, storages_of

Ints = NDArray[np.int64]


def shared_cell(schedule: ScheduleView, stage: StageView, loop: "LoopAxis") -> str:
    """A sentence on a cell that two iterations of a loop of a stage use, at least one to write it; "" if none is.

    Buffers that are allocated in the loop, or in one inside it, belong to one iteration. Raises ScheduleError where
    there are too many reads and writes to look at.
    """
    stored = storages_of(schedule.stages)
    if not stored:
        return ""
    occurrences, end = occurrences_of(partition(build_nest(schedule)))
    placements = {each.chunk.placement.stage: each.chunk.placement for each in occurrences}
    here = placements[stage]
    around = [*here.prefix, *here.loops.variables]
    depth = max(around.index(variable) for variable in here.loops.of_leaf[loop]) + 1
    outer = depth - len(here.loops.of_leaf[loop])
    for buffer, allocated in stored.items():
        place = schedule.allocations.get(buffer)
        if place is not None:
            there = placements[schedule.at(place)]
            inside = [*there.prefix, *there.loops.variables]
            level = max(inside.index(variable) for variable in there.loops.of_leaf[place.axis]) + 1
            if inside[:depth] == around[:depth] and level >= depth:
                continue
        try:
            found = _conflict(schedule, allocated, occurrences, end, around[outer:depth], around[:outer])
        except TooManyEvents:
            raise ScheduleError(
                f"whether loop {loop.name} of stage {stage.name} is parallel must be decided with {LARGEST} reads and "
                f"writes of buffer {buffer.name}, and takes more.",
                kind="limit",
            ) from None
        if found is not None:
            cell = ", ".join(map(str, found))
            return f"two iterations use cell {buffer.name}[{cell}], which one of them writes"
    return ""


def _conflict(
    schedule: ScheduleView,
    allocated: Allocated,
    occurrences: list[Occurrence],
    end: int,
    loops: Sequence[LoopVariable],
    outside: Sequence[LoopVariable],
) -> tuple[int, ...] | None:
    """A cell that two iterations of loops use, those outside being in the same."""
    inner = [each for each in occurrences if all(each.depth_of(variable) for variable in (*outside, *loops))]
    parts = []
    for variables in (loops, outside):
        accesses = Accesses(schedule, allocated, inner, end, lambda each, v=variables: _tag(each, v, loops))  # type: ignore[misc]
        parts.append(([*accesses.writes()], [each for each in accesses.reads() if each.occurrence is not None]))
    first_value, cell_of = accesses.first_value, accesses.cell_of
    writes, reads = parts[0]
    if not writes:
        return None
    iterations, outer = (_tags([*written, *read]) for written, read in parts)
    values = np.concatenate([each.found.values + first_value[each.stage] for each in (*writes, *reads)])
    written = np.arange(len(values)) < sum(len(each.found.times) for each in writes)
    cells = cell_of[values]
    order = np.lexsort((iterations, cells, outer))
    cells, outer, iterations, written = cells[order], outer[order], iterations[order], written[order]
    begins = np.flatnonzero(np.diff(cells, prepend=-1) | np.diff(outer, prepend=outer[0] - 1))
    some = np.logical_or.reduceat(written, begins)
    least, most = np.minimum.reduceat(iterations, begins), np.maximum.reduceat(iterations, begins)
    bad = np.flatnonzero(some & (least != most))
    if not len(bad):
        return None
    return tuple(int(n) for n in np.unravel_index(int(cells[begins[bad[0]]]), allocated.shape))


def _tag(occurrence: Occurrence, variables: Sequence[LoopVariable], kept: Sequence[LoopVariable]) -> Tag:
    """The values of some loops; the loops that are asked about are told apart in any case."""
    found = Tag.values(occurrence, variables)
    position = {span.variable: n for n, span in enumerate(occurrence.spans)}
    return Tag(found.constant, {**{position[variable]: 0 for variable in kept}, **found.weights})


def _tags(batches: Sequence[Batch]) -> Ints:
    return np.concatenate([each.found.tags for each in batches])
