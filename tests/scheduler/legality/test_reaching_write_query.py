"""The legality query, compared with a brute-force enumeration of all reads in plain Python."""

from collections import defaultdict
from random import Random

import islpy as isl
import numpy as np
import pytest
from error_checks import raises
from random_programs import Choice, programs
from random_recurrences import recurrences
from random_schedules import any_command
from seeds import check_each, event

from lathe.frontend import compute, placeholder
from lathe.scheduler import Schedule, ScheduleError, create_schedule
from lathe.scheduler.legality.reaching_write_query import Ordering, first_violation
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.legality.storage_folding import written_cell_of_two
from lathe.scheduler.loop_ir.compute_locations import place_stages

Point = tuple[int, ...]
MOST_PAIRS = 2_000


def entries(relation: isl.Map) -> dict[Point, set[Point]]:
    """The pairs of a relation, grouped by their first point."""
    found: dict[Point, set[Point]] = defaultdict(set)
    count = relation.dim(isl.dim_type.in_)

    def note(point: isl.Point) -> None:
        total = count + relation.dim(isl.dim_type.out)
        values = tuple(point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(total))
        found[values[:count]].add(values[count:])

    relation.wrap().foreach_point(note)
    return found


def lost_one_by_one(uses: DirectAccesses, order: Ordering) -> tuple[Point, Point] | None:
    """The consumer's first iteration, with its first cell, whose last write may not be the required one."""
    needed, made = entries(uses.needed), entries(uses.made)
    outside, depth = len(order.outside), uses.depth

    def before(here: Point, there: Point) -> bool:
        if order.free or not order.stays:
            return here == there and (order.first or bool(order.free))
        return there <= here if order.first else there < here

    def feared(here: Point, there: Point) -> bool:
        if order.free:
            return here[:outside] == there[:outside] and not (order.every and here == there)
        if not order.stays:
            return there[:depth] != here[:depth]
        return there[:depth] > here[:depth] or (there[:depth] == here[:depth] and not order.first)

    for here in sorted(needed):
        for cell in sorted(needed[here]):
            writes = [there for there, cells in made.items() if cell in cells]
            if not order.every and any(before(here, there) for there in writes):
                continue
            if not order.every and not order.free:
                return here, cell
            if any(feared(here, there) for there in writes):
                return here, cell
    return None


def questions(schedule: Schedule):
    """All queries: each read of a stage's values with each of its orderings."""
    placed = place_stages(schedule)
    for reader in schedule.stages:
        around = tuple(placed[reader].around)
        for level in range(1, len(around) + 1) if reader.state.computation.reduce_axes else []:
            order = Ordering(every=True, outside=around[: level - 1], free=around[level - 1 : level])
            yield DirectAccesses.of_sums(placed[reader], level, placed), order
        for read in reader.state.computation.reads:
            producer = schedule.producer(read.tensor)
            if producer is None:
                continue
            here, there = placed[producer], placed[reader]
            instances = DirectAccesses.of_instances(here, there, [read])
            around = tuple(here.around)
            for first in (True, False):
                yield instances, Ordering(first=first, every=True)
            yield instances, Ordering(stays=False, every=True)
            for depth in range(min(instances.depth, len(here.prefix)) + 1):
                uses = DirectAccesses.in_iterations(here, there, read, depth, placed)
                for first in (True, False):
                    for stays in (True, False):
                        yield uses, Ordering(first=first, stays=stays)
                if depth:
                    yield uses, Ordering(outside=around[: depth - 1], free=around[depth - 1 : depth])
            if producer is reader:
                for level in range(len(around)):
                    yield instances, Ordering(every=True, outside=around[:level], free=around[level:])


def check_questions(seed: int) -> None:
    choice = Choice(seed)
    schedule = create_schedule(recurrences(choice) if seed % 2 else programs(choice, 3))
    for _ in range(4):
        try:
            any_command(choice, schedule).run(schedule)
        except ScheduleError:
            continue
    for uses, order in questions(schedule):
        if max(each.wrap().count_val().to_python() for each in (uses.needed, uses.made)) > MOST_PAIRS:
            continue
        verdict, expected = first_violation(uses, order), lost_one_by_one(uses, order)
        assert (verdict is None) == (expected is None), order
        event("held" if verdict is None else "lost")
        if verdict is not None and expected is not None:
            assert verdict.cell == expected[1]
            assert not uses.reads or verdict.read_witness.cell == expected[1]
            assert not order.free or verdict.iterations[0] == expected[0]


@pytest.mark.seeds(4, slow=416, block=20)
def test_a_verdict_is_the_first_read_that_may_not_find_its_value(seeds):
    happened = check_each(seeds, check_questions)
    assert happened["held"] >= 20
    assert happened["lost"] >= 20


def test_a_cell_of_two_iterations_is_the_first_that_one_of_them_writes():
    random = Random(5)
    outcomes = set()
    for _ in range(300):
        size, count = random.randint(0, 8), random.randint(1, 6)
        cells = [random.randrange(count) for _ in range(size)]
        iterations = [random.randrange(3) for _ in range(size)]
        written = [random.random() < 0.4 for _ in range(size)]
        shared = [
            cell
            for cell in range(count)
            if len({i for c, i in zip(cells, iterations, strict=True) if c == cell}) > 1
            and any(w for c, w in zip(cells, written, strict=True) if c == cell)
        ]
        arrays = np.array(cells, np.int64), np.array(iterations, np.int64), np.array(written, np.bool_)
        found = written_cell_of_two(*arrays, count)
        assert found == (shared[0] if shared else None)
        outcomes.add(found is None)
    assert outcomes == {True, False}


def test_a_buffer_of_too_many_events_is_refused_with_the_limit(monkeypatch):
    A = placeholder((8, 8), "int8", "A")
    B = compute((8, 8), lambda i, j: A[i, j] + 1, "B")
    s = create_schedule(compute((6, 8), lambda i, j: B[i, j] + B[i + 2, j], "C"))
    monkeypatch.setattr("lathe.scheduler.legality.events.LARGEST", 5)
    raises(ScheduleError, s[B].store_in, lambda i, j: [i % 4, j], kind="limit", mentions=("B", "store_in", 5))
