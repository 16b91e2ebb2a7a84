"""Which expressions are affine over the ranges of their axes; ``test_index_domains.py`` has random ones."""

import builtins
import itertools

import pytest

from lathe.frontend import Axis, AxisRef, as_affine, const, max, min, select

X, Y, Z = Axis("x", 5), Axis("y", 7, start=-2), Axis("z", 4, start=1)
x, y, z = AxisRef(X), AxisRef(Y), AxisRef(Z)
POINTS = [
    {X: a, Y: b, Z: c} for a, b, c in itertools.product(range(X.start, X.stop), range(Y.start, Y.stop), range(1, 5))
]


@pytest.mark.parametrize(
    ("expr", "constant", "coefficients"),
    [
        (const(5, "index"), 5, {}),
        (x, 0, {X: 1}),
        (x * 3 + y - 2, -2, {X: 3, Y: 1}),
        (2 * (x - y) * 3, 0, {X: 6, Y: -6}),
        (x - x, 0, {}),
        ((x * 8 + y + 2) // 8, 0, {X: 1}),
        ((x * 8 + y + 2) % 8, 2, {Y: 1}),
        ((x * 8 + y + 2) >> 3, 0, {X: 1}),
        (x // 5, 0, {}),
        (x % 5, 0, {X: 1}),
        ((x * 4 - 8) // 4, -2, {X: 1}),
        (min(x, 4), 0, {X: 1}),
        (max(x, y + 10), 10, {Y: 1}),
        (x.astype("int8") + 3, 3, {X: 1}),
        (x.astype("int8").astype("index") * 2, 0, {X: 2}),
    ],
)
def test_forms_that_are_affine_over_the_ranges_of_their_axes(expr, constant, coefficients):
    form = as_affine(expr)
    assert form is not None
    assert (form.const, dict(form.coefficients)) == (constant, coefficients)


@pytest.mark.parametrize(
    "expr",
    [x * y, x // 2, x % 3, (x * 100).astype("int8"), x.astype("int8") * 100, min(x, y), select(x > 0, x, 0), x < 3,
     (x + y) // 8, const(1, "index") << z],
)  # fmt: skip
def test_forms_that_are_not_affine(expr):
    assert as_affine(expr) is None


def test_bounds_are_attained():
    form = as_affine(x * 3 - y * 2 + 1)
    assert form is not None
    values = [3 * p[X] - 2 * p[Y] + 1 for p in POINTS]
    assert form.bounds() == (builtins.min(values), builtins.max(values))
