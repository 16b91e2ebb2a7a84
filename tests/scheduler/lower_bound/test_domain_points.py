"""Points under conditions: counts and reads are those of walking over all of them, or fewer where they may be."""

from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np
import pytest
from random_programs import Choice, programs

from lathe.frontend import evaluate, placeholder
from lathe.frontend.expr.nodes import Axis, Guard, axes_of, reads_data
from lathe.frontend.tensor.programs import topological
from lathe.scheduler.lower_bound import domain_points
from lathe.scheduler.lower_bound.domain_points import CountedPoints, united

Y, R, X = Axis("y", 7), Axis("r", 3, kind="reduce"), Axis("x", 5)


def walked(axes: list[Axis], conditions: list[Guard]) -> list[dict[Axis, int]]:
    """All points at which the conditions hold."""
    ranges = [range(axis.start, axis.stop) for axis in axes]
    points = (dict(zip(axes, values, strict=True)) for values in product(*ranges))
    return [point for point in points if all(bool(evaluate(c, point)) is holds for c, holds in conditions)]


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [(Y * 2 + R >= 1, True)],
        [(((Y + R - 1) >= 0) & ((Y + R - 1) < 7) & (X + 0 < 3), True)],
        [((Y + 0 < 2) | (X + R > 4), False)],
        [((Y + 0 < 2) | (X + R > 4), True)],
        [((Y + X + R) % 2 == 0, True), (Y + 0 > 5, False)],
        [(~(Y + 0 < 3), True)],
        [(Y + 0 > 7, True)],
    ],
)
def test_counts_are_those_of_walking(conditions: list[Guard]) -> None:
    points = CountedPoints(dict.fromkeys((Y, R, X)), conditions)
    there = walked([Y, R, X], conditions)
    assert points.number == len(there)
    assert points.vectors({}, {Y}) == len({point[Y] for point in there})
    assert points.vectors({}, {Y, X}) == len({(point[Y], point[X]) for point in there})
    rows = {(point[R], point[X]): 0 for point in there}
    for point in there:
        rows[point[R], point[X]] += 1
    assert points.vectors({Y: 4}) == sum(ceil(count / 4) for count in rows.values())


def test_a_count_of_no_points_of_all_axes_is_none_of_some() -> None:
    assert CountedPoints(dict.fromkeys((Y, X)), [(Y + 0 > 7, True)]).vectors({}, {X}) == 0
    assert CountedPoints({Y: np.zeros(7, np.bool_), X: None}).vectors({X: 2}) == 0


def test_values_of_axes_that_nobody_needs_are_no_points() -> None:
    odd = np.arange(7) % 2 == 1
    assert CountedPoints({Y: odd, X: None}, [(Y + X < 3, True)]).number == 2


def test_what_is_read_of_each_dimension() -> None:
    points = CountedPoints(dict.fromkeys((Y, R, X)), [(Y * 3 + R >= 1, True), (Y * 3 + R < 9, True)])
    masks = points.read((Y * 3 + R - 1, X * 2 + 0), (8, 12))
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [[*range(8)], [0, 2, 4, 6, 8]]


def test_dimensions_that_are_read_together_are_read_whole_or_in_part() -> None:
    points = CountedPoints({Y: None, X: None})
    whole = points.read(((Y * 5 + X) // 7, (Y * 5 + X) % 7), (5, 7))
    assert all(mask.all() for mask in whole)
    diagonal = points.read((Y + 0, Y + 0), (7, 7))
    assert [int(mask.sum()) for mask in diagonal] == [1, 1]
    columns = points.read((Y + X, X + 0), (11, 5))
    assert prod(int(mask.sum()) for mask in columns) >= 1


def test_where_data_say_what_is_read_all_may_be() -> None:
    table = placeholder(3, "int8", "T")
    (mask,) = CountedPoints({Y: None}).read((table[Y % 3].astype("index"),), (9,))
    assert mask.all()


def test_reads_together_are_a_box_or_the_larger_one() -> None:
    def masks(first: list[int], second: list[int]) -> Any:
        return tuple(np.isin(np.arange(6), each) for each in (first, second))

    joined = united([masks([0, 1], [3]), masks([1, 2], [3])])
    assert [np.flatnonzero(mask).tolist() for mask in joined] == [[0, 1, 2], [3]]
    apart = united([masks([0], [3]), masks([1, 2], [4, 5])])
    assert [np.flatnonzero(mask).tolist() for mask in apart] == [[1, 2], [4, 5]]


@pytest.mark.parametrize("most", [domain_points.MOST, 12])
@pytest.mark.parametrize("seed", range(20))
def test_never_more_than_walking_finds(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only a part may be looked at."""
    monkeypatch.setattr(domain_points, "MOST", most)
    outputs = programs(Choice(seed), 3)
    tried = 0
    for computation in topological(outputs):
        axes = [*computation.axes, *computation.reduce_axes]
        for read in computation.reads:
            conditions = [guard for guard in read.guards if not reads_data(guard[0])]
            if any(map(reads_data, read.indices)) or prod(axis.extent for axis in axes) > 3000:
                continue
            tried += 1
            there = walked(axes, conditions)
            cells = {tuple(int(evaluate(index, point)) for index in read.indices) for point in there}
            points = CountedPoints(dict.fromkeys(axes), conditions)
            assert points.number <= len(there)
            if most == domain_points.MOST and len(axes) == 1:
                assert points.number == len(there)
            masks = points.read(read.indices, read.tensor.shape)
            boxed = set(product(*(np.flatnonzero(mask).tolist() for mask in masks)))
            assert boxed <= cells
            apart = [set(axes_of(index)) for index in read.indices]
            if not conditions and most > 12 and sum(map(len, apart)) == len(set().union(*apart)):
                assert boxed == cells
    assert tried or not any(computation.reads for computation in topological(outputs))
