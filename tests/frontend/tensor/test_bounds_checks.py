"""The bounds check agrees with enumerating every point, and its error names a point that is outside."""

import itertools
import re

import hypothesis.strategies as st
import pytest
from error_checks import raises
from hypothesis import given, settings

from lathe.frontend import DomainError, compute, evaluate, max, min, placeholder, reduce_axis, select, sum

A = placeholder((8, 8), "int32", "A")
V = placeholder((10,), "int8", "V")


def accepted(shape, function):
    try:
        compute(shape, function, "C")
    except DomainError:
        return False
    return True


@pytest.mark.parametrize(
    ("shape", "function", "inside"),
    [
        ((8, 8), lambda y, x: A[y, x], True),
        ((9, 8), lambda y, x: A[y, x], False),
        ((7, 8), lambda y, x: A[y + 1, x], True),
        ((8, 8), lambda y, x: A[y, 7 - x], True),
        ((8, 8), lambda y, x: A[y, 8 - x], False),
        ((10, 10), lambda y, x: select((y >= 1) & (y < 9) & (x >= 1) & (x < 9), A[y - 1, x - 1], 0), True),
        ((10, 10), lambda y, x: select((y >= 1) & (y <= 9) & (x >= 1) & (x < 9), A[y - 1, x - 1], 0), False),
        ((10, 10), lambda y, x: select((y < 1) | (y > 8) | (x < 1) | (x > 8), 0, A[y - 1, x - 1]), True),
        ((10, 10), lambda y, x: select((y < 1) | (y > 8) | (x < 1), 0, A[y - 1, x - 1]), False),
        ((10, 10), lambda y, x: select(~((y > 7) | (x > 7)), A[y, x], 0), True),
        ((16, 4), lambda y, x: select(y % 2 == 0, A[y // 2, x], A[(y - 1) // 2, 7 - x]), True),
        ((17, 4), lambda y, x: A[y // 2, x], False),
        ((64,), lambda f: A[f // 8, f % 8], True),
        ((65,), lambda f: A[f // 8, f % 8], False),
        ((8, 8), lambda y, x: select(y + x < 8, A[y + x, 0], 0), True),
        ((8, 8), lambda y, x: select(y + x <= 8, A[y + x, 0], 0), False),
        ((4,), lambda x: A[x * x - 2, 0], False),
        ((4, 3), lambda x, r: V[x * x + r - r], True),
        ((4, 3), lambda x, r: V[x * x + r], False),
        ((4, 3), lambda x, r: select(x * x + r < 10, V[x * x + r], 0), True),
        ((4, 3), lambda x, r: select((x < 3) | (r < 1), V[x * x + r], 0), True),
        ((4, 3), lambda x, r: select((x < 3) | (r < 2), V[x * x + r], 0), False),
        ((8,), lambda x: V[min(max(V[x].astype("index"), 0), 9)], True),
        ((8,), lambda x: V[V[x]], False),
        ((8,), lambda x: V[V[x].astype("index") % 10], True),
        ((8,), lambda x: V[(V[x] >> 5) + 4], True),
        ((12,), lambda x: V[select(x < 10, x, 0)], True),
        ((12,), lambda x: V[select(x < 11, x, 0)], False),
        ((12,), lambda x: V[min(x, 9)], True),
        ((12,), lambda x: select((x < 10) & (V[0] > 0), V[x], 0), True),
        ((12,), lambda x: select((x < 10) | (V[0] > 0), V[x], 0), False),
        ((12,), lambda x: select((x >= 10) | (V[0] > 0), 0, V[x]), True),
        ((8, 8), lambda y, x: A[select(x > 3, x - 3, x), y], True),
    ],
)
def test_reads_are_accepted_exactly_when_they_stay_inside(shape, function, inside):
    assert accepted(shape, function) == inside


def test_the_reduction_domain_counts():
    k = reduce_axis((2, 10), "k")
    assert accepted((1,), lambda i: sum(V[i + k].astype("int32"), axis=k))
    assert not accepted((2,), lambda i: sum(V[i + k].astype("int32"), axis=k))
    assert accepted((2,), lambda i: sum(select(i + k < 10, V[i + k], 0), axis=k))


def test_a_pipeline_that_reads_rows_never_computed_is_refused():
    """by reads bx two rows below its own; bx has only as many rows as by."""
    image = placeholder((100, 200, 3), "int32", "input")
    bx = compute((98, 198, 3), lambda i, j, c: image[i, j, c] + image[i, j + 1, c] + image[i, j + 2, c], "bx")
    function = lambda i, j, c: bx[i, j, c] + bx[i + 1, j, c] + bx[i + 2, j, c]  # noqa: E731
    raises(DomainError, compute, (98, 198, 3), function, "by", mentions=("bx[98, 0, 0]", "i = 97, j = 0, c = 0"))


def test_a_large_guarded_domain_is_checked_without_visiting_it():
    big = placeholder((1 << 20, 1 << 20), "int8", "big")
    size = (1 << 20) + 2
    assert accepted((size, size), lambda y, x: select((y > 0) & (y < size - 1) & (x > 0) & (x < size - 1),
                                                      big[y - 1, x - 1], 0))  # fmt: skip


def test_a_read_that_cannot_be_decided_is_refused_with_the_reason():
    wide = placeholder((1 << 40,), "int8", "wide")
    shape, function = (1 << 14, 1 << 14), lambda y, x: wide[y * x * x * x - y]
    raises(DomainError, compute, shape, function, "C", mentions=("wide[y * x * x * x - y]", "not affine", 268435456))


def terms(axes):
    x, y, k = axes
    return {
        "x": x, "y": y, "k": k + 0, "x+y": x + y, "x-k": x - k, "2x": x * 2, "y//2": y // 2, "y%3": y % 3,
        "x*y": x * y, "x*x": x * x, "(x+k)//3": (x + k) // 3, "min": min(x, y), "sel": select(x < y, x, y),
    }  # fmt: skip


KEYS = ["x", "y", "k", "x+y", "x-k", "2x", "y//2", "y%3", "x*y", "x*x", "(x+k)//3", "min", "sel"]
COMPARISONS = st.tuples(st.sampled_from(KEYS), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-2, 12))


def conditions():
    return st.recursive(
        COMPARISONS,
        lambda inner: st.one_of(
            st.tuples(st.just("and"), inner, inner),
            st.tuples(st.just("or"), inner, inner),
            st.tuples(st.just("not"), inner),
        ),
        max_leaves=4,
    )


def built(condition, values):
    if condition[0] == "and":
        return built(condition[1], values) & built(condition[2], values)
    if condition[0] == "or":
        return built(condition[1], values) | built(condition[2], values)
    if condition[0] == "not":
        return ~built(condition[1], values)
    term, op, limit = condition
    value = values[term]
    return {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit,
            "==": value == limit, "!=": value != limit}[op]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.sampled_from(KEYS), st.integers(-3, 3), st.integers(4, 14), conditions(), st.booleans())
def test_the_verdict_and_the_point_agree_with_visiting_every_point(key, offset, extent, condition, taken):
    target = placeholder((extent,), "int32", "T")
    k = reduce_axis((-1, 3), "k")
    seen = {}

    def function(x, y):
        values = terms((x, y, k))
        seen["index"] = values[key] + offset
        seen["condition"] = built(condition, values)
        read = target[seen["index"]]
        seen["axes"] = (x.axis, y.axis, k)
        return sum(select(seen["condition"], read, 0) if taken else select(seen["condition"], 0, read), axis=k)

    message = None
    try:
        compute((5, 4), function, "C")
    except DomainError as error:
        message = str(error)
    outside = {}
    for x, y, r in itertools.product(range(5), range(4), range(-1, 3)):
        point = dict(zip(seen["axes"], (x, y, r), strict=True))
        index = int(evaluate(seen["index"], point))
        if bool(evaluate(seen["condition"], point)) == taken and not 0 <= index < extent:
            outside[(x, y, r)] = index
    if message is None:
        assert not outside
    else:
        found = re.search(r"not reach T\[(-?\d+)\] at x = (-?\d+), y = (-?\d+), k = (-?\d+)\.", message)
        assert found is not None
        index, *point = map(int, found.groups())
        assert outside[tuple(point)] == index
