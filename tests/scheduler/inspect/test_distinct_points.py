"""Number of distinct points in a union of boxes, against enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
from random_programs import Choice

import lathe as lt
from lathe.frontend.arith.linear import Linear, LoopVariable, floor_divide
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.inspect.distinct_points import CoveredBox, Weight, covered_points, intervals_of


def points_of(axes: list[Axis], box: CoveredBox) -> set[tuple[int, ...]]:
    variables = list(box.ranges)
    found = set()
    for values in product(*(range(first, last + 1) for first, last in box.ranges.values())):
        environment = dict(zip(variables, values, strict=True))
        found.add(tuple(box.roots[axis].value(environment) for axis in axes))
    return found


def random_box(choice: Choice, count: int) -> list[Linear | dict[LoopVariable, tuple[int, int]]]:
    """A random linear function for each axis, with minimum 0, and the ranges of loops."""
    ranges: dict[LoopVariable, tuple[int, int]] = {}
    for number in range(choice.number(1, 5)):
        first = choice.number(0, 3)
        ranges[LoopVariable(f"v{number}", 9)] = first, first + choice.number(0, 3)
    values = []
    for _ in range(count):
        value = Linear(choice.number(0, 3))
        for variable in ranges:
            if choice.number(0, 2) == 0:
                value += Linear.of(variable, choice.pick([-4, -1, 1, 1, 2, 5]))
            elif choice.number(0, 5) == 0:
                value += floor_divide(Linear.of(variable) + choice.number(0, 2), choice.number(2, 3))
        values.append(value - min(value.range(ranges)[0], 0))
    return [*values, ranges]


@pytest.mark.parametrize("seed", range(150))
def test_counts_of_random_boxes_are_those_of_enumeration(seed):
    choice = Choice(seed)
    count = choice.number(1, 3)
    drawn = [random_box(choice, count) for _ in range(choice.number(1, 4))]
    extents = [max(each[n].range(each[-1])[1] for each in drawn) + 1 for n in range(count)]
    axes = [Axis(f"a{n}", extent) for n, extent in enumerate(extents)]
    boxes = [CoveredBox(dict(zip(axes, each, strict=False)), each[-1]) for each in drawn]
    covered = set().union(*(points_of(axes, box) for box in boxes))
    assert covered_points(axes, boxes, []) == len(covered)
    tied = tuple(axis for axis in axes if choice.number(0, 1))
    some = np.asarray([choice.number(0, 2) for _ in range(int(np.prod([a.extent for a in tied])))])
    weight = some.reshape([axis.extent for axis in tied])
    expected = sum(int(weight[tuple(point[axes.index(axis)] for axis in tied)]) for point in covered)
    assert covered_points(axes, boxes, [Weight(tied, weight)]) == expected


@pytest.mark.parametrize("seed", range(100))
def test_intervals_of_a_random_expression_are_those_of_enumeration(seed):
    value, ranges = random_box(Choice(seed), 1)
    intervals = intervals_of(value, ranges)
    axis = Axis("a", 1)
    listed = sorted(point for (point,) in points_of([axis], CoveredBox({axis: value}, ranges)))
    assert [each for first, last in intervals for each in range(first, last + 1)] == listed
    assert all(before[1] + 1 < after[0] for before, after in pairwise(intervals))


def test_extents_too_large_for_enumeration():
    i, j, k = LoopVariable("i", 10**9), LoopVariable("j", 10**6), LoopVariable("k", 10**9)
    axes = [Axis("a", 10**15), Axis("b", 10**9)]
    tiles = {i: (0, 10**9 - 1), j: (0, 10**6 - 1), k: (0, 10**9 - 1)}
    box = CoveredBox({axes[0]: Linear(0, {i: 10**6, j: 1}), axes[1]: Linear.of(k)}, tiles)
    shifted = CoveredBox({axes[0]: Linear(0, {j: 1}), axes[1]: Linear.of(k)}, {j: (0, 10**6 - 1), k: (5, 9)})
    assert covered_points(axes, [box, shifted], []) == 10**24


def test_a_tiled_stage_with_large_extents():
    size = 28 * 10**6
    A = lt.placeholder((64, size + 2, size + 2, 64), "int8", name="A")
    P = lt.compute(A.shape, lambda n, y, x, c: A[n, y, x, c] >> 1, name="P")
    C = lt.compute((64, size, size, 64), lambda n, y, x, c: P[n, y, x, c] + P[n, y + 2, x + 2, c], name="C")
    s = lt.create_schedule(C)
    n, y, x, c = s[C].axis
    _, xo, _, _ = s[C].tile(y, x, 28, 28)
    s[P].compute_at(s[C], xo)
    counted = s.count().stages["P"]
    assert (counted.executed, counted.distinct) == (64 * (10**6 * 30) ** 2 * 64, 64 * (size + 2) ** 2 * 64)
