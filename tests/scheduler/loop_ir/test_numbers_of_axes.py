"""Sums of index expressions: it is known where these are 0, so conditions there can be added and removed."""

from collections.abc import Callable
from typing import Any

import pytest
from error_checks import raises
from nests import CONFIG, text
from random_programs import random_inputs
from small_machine import run

from lathe.frontend import Tensor, compute, min, placeholder, reduce_axis, sum
from lathe.scheduler import PaddingError, create_schedule


def sum_over(extent: int, body: Callable[[Any], Any], condition: Callable[[Any], Any]) -> Tensor:
    k = reduce_axis((0, extent), "k")
    return compute((6,), lambda _: sum(body(k), axis=k, where=condition(k)), "T")


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        (lambda k: (k * k).astype("int32"), lambda k: k > 0),
        (lambda k: (k // 7).astype("int32") * 5, lambda k: k >= 7),
        (lambda k: ((k + 3) % 5).astype("int32"), lambda k: k != 2),
        (lambda k: min(k, 4).astype("int32") - 4, lambda k: k < 4),
    ],
)
@pytest.mark.parametrize("extent", [11, 300])
def test_numbers_made_of_axes_are_known_where_they_change_nothing(body, condition, extent):
    T = sum_over(extent, body, condition)
    s = create_schedule(T)
    s[T].overcompute()
    assert "select" not in text(s)
    run(s, CONFIG, random_inputs([T], seed=0))


def test_a_number_made_of_axes_decides_a_product_with_an_element():
    A, k = placeholder((6, 300), "int32", "A"), reduce_axis((0, 300), "k")
    T = compute((6,), lambda x: sum(A[x, k] * (k - x).astype("int32"), axis=k, where=k != x), "T")
    s = create_schedule(T)
    s[T].overcompute()
    assert "select" not in text(s)
    run(s, CONFIG, random_inputs([T], seed=1))


def test_a_number_that_is_not_what_is_wanted_is_named():
    T = sum_over(9, lambda k: (k * k).astype("int32"), lambda k: k > 3)
    s = create_schedule(T)
    raises(PaddingError, s[T].overcompute, mentions=("overcompute", "stage T", 0, 1, "T[0]", "T(_=0, k=1)"))


def test_iterations_that_add_nothing_need_not_run():
    T = sum_over(9, lambda k: (k // 4).astype("int32") * 3, lambda k: k >= 0)
    s = create_schedule(T)
    s[T].reduce_extent("k")
    assert (s[T].op.reduce_axes[0].start, s[T].op.reduce_axes[0].extent) == (4, 5)
    run(s, CONFIG, random_inputs([T], seed=2))
