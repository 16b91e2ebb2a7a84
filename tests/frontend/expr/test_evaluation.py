"""The value of expressions: NumPy against a plain interpreter with unbounded integers, point by point."""

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lathe.frontend import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Compare,
    Const,
    Not,
    Read,
    Select,
    compute,
    const,
    evaluate,
    max,
    min,
    placeholder,
    reduce_axis,
    reference,
    select,
    sum,
)
from lathe.frontend.expr.dtypes import DTYPES

WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32}
SHAPE = (3, 4)


def cut(value, dtype):
    """``value`` modulo 2**width, in the range of the dtype."""
    if dtype == "bool":
        return int(value != 0)
    if dtype == "index":
        return value
    width = WIDTHS[dtype]
    low = value % (1 << width)
    return low - (1 << width) if dtype.startswith("int") and low >> (width - 1) else low


def shift(value, amount):
    return value << amount if amount >= 0 else value >> -amount


def plain(expr, axes, arrays):
    """The definition of the language, one point at a time."""

    def of(e):
        return plain(e, axes, arrays)

    match expr:
        case Const(value=value):
            return value
        case AxisRef(axis=axis):
            return axes[axis]
        case Read(tensor=tensor, indices=indices):
            return int(arrays[tensor][tuple(of(index) for index in indices)])
        case Cast(operand=operand, dtype=dtype):
            return cut(of(operand), dtype)
        case Not(operand=operand):
            return 1 - of(operand)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return of(then) if of(condition) else of(otherwise)
        case Compare(op=op, lhs=lhs, rhs=rhs):
            a, b = of(lhs), of(rhs)
            return int({"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[op])
        case Binary(op=op, lhs=lhs, rhs=rhs):
            a, b = of(lhs), of(rhs)
            bounded = sorted((-64, b, 64))[1]
            value = {
                "add": lambda: a + b,
                "sub": lambda: a - b,
                "mul": lambda: a * b,
                "min": lambda: sorted((a, b))[0],
                "max": lambda: sorted((a, b))[1],
                "shr": lambda: shift(a, -bounded),
                "shl": lambda: shift(a, bounded),
                "rounding_shift": lambda: round(Fraction(a, 2**bounded)) if bounded > 0 else shift(a, -bounded),
                "floordiv": lambda: a // b if b else 0,
                "mod": lambda: a % b if b else 0,
                "and": lambda: a & b,
                "or": lambda: a | b,
            }[op]()
            return cut(value, expr.dtype)
    raise AssertionError(expr)


@st.composite
def programs(draw):
    """A tensor over two axes from random expressions of one dtype, and its inputs."""
    dtype = draw(st.sampled_from(sorted(WIDTHS)))
    other = draw(st.sampled_from(sorted(WIDTHS)))
    A, B = placeholder(SHAPE, dtype, "A"), placeholder(SHAPE[1:], other, "B")
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    arrays = {}
    for tensor in (A, B):
        kind = DTYPES[tensor.dtype]
        values = generator.integers(kind.minimum, kind.maximum, tensor.shape, kind.numpy, endpoint=True)
        small = generator.integers(0 if kind.minimum == 0 else -9, 9, tensor.shape, endpoint=True).astype(kind.numpy)
        extreme = generator.choice(np.array([kind.minimum, kind.maximum, 0], kind.numpy), tensor.shape)
        arrays[tensor] = [values, small, extreme][draw(st.integers(0, 2))]
    y, x = Axis("y", SHAPE[0]), Axis("x", SHAPE[1])
    kind = DTYPES[dtype]
    constants = st.one_of(
        st.integers(sorted((kind.minimum, -40))[1], 40), st.sampled_from([kind.minimum, kind.maximum])
    ).map(lambda value: const(value, dtype))
    leaves = st.one_of(
        st.just(A[y, x]), st.just(A[SHAPE[0] - 1 - AxisRef(y), x]), st.just(B[x].astype(dtype)),
        st.just((AxisRef(y) * 3 + x).astype(dtype)), constants,
    )  # fmt: skip

    def larger(inner):
        operations = ["add", "sub", "mul", "min", "max", "shr", "shl", "rounding_shift", "floordiv", "mod"]
        compared = st.builds(Compare, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), inner, inner)
        boolean = st.one_of(
            compared,
            st.builds(Not, compared),
            st.builds(Binary, st.sampled_from(["and", "or"]), compared, compared),
            st.builds(lambda e: Cast(e, "bool"), inner),
        )
        return st.one_of(
            st.builds(Binary, st.sampled_from(operations), inner, inner),
            st.builds(Binary, st.sampled_from(["shr", "shl"]), inner, constants),
            st.builds(select, boolean, inner, inner),
            st.builds(lambda e, d: e.astype(d).astype(dtype), inner, st.sampled_from(sorted(WIDTHS))),
            st.builds(lambda e: e.astype(dtype), boolean),
        )

    body = draw(st.recursive(leaves, larger, max_leaves=10))
    return body, (y, x), arrays


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs())
def test_vectorised_values_equal_the_definition_at_every_point(program):
    body, (y, x), arrays = program
    expected = np.array(
        [[plain(body, {y: a, x: b}, arrays) for b in range(SHAPE[1])] for a in range(SHAPE[0])],
        DTYPES[body.dtype].numpy,
    )
    mesh = {y: np.arange(SHAPE[0])[:, None], x: np.arange(SHAPE[1])}
    actual = evaluate(body, {**arrays, **mesh})
    assert actual.dtype == expected.dtype
    assert np.array_equal(np.broadcast_to(actual, SHAPE), expected)
    C = compute(SHAPE, lambda *p: rebuilt(body, dict(zip((y, x), p, strict=True))), "C")
    result = reference(C, {t.name: a for t, a in arrays.items() if t in {r.tensor for r in C.computation.reads}})
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)
    at = evaluate(body, {**arrays, y: 1, x: 2})
    assert at.shape == ()
    assert at == expected[1, 2]


