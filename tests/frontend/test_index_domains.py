"""Every domain of index arithmetic against NumPy, on random expressions: exact values, or bounds that contain them."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pytest
from random_indices import points_of_box, random_axes, random_condition, random_index, values

from lathe.frontend import Axis, Expr, as_affine, interval, walk
from lathe.frontend.arith.conditions import bound_of, is_linear
from lathe.frontend.arith.linear import Bound, Extremum, Linear, LoopVariable, bound_value, floor_divide
from lathe.frontend.arith.loop_bounds import bound_index, condition_bound, interval_of, linear_index
from lathe.frontend.arith.polyhedra import Points, limited_operations
from lathe.frontend.arith.simplify import simplified_index

EXPRESSIONS = 1500


@dataclass
class Loops:
    """Random loops, and values of axes in terms of them."""

    box: Mapping[LoopVariable, tuple[int, int]]
    linear: Mapping[Axis, Linear]
    bounds: Mapping[Axis, Bound]

    def __init__(self, rng: random.Random, axes: Sequence[Axis]) -> None:
        variables = [LoopVariable(name, rng.randint(1, 4)) for name in "uvw"]
        self.box = {variable: (0, variable.extent - 1) for variable in variables}

        def linear(axis: Axis) -> Linear:
            strides = {variable: rng.choice([0, 1, 1, 2, 4]) for variable in variables}
            value = Linear(0, strides) if rng.random() < 0.7 else floor_divide(Linear(1, strides), 2)
            return value + axis.start

        self.linear = {axis: linear(axis) for axis in axes}
        self.bounds = {
            axis: Extremum("min", (value, Linear(axis.stop - 1))) if rng.random() < 0.5 else value
            for axis, value in self.linear.items()
        }
        names = [Axis(variable.name, variable.extent) for variable in variables]
        every = points_of_box(names)
        self.iterations = [dict(zip(variables, point.values(), strict=True)) for point in every]

    def within(self, values: Mapping[Axis, Bound]) -> list[tuple[dict[LoopVariable, int], dict[Axis, int]]]:
        """The iterations at which axes are in their ranges, and what they are there."""
        found = [(each, {axis: bound_value(value, each) for axis, value in values.items()}) for each in self.iterations]
        return [each for each in found if all(axis.start <= value < axis.stop for axis, value in each[1].items())]


@pytest.fixture(scope="module")
def expressions() -> list[tuple[random.Random, list[Axis], Expr]]:
    found = []
    for seed in range(EXPRESSIONS):
        rng = random.Random(seed)
        axes = random_axes(rng)
        found.append((rng, axes, random_index(rng, axes, rng.randint(1, 4))))
    return found


def test_affine_forms_and_intervals(expressions):
    affine = narrow = 0
    for _, axes, expr in expressions:
        points = points_of_box(axes)
        found = values(expr, points)
        form, (low, high) = as_affine(expr), interval(expr)
        assert low <= min(found), expr
        assert max(found) <= high, expr
        if form is not None:
            assert found == [form.const + sum(c * at[a] for a, c in form.coefficients.items()) for at in points], expr
            assert (low, high) == (min(found), max(found)), expr
        affine += form is not None and len(set(found)) > 1
        narrow += form is None and high - low < 1 << 31
    assert affine > 300
    assert narrow > 300


def test_simplified_expressions(expressions):
    changed = 0
    for _, axes, expr in expressions:
        simple = simplified_index(expr)
        points = points_of_box(axes)
        assert values(simple, points) == values(expr, points), f"{expr} is not {simple}"
        changed += as_affine(simple) is None and len(list(walk(simple))) < len(list(walk(expr)))
    assert changed > 100


def test_functions_of_isl(expressions):
    exact = 0
    for rng, axes, expr in expressions[::5]:
        points = Points(axes, "S")
        try:
            with limited_operations(20_000):
                function = points.value(expr)
        except isl.Error:
            continue
        if function is None:
            continue
        exact += 1
        for at in rng.sample(every := points_of_box(axes), min(4, len(every))):
            there = isl.Point.zero(points.space)
            for position, axis in enumerate(axes):
                there = there.set_coordinate_val(isl.dim_type.set, position, isl.Val(at[axis]))
            assert function.eval(there).to_python() == values(expr, [at])[0], f"{expr} at {at}"
    assert exact > 150


def test_bounds_over_loops(expressions):
    counts: Counter[str] = Counter()
    for rng, axes, expr in expressions:
        loops = Loops(rng, axes)
        for kind, taken, found in [
            ("linear", loops.linear, linear_index(expr, loops.linear)),
            ("bound", loops.bounds, bound_index(expr, loops.bounds)),
        ]:
            inside = loops.within(taken)
            if found is not None and inside:
                expected = values(expr, [at for _, at in inside])
                assert [bound_value(found, each) for each, _ in inside] == expected, f"{expr} is not {found}"
                counts[kind, isinstance(found, Extremum)] += 1
    assert counts["linear", False] > 300
    assert counts["bound", True] > 100


def test_intervals_of_bounds(expressions):
    found = tight = 0
    for rng, axes, expr in expressions:
        loops = Loops(rng, axes)
        hidden = rng.choice(list(loops.box))
        visible = {variable for variable in loops.box if rng.random() < 0.7} - {hidden}
        wide = {axis: (value, value + rng.randint(0, 2)) for axis, value in loops.linear.items()}
        bounds = interval_of(expr, wide, visible, loops.box)
        if bounds is None:
            continue
        found += 1
        tight += bounds[0] == bounds[1]
        for iteration in loops.iterations:
            ranges = {axis: [bound_value(end, iteration) for end in ends] for axis, ends in wide.items()}
            some = [
                {axis: rng.randint(*ends) for axis, ends in ranges.items()},
                {axis: rng.choice(ends) for axis, ends in ranges.items()},
            ]
            some = [at for at in some if all(axis.start <= value < axis.stop for axis, value in at.items())]
            low, high = (bound_value(end, iteration) for end in bounds)
            for value in values(expr, some) if some else ():
                assert low <= value <= high, f"{expr} is {value} outside {bounds}"
    assert found > 400
    assert tight > 50


def test_conditions_as_bounds():
    counts: Counter[str] = Counter()
    for seed in range(EXPRESSIONS):
        rng = random.Random(seed)
        axes = random_axes(rng)
        condition, loops = random_condition(rng, axes, rng.randint(0, 3)), Loops(rng, axes)
        holds = rng.random() < 0.5
        forms = [
            ("all", bound_of(condition, holds, loops.bounds, loops.box), holds),
            ("comparison", condition_bound(condition, loops.bounds), True),
        ]
        assert is_linear(condition) == (forms[0][1] is not None), condition
        inside = loops.within(loops.bounds)
        for kind, bound, expected in forms:
            if bound is not None and inside:
                truth = [bool(value) == expected for value in values(condition, [at for _, at in inside])]
                assert [bound_value(bound, each) >= 0 for each, _ in inside] == truth, f"{condition} is not {bound}"
                counts[kind] += len(set(truth)) > 1
    assert counts["all"] > 150
    assert counts["comparison"] > 100
