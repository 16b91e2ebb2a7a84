"""Counts of points under conditions, and of elements read, against enumeration; lower bounds for large groups."""

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


def enumerated(axes: list[Axis], conditions: list[Guard]) -> list[dict[Axis, int]]:
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
def test_counts_are_those_of_enumeration(conditions: list[Guard]) -> None:
    points = CountedPoints(dict.fromkeys((Y, R, X)), conditions)
    expected = enumerated([Y, R, X], conditions)
    assert points.number == len(expected)
    assert points.vectors({}, {Y}) == len({point[Y] for point in expected})
    assert points.vectors({}, {Y, X}) == len({(point[Y], point[X]) for point in expected})
    rows = {(point[R], point[X]): 0 for point in expected}
    for point in expected:
        rows[point[R], point[X]] += 1
    assert points.vectors({Y: 4}) == sum(ceil(count / 4) for count in rows.values())


def test_projections_of_an_empty_domain_are_empty() -> None:
    assert CountedPoints(dict.fromkeys((Y, X)), [(Y + 0 > 7, True)]).vectors({}, {X}) == 0
    assert CountedPoints({Y: np.zeros(7, np.bool_), X: None}).vectors({X: 2}) == 0


def test_dead_values_of_axes_are_excluded() -> None:
    odd = np.arange(7) % 2 == 1
    assert CountedPoints({Y: odd, X: None}, [(Y + X < 3, True)]).number == 2


def test_elements_read_along_each_dimension() -> None:
    points = CountedPoints(dict.fromkeys((Y, R, X)), [(Y * 3 + R >= 1, True), (Y * 3 + R < 9, True)])
    masks = points.read((Y * 3 + R - 1, X * 2 + 0), (8, 12))
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [[*range(8)], [0, 2, 4, 6, 8]]


def test_dimensions_read_by_a_common_axis_give_a_product_that_is_read_completely() -> None:
    points = CountedPoints({Y: None, X: None})
    whole = points.read(((Y * 5 + X) // 7, (Y * 5 + X) % 7), (5, 7))
    assert all(mask.all() for mask in whole)
    diagonal = points.read((Y + 0, Y + 0), (7, 7))
    assert [int(mask.sum()) for mask in diagonal] == [1, 1]
    columns = points.read((Y + X, X + 0), (11, 5))
    assert prod(int(mask.sum()) for mask in columns) >= 1


def test_data_dependent_indices_may_read_all() -> None:
    table = placeholder(3, "int8", "T")
    (mask,) = CountedPoints({Y: None}).read((table[Y % 3].astype("index"),), (9,))
    assert mask.all()


def test_the_union_of_reads_is_a_product_or_the_larger_one() -> None:
    def masks(first: list[int], second: list[int]) -> Any:
        return tuple(np.isin(np.arange(6), each) for each in (first, second))

    joined = united([masks([0, 1], [3]), masks([1, 2], [3])])
    assert [np.flatnonzero(mask).tolist() for mask in joined] == [[0, 1, 2], [3]]
    larger = united([masks([0], [3]), masks([1, 2], [4, 5])])
    assert [np.flatnonzero(mask).tolist() for mask in larger] == [[1, 2], [4, 5]]


@pytest.mark.parametrize("most", [domain_points.MAX_POINTS, 12])
@pytest.mark.parametrize("seed", range(20))
def test_counts_are_never_more_than_those_of_enumeration(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if only a subset may be enumerated."""
    monkeypatch.setattr(domain_points, "MAX_POINTS", most)
    outputs = programs(Choice(seed), 3)
    tried = 0
    for computation in topological(outputs):
        axes = [*computation.axes, *computation.reduce_axes]
        for read in computation.reads:
            conditions = [guard for guard in read.guards if not reads_data(guard[0])]
            if any(map(reads_data, read.indices)) or prod(axis.extent for axis in axes) > 3000:
                continue
            tried += 1
            expected = enumerated(axes, conditions)
            elements = {tuple(int(evaluate(index, point)) for index in read.indices) for point in expected}
            points = CountedPoints(dict.fromkeys(axes), conditions)
            assert points.number <= len(expected)
            if most == domain_points.MAX_POINTS and len(axes) == 1:
                assert points.number == len(expected)
            masks = points.read(read.indices, read.tensor.shape)
            boxed = set(product(*(np.flatnonzero(mask).tolist() for mask in masks)))
            assert boxed <= elements
            own_axes = [set(axes_of(index)) for index in read.indices]
            if not conditions and most > 12 and sum(map(len, own_axes)) == len(set().union(*own_axes)):
                assert boxed == elements
    assert tried or not any(computation.reads for computation in topological(outputs))
