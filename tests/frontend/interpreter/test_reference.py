"""The NumPy reference interpreter: every way to evaluate a computation gives the same bits."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lathe.frontend import (
    AxisRef,
    compute,
    evaluate,
    max,
    min,
    placeholder,
    placeholders,
    prod,
    reduce_axis,
    reference,
    select,
    sum,
    topological,
)
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.interpreter.contraction import as_contraction


def random_array(generator, shape, dtype, kind="all"):
    limits = DTYPES[dtype]
    if kind == "extreme":
        return generator.choice(np.array([limits.minimum, limits.maximum], limits.numpy), shape)
    return generator.integers(limits.minimum, limits.maximum, shape, limits.numpy, endpoint=True)


def materialised(tensor, inputs):
    """The value with every point of the domain, reductions included, in memory at once."""
    computation = tensor.computation
    arrays = {t: inputs[t.name] for t in placeholders(tensor)}
    count = len(computation.axes)
    mesh = {a: np.arange(a.extent).reshape([-1] + [1] * (count - 1 - p)) for p, a in enumerate(computation.axes)}
    value = evaluate(computation.bodies[0], {**arrays, **mesh})
    return np.broadcast_to(value, computation.shape)


@st.composite
def sums_of_products(draw):
    """A reduction of a product of two reads whose axes are shared, owned or absent in every combination."""
    dtype = draw(st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint32"]))
    narrow = draw(st.sampled_from(["int8", dtype]))
    if DTYPES[dtype].minimum == 0:
        narrow = dtype
    extents = draw(st.lists(st.integers(1, 4), min_size=5, max_size=5))
    shape = tuple(extents[:3])
    r, s = reduce_axis((1, 1 + extents[3]), "r"), reduce_axis((0, extents[4]), "s")
    coefficients = st.lists(st.sampled_from([0, 0, 1, 1, 2, -1]), min_size=5, max_size=5)
    forms = [[draw(coefficients) for _ in range(2)] for _ in range(2)]
    axes_ranges = [(0, e - 1) for e in shape] + [(1, extents[3]), (0, extents[4] - 1)]
    tensors, offsets = [], []
    for name, both in zip("AB", forms, strict=True):
        lows, sizes = [], []
        for form in both:
            ends = [(f * lo, f * hi) for f, (lo, hi) in zip(form, axes_ranges, strict=True)]
            low, high = int(np.sum([sorted(e)[0] for e in ends])), int(np.sum([sorted(e)[1] for e in ends]))
            lows.append(-low)
            sizes.append(high - low + 1)
        tensors.append(placeholder(tuple(sizes), narrow, name))
        offsets.append(lows)

    def body(*points):
        values = (*points, AxisRef(r), AxisRef(s))
        factors = []
        for tensor, both, low in zip(tensors, forms, offsets, strict=True):
            indices = []
            for form, offset in zip(both, low, strict=True):
                index = AxisRef(r) * 0 + offset
                for factor, value in zip(form, values, strict=True):
                    index = index + value * factor
                indices.append(index)
            factors.append(tensor[tuple(indices)].astype(dtype))
        return sum(factors[0] * factors[1], axis=(r, s))

    kind = draw(st.sampled_from(["all", "extreme"]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return compute(shape, body, "C"), {t.name: random_array(generator, t.shape, narrow, kind) for t in tensors}


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(sums_of_products())
def test_sums_of_products_are_exact_for_every_assignment_of_axes(program):
    C, inputs = program
    result = reference(C, inputs)
    expected = materialised(C, inputs)
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)


def matrices(dtype, rows, columns, inner):
    A, B = placeholder((rows, inner), dtype, "A"), placeholder((columns, inner), dtype, "B")
    wide = "int32" if dtype == "int8" else dtype
    k = reduce_axis(inner, "k")
    return compute((rows, columns), lambda i, j: sum(A[i, k].astype(wide) * B[j, k].astype(wide), axis=k), "C")


@pytest.mark.parametrize("inner", [1, 1023, 1024, 1025, 3000])
@pytest.mark.parametrize("fill", [(-128, -128), (-128, 127), (127, 127)])
def test_products_of_extreme_int8_are_exact_at_the_limits_of_float32(inner, fill):
    C = matrices("int8", 3, 2, inner)
    a, b = np.full((3, inner), fill[0], np.int8), np.full((2, inner), fill[1], np.int8)
    a[0, 0], b[1, -1] = 1, 3
    expected = a.astype(np.int64) @ b.T.astype(np.int64)
    assert np.array_equal(reference(C, {"A": a, "B": b}), expected.astype(np.int32))


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint32"])
def test_wide_products_wrap_around(dtype):
    C = matrices(dtype, 5, 4, 700)
    generator = np.random.default_rng(2)
    a, b = (random_array(generator, shape, dtype) for shape in ((5, 700), (4, 700)))
    expected = np.array([[sum_modulo(a[i], b[j], dtype) for j in range(4)] for i in range(5)], a.dtype)
    assert np.array_equal(reference(C, {"A": a, "B": b}), expected)


def sum_modulo(a, b, dtype):
    total = int(np.sum(a.astype(object) * b.astype(object)))
    bits = DTYPES[dtype].bits
    total %= 1 << bits
    return total - (1 << bits) if DTYPES[dtype].minimum < 0 and total >> (bits - 1) else total


def test_large_operands_are_contracted_in_blocks():
    C = matrices("int8", 3000, 7, 900)
    generator = np.random.default_rng(3)
    a, b = (random_array(generator, shape, "int8") for shape in ((3000, 900), (7, 900)))
    assert np.array_equal(reference(C, {"A": a, "B": b}), a.astype(np.int32) @ b.T.astype(np.int32))


def test_blocks_of_a_shared_axis_slice_both_operands():
    A, B = placeholder((3, 40, 300, 50), "int8", "A"), placeholder((40, 50, 3), "int8", "B")
    k = reduce_axis(50, "k")
    C = compute(
        (3, 40, 300),
        lambda g, b, i: sum(A[g, b, i, k].astype("int32") * B[b, k, g].astype("int32"), axis=k),
        "C",
    )
    generator = np.random.default_rng(4)
    a, b = random_array(generator, A.shape, "int8"), random_array(generator, B.shape, "int8")
    expected = np.einsum("gbik,bkg->gbi", a.astype(np.int32), b.astype(np.int32))
    assert np.array_equal(reference(C, {"A": a, "B": b}), expected)


def test_factors_may_be_whole_expressions():
    A, B = placeholder((9, 9), "int8", "A"), placeholder((9, 9), "int8", "B")
    k = reduce_axis(9, "k")

    def body(i, j):
        guarded = select((i + k >= 1) & (i + k < 9), A[i + k - 1, k], 3).astype("int32")
        return sum(guarded * max(B[j, k] * 2, (k * 5).astype("int8")).astype("int32"), axis=k)

    C = compute((9, 9), body, "C")
    assert as_contraction(C.computation.axes, C.computation.bodies[0]) is not None
    generator = np.random.default_rng(5)
    inputs = {name: random_array(generator, (9, 9), "int8") for name in "AB"}
    assert np.array_equal(reference(C, inputs), materialised(C, inputs))


@pytest.mark.parametrize("reduction", [sum, prod, max, min])
def test_reductions_run_in_blocks_when_their_domain_is_large(reduction):
    A = placeholder((600, 70, 60), "int16", "A")
    r, s = reduce_axis((10, 70), "r"), reduce_axis(60, "s")
    C = compute((600, 3), lambda i, j: reduction(A[i, r, s] + j.astype("int16"), axis=(r, s)), "C")
    a = random_array(np.random.default_rng(6), A.shape, "int16")
    shifted = a[:, None, 10:] + np.arange(3, dtype=np.int16)[:, None, None]
    combine = {sum: np.add, prod: np.multiply, max: np.maximum, min: np.minimum}[reduction]
    assert np.array_equal(reference(C, {"A": a}), combine.reduce(shifted, axis=(2, 3), dtype=np.int16))


def test_a_reduction_counts_points_that_its_body_ignores():
    A = placeholder((5,), "int32", "A")
    r, s = reduce_axis((3, 10), "r"), reduce_axis(6, "s")
    C = compute((5,), lambda i: sum(A[i], axis=(r, s)), "C")
    D = compute((5,), lambda i: sum(A[i] * A[s - s], axis=(r, s)), "D")
    a = np.array([1, -2, 3, 2**30, -(2**31)], np.int32)
    with np.errstate(over="ignore"):
        assert np.array_equal(reference(C, {"A": a}), a * np.int32(42))
        assert np.array_equal(reference(D, {"A": a}), a * a[0] * np.int32(42))


def test_a_full_reduction_gives_an_array_of_rank_0():
    A = placeholder((1000, 300), "int32", "A")
    r, s = reduce_axis(1000, "r"), reduce_axis(300, "s")
    total = compute((), lambda: sum(A[r, s], axis=(r, s)), "total")
    largest = compute((), lambda: max(A[r, s], axis=(r, s)), "largest")
    plus = compute((3,), lambda i: total[()] + i.astype("int32"), "plus")
    a = random_array(np.random.default_rng(7), A.shape, "int32")
    assert reference(total, {"A": a}).shape == ()
    assert reference(total, {"A": a}) == a.sum(dtype=np.int32)
    assert reference(largest, {"A": a}) == a.max()
    assert np.array_equal(reference(plus, {"A": a}), a.sum(dtype=np.int32) + np.arange(3, dtype=np.int32))


def test_division_by_constants_is_split_into_axes_and_stays_exact():
    A = placeholder((4, 6, 5), "int8", "A")
    W = placeholder((12, 3), "int8", "W")
    r = reduce_axis(3, "r")
    a = random_array(np.random.default_rng(8), A.shape, "int8")
    w = random_array(np.random.default_rng(9), W.shape, "int8")
    flat = compute((120,), lambda f: A[f // 30, f // 5 % 6, f % 5], "flat")
    assert np.array_equal(reference(flat, {"A": a}), a.reshape(-1))
    odd = compute((7,), lambda f: A[f // 3, f % 4, (f + 1) // 2], "odd")
    assert np.array_equal(reference(odd, {"A": a}), [a[f // 3, f % 4, (f + 1) // 2] for f in range(7)])
    grouped = compute(
        (12, 5),
        lambda o, x: sum(A[1, o // 4 + r, x].astype("int32") * W[o, r].astype("int32"), axis=r),
        "grouped",
    )
    expected = [
        [np.sum(a[1, o // 4 : o // 4 + 3, x].astype(np.int32) * w[o].astype(np.int32)) for x in range(5)]
        for o in range(12)
    ]
    assert np.array_equal(reference(grouped, {"A": a, "W": w}), expected)


def test_reduction_axes_that_do_not_start_at_0_may_be_divided():
    A = placeholder((6, 4), "int32", "A")
    r, q = reduce_axis((2, 10), "r"), reduce_axis(8, "q")
    C = compute((3,), lambda i: sum(A[r // 2 + i % 2, r % 4] * A[q // 2, q % 2 + i], axis=(r, q)), "C")
    inputs = {"A": random_array(np.random.default_rng(15), (6, 4), "int32")}
    assert np.array_equal(reference(C, inputs), materialised(C, inputs))


def test_conditions_that_are_boxes_and_those_that_are_not_agree():
    A = placeholder((8, 8), "int32", "A")
    a = random_array(np.random.default_rng(10), A.shape, "int32")
    n = np.arange(8)
    y, x = n[:, None], n
    for condition in (
        lambda y, x: (y > 2) & (x <= 4),
        lambda y, x: (y == 3) & (7 - x > 1),
        lambda y, x: (2 * y >= 3) & (3 * x < 16) & (y * -2 > -11),
        lambda y, x: (2 * y > 4) & (3 * x <= 16) & (y * -2 >= -9),
        lambda y, x: (4 * y <= 17) & (x * 2 - 4 < 3) & (3 * y + 1 > 5),
        lambda y, x: (y * 2 == 6) & (x <= 5),
        lambda y, x: (y * 2 == 7) & (x <= 5),
        lambda y, _: y > 9,
        lambda _, x: x >= 0,
        lambda y, x: y + x < 7,
        lambda y, x: y != x,
        lambda y, x: (y > 2) | (x > 2),
    ):
        C = compute((8, 8), lambda y, x, condition=condition: select(condition(y, x), A[y, x] + x.astype("int32"), -1))
        expected = np.where(condition(y, x), a + x.astype(np.int32), -1)
        result = reference(C, {"A": a})
        assert result.dtype == np.int32
        assert np.array_equal(result, expected)


def test_nested_conditions_and_gathers():
    A = placeholder((8,), "int8", "A")
    T = placeholder((256,), "int8", "table")
    looked_up = compute((8,), lambda i: T[A[i].astype("index") + 128], "looked_up")
    nested = compute((10,), lambda i: select(i < 8, select(i >= 2, A[i - 2], 1), select(i == 9, A[0], 2)), "nested")
    a = random_array(np.random.default_rng(11), (8,), "int8")
    t = random_array(np.random.default_rng(12), (256,), "int8")
    results = reference([looked_up, nested], {"A": a, "table": t})
    assert np.array_equal(results["looked_up"], t[a.astype(int) + 128])
    assert results["nested"].tolist() == [1, 1, *a[:6].tolist(), 2, int(a[0])]


def test_several_outputs_come_back_by_name_and_one_as_an_array():
    A = placeholder((4, 6), "int8", "A")
    k = reduce_axis(6, "k")
    total, largest = compute((4,), lambda i: (sum(A[i, k].astype("int32"), axis=k), max(A[i, k], axis=k)), "stats")
    scaled = compute((4,), lambda i: total[i] * largest[i].astype("int32"), "scaled")
    a = random_array(np.random.default_rng(13), (4, 6), "int8")
    results = reference((scaled, total, A), {"A": a})
    assert list(results) == ["scaled", "stats.0", "A"]
    assert np.array_equal(results["stats.0"], a.sum(1, dtype=np.int32))
    assert np.array_equal(results["scaled"], a.sum(1, dtype=np.int32) * a.max(1).astype(np.int32))
    assert np.array_equal(reference(scaled, {"A": a}), results["scaled"])


def test_results_are_arrays_of_their_own():
    A = placeholder((4,), "int8", "A")
    same = compute((4,), lambda i: A[i], "same")
    twice = compute((4,), lambda i: (A[i] + A[i], A[i] + A[i]), "twice")
    a = np.array([1, 2, 3, 4], np.int8)
    for result in (reference(same, {"A": a}), reference(A, {"A": a}), *reference(twice, {"A": a}).values()):
        assert result.flags.writeable
        assert result.flags.c_contiguous
        result[...] = 0
    assert a.tolist() == [1, 2, 3, 4]


def test_inputs_need_not_be_contiguous():
    C = matrices("int8", 4, 6, 5)
    generator = np.random.default_rng(14)
    a, b = random_array(generator, (5, 4), "int8").T, random_array(generator, (6, 10), "int8")[:, ::-2]
    assert np.array_equal(reference(C, {"A": a, "B": b}), a.astype(np.int32) @ b.T.astype(np.int32))


def test_programs_are_in_order_producers_first_and_each_once():
    A, B = placeholder((4,), "int32", "A"), placeholder((4,), "int32", "B")
    first = compute((4,), lambda i: B[i] + 1, "first")
    second = compute((4,), lambda i: first[i] + A[i], "second")
    third = compute((4,), lambda i: first[i] * second[i], "third")
    assert [c.name for c in topological(third)] == ["first", "second", "third"]
    assert [c.name for c in topological([second, third, first])] == ["first", "second", "third"]
    assert [t.name for t in placeholders(third)] == ["B", "A"]
    assert placeholders(A) == (A,)


def test_long_chains_do_not_exhaust_the_stack():
    tensor = placeholder((2,), "int32", "A")
    for step in range(1500):
        tensor = compute((2,), lambda i, previous=tensor: previous[i] + 1, f"step{step}")
    assert reference(tensor, {"A": np.array([0, 5], np.int32)}).tolist() == [1500, 1505]
