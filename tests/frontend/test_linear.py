"""Ranges of linear expressions contain all values, and those of remainders are exact."""

import random
from itertools import product

import pytest

from lathe.frontend.arith.linear import Linear, LoopVariable, floor_divide


def remainder(value: Linear, divisor: int) -> Linear:
    return value - floor_divide(value, divisor) * divisor


def test_a_remainder_is_less_than_its_divisor():
    a, b = LoopVariable("a", 64), LoopVariable("b", 8)
    box = {a: (0, 63), b: (0, 7)}
    value = Linear(5, {a: 8, b: 1})
    assert remainder(value, 32).range(box) == (0, 31)
    assert (remainder(value, 32) * -3 + Linear.of(b)).range(box) == (-93, 7)
    assert remainder(Linear(5, {a: 8}), 32).range({a: (0, 63)}) == (5, 29)


def test_a_remainder_of_small_values_has_their_range():
    a = LoopVariable("a", 4)
    assert remainder(Linear.of(a), 32).range({a: (0, 3)}) == (0, 3)


@pytest.mark.parametrize("seed", range(200))
def test_no_value_is_outside(seed):
    generator = random.Random(seed)
    variables = [LoopVariable(name, generator.randint(1, 5)) for name in "abc"]

    def linear(depth: int) -> Linear:
        value = Linear(generator.randint(-7, 7), {v: generator.randint(-6, 6) for v in variables})
        if depth:
            inner, divisor = linear(depth - 1), generator.randint(2, 7)
            kind = generator.choice((remainder, floor_divide))
            value += kind(inner, divisor) * generator.randint(-4, 4)
        return value

    value = linear(generator.randint(1, 3))
    box = {v: (first := generator.randint(0, v.extent - 1), generator.randint(first, v.extent - 1)) for v in variables}
    low, high = value.range(box)
    ranges = [range(first, last + 1) for first, last in box.values()]
    found = [value.value(dict(zip(variables, point, strict=True))) for point in product(*ranges)]
    assert low <= min(found)
    assert max(found) <= high


@pytest.mark.parametrize("seed", range(100))
def test_divisions_are_those_of_numbers(seed):
    generator = random.Random(seed)
    variables = [LoopVariable(name, 5) for name in "ab"]
    divisor = generator.randint(2, 12)
    value = Linear(generator.randint(-20, 20), {v: generator.choice((-6, -4, 1, 2, 3, 4, 8, 12)) for v in variables})
    for point in product(range(5), repeat=2):
        at = dict(zip(variables, point, strict=True))
        assert floor_divide(value, divisor).value(at) == value.value(at) // divisor