def rebuilt(body, axes):
    from lathe.frontend import substitute

    return substitute(body, axes)


def test_shifts_follow_the_machine():
    values = np.array([5, -5, 2**31 - 1, -(2**31)], np.int32)
    A = placeholder((4,), "int32", "A")
    S = placeholder((1,), "int32", "S")
    shifted = compute((4,), lambda i: A[i] >> S[0], "C")
    for amount, expected in [
        (1, [2, -3, 2**30 - 1, -(2**30)]),
        (31, [0, -1, 0, -1]),
        (32, [0, -1, 0, -1]),
        (1000, [0, -1, 0, -1]),
        (2**31 - 1, [0, -1, 0, -1]),
        (-1, [10, -10, -2, 0]),
        (-31, [-(2**31), -(2**31), -(2**31), 0]),
        (-32, [0, 0, 0, 0]),
        (-(2**31), [0, 0, 0, 0]),
    ]:
        result = reference(shifted, {"A": values, "S": np.array([amount], np.int32)})
        assert result.tolist() == expected, amount


def test_a_reduction_evaluates_at_bound_axes():
    A = placeholder((6, 5), "int8", "A")
    k, r = reduce_axis((1, 4), "k"), reduce_axis((0, 2), "r")
    y = Axis("y", 4)
    a = np.random.default_rng(1).integers(-128, 128, (6, 5), np.int8)
    for reduction, combine in ((sum, np.sum), (max, np.max), (min, np.min)):
        expr = reduction(A[AxisRef(y) + r, k], axis=(k, r))
        expected = [combine(a[n : n + 2, 1:4].astype(np.int64)) for n in range(4)]
        actual = evaluate(expr, {A: a, y: np.arange(4)})
        assert actual.dtype == np.int8
        assert np.array_equal(actual, np.array(expected).astype(np.int8))
        assert evaluate(expr, {A: a, y: 2}) == np.array(expected[2]).astype(np.int8)


def test_reads_in_a_branch_not_taken_are_harmless():
    A = placeholder((4,), "int8", "A")
    y = Axis("y", 6)
    expr = select((AxisRef(y) >= 1) & (AxisRef(y) < 5), A[AxisRef(y) - 1], -1)
    actual = evaluate(expr, {A: np.array([1, 2, 3, 4], np.int8), y: np.arange(6)})
    assert actual.tolist() == [-1, 1, 2, 3, 4, -1]
