"""``skew`` of loops with carried dependences: of the possible maps, a legal one is chosen."""

from itertools import product
from math import gcd

import pytest
from error_checks import raises
from nests import CONFIG, check, text
from random_programs import random_inputs
from small_machine import run

from lathe.frontend import Tensor, placeholder, recurrence, select
from lathe.scheduler import LegalityError, create_schedule

DISTANCES = {"diagonal": [(1, 1)], "both": [(1, 0), (0, 1)], "row": [(0, 1)], "backwards": [(1, -2)]}
FACTORS = [(a, b) for a, b in product(range(-2, 3), (-3, -2, -1, 1, 2)) if gcd(a, b) == 1]


def recurrence_of(distances: list[tuple[int, int]]) -> Tensor:
    x = placeholder((5, 7), "int32", "x")

    def value(s, i, j):
        return sum((select(j - dj < 7, s[i - di, j - dj], 0) * 3 for di, dj in distances), x[i, j])

    return recurrence((5, 7), value, init=1, name="R")


def is_possible(a: int, b: int, distances: list[tuple[int, int]]) -> bool:
    """Whether some outer loop with these diagonals computes every value after those that it depends on."""
    return any(
        all((p * i + q * j, a * i + b * j) > (0, 0) for i, j in distances)
        for p, q in product(range(-9, 10), repeat=2)
        if abs(p * b - q * a) == 1
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", DISTANCES)
def test_skew_is_refused_only_where_each_outer_loop_would_read_too_early(name):
    distances = DISTANCES[name]
    for a, b in FACTORS:
        R = recurrence_of(distances)
        s = create_schedule(R)
        if is_possible(a, b, distances):
            s[R].skew("i", "j", a, b)
            check(s)
        else:
            raises(LegalityError, s[R].skew, "i", "j", a, b, mentions=("skew", "R"))


@pytest.mark.parametrize("factors", [(1, -1), (-1, 1), (1, 1), (2, -1), (-3, -1)])
def test_the_outer_loop_stays_where_the_inner_factor_is_one_or_minus_one(factors):
    x = placeholder((5, 7), "int32", "x")
    R = recurrence((5, 7), lambda s, i, j: s[i - 1, j - 1] + x[i, j], init=1, name="R")
    s = create_schedule(R)
    outer, diagonals = s[R].skew("i", "j", *factors)
    assert (outer.name, diagonals.name) == ("i", "i.j.d")
    assert "for i in 0..5:" in text(s, "loops")
    run(s, CONFIG, random_inputs([R], seed=3))
