"""Tensors that are computed from earlier elements of themselves."""

import numpy as np
import pytest

from lathe.frontend import (
    DomainError,
    compute,
    define,
    find_recurrences,
    format_program,
    placeholder,
    placeholders,
    recurrence,
    reduce_axis,
    reference,
    select,
    state,
    sum,
    topological,
)


def random(tensor, seed=0):
    return np.random.default_rng(seed).integers(-100, 100, tensor.shape).astype(tensor.dtype)


def test_a_cumulative_sum():
    x = placeholder(64, "int32", "x")
    total = recurrence(64, lambda total, t: total[t - 1] + x[t], init=0, name="total")
    values = random(x)
    np.testing.assert_array_equal(reference(total, {"x": values}), np.cumsum(values))


def test_only_axes_that_carry_a_dependence_are_sequential():
    x = placeholder((3, 50, 4), "int32", "x")
    rows = recurrence(x.shape, lambda rows, i, t, j: rows[i, t - 1, j] * 3 + x[i, t, j], init=7, name="rows")
    (cycle,) = find_recurrences(topological(rows))
    assert (cycle.depth, cycle.carrying) == (2, (1,))
    values = random(x)
    expected, before = np.empty(x.shape, np.int32), np.full((3, 4), 7, np.int32)
    for t in range(50):
        before = expected[:, t] = before * 3 + values[:, t]
    np.testing.assert_array_equal(reference(rows, {"x": values}), expected)


def test_init_by_a_tensor_and_by_a_function_of_the_indices():
    first = placeholder(5, "int32", "first")
    a = recurrence((4, 5), lambda a, t, n: a[t - 1, n] + n.astype("int32"), init=first, name="a")
    b = recurrence(
        (4, 5), lambda b, t, n: b[t - 3, n - 1] + 1, init=lambda t, n: (t * 10 + n).astype("int32"), name="b"
    )
    values = random(first)
    found = reference([a, b], {"first": values})
    np.testing.assert_array_equal(found["a"], values + np.arange(5) * np.arange(1, 5)[:, None])
    expected = np.empty((4, 5), np.int64)
    for t in range(4):
        for n in range(5):
            expected[t, n] = 1 + (expected[t - 3, n - 1] if t >= 3 and n >= 1 else (t - 3) * 10 + n - 1)
    np.testing.assert_array_equal(found["b"], expected)


def test_two_states_that_read_each_other_by_a_tuple():
    fibonacci, before = recurrence(
        20,
        lambda f, b, t: (f[t - 1] + b[t - 1], f[t - 1]),
        init=(1, 0),
        name=("fibonacci", "before"),
        dtype=("int32", "int32"),
    )
    found = reference([fibonacci, before], {})
    assert found["fibonacci"][:8].tolist() == [1, 2, 3, 5, 8, 13, 21, 34]
    assert found["before"][:4].tolist() == [1, 1, 2, 3]


def test_a_recurrence_of_two_computations():
    W = placeholder((6, 6), "int8", "W")
    k = reduce_axis(6, "k")
    h = state((5, 6), "int8", "h", init=1)
    product = compute(
        (5, 6), lambda t, n: sum(W[n, k].astype("int32") * h[t - 1, k].astype("int32"), axis=k), "product"
    )
    define(h, lambda t, n: (product[t, n] >> 4).astype("int8"))
    (cycle,) = find_recurrences([h.computation])
    assert [each.name for each in cycle.computations] == ["product", "h"]
    assert topological(product) == topological(h) == cycle.computations
    assert placeholders(h) == (W,)
    weights = random(W)
    expected, before = [], np.ones(6, np.int64)
    for _ in range(5):
        before = (weights.astype(np.int64) @ before >> 4).astype(np.int8).astype(np.int64)
        expected.append(before)
    np.testing.assert_array_equal(reference(h, {"W": weights}), expected)


def test_computations_outside_a_recurrence_read_its_state():
    x = placeholder(8, "int32", "x")
    total = recurrence(8, lambda total, t: total[t - 1] + x[t], init=0, name="total")
    last = compute(1, lambda i: total[7 - i] + total[i - 1], "last")  # one read is before the first element
    values = random(x)
    assert reference(last, {"x": values})[0] == values.sum()


def test_states_without_a_recurrence_are_tensors():
    s = state(4, name="s")
    after = compute(4, lambda i: s[i] + 1, "after")
    define(s, lambda i: i.astype("int32") * 2)
    assert find_recurrences(topological(after)) == ()
    assert reference(after, {}).tolist() == [1, 3, 5, 7]


def test_computations_of_a_recurrence_may_have_different_extents():
    s = state((6, 3), name="s", init=0)
    twice = compute((4, 3), lambda t, n: s[t, n] * 2, "twice")
    define(s, lambda t, n: select((t > 0) & (t < 5), twice[select(t > 4, 0, t - 1), n], 1) + 1)
    expected = np.empty((6, 3), np.int64)
    for t in range(6):
        expected[t] = 1 + (expected[t - 1] * 2 if 0 < t < 5 else 1)
    np.testing.assert_array_equal(reference(s, {}), expected)


def test_the_text_of_a_recurrence():
    x = placeholder(4, "int32", "x")
    total = recurrence(4, lambda total, t: total[t - 1] + x[t], init=0, name="total")
    assert format_program(total) == (
        "placeholder x: int32[4]\n\n"
        "compute total: int32[4]\n"
        "  domain 0 <= t < 4\n"
        "  value  total[t] = select(t - 1 >= 0, total[t - 1], 0) + x[t]\n"
        "  reads  total[t - 1] where t - 1 >= 0\n"
        "  reads  x[t]\n"
    )


def test_a_triangle():
    pascal = recurrence(
        (8, 8),
        lambda p, n, k: select((k > 0) & (k < n), p[n - 1, k - 1] + p[n - 1, k], 1),
        name="pascal",
        where=lambda n, k: k <= n,
    )
    found = reference(pascal, {})
    assert found[7].tolist() == [1, 7, 21, 35, 35, 21, 7, 1]
    assert found[3].tolist() == [1, 3, 3, 1, 0, 0, 0, 0]


def test_reads_outside_the_domain_of_a_state_are_refused():
    s = state((4, 4), name="s", init=0)
    early = compute((4, 4), lambda i, j: s[i, j], "early")
    with pytest.raises(DomainError, match=r"s\["):
        define(s, lambda i, j: s[i - 1, j] + 1, where=lambda i, j: j <= i)
    assert s.computation is None
    define(s, lambda i, j: select((i > 0) & (j < i), s[i - 1, j], 0) + 1, where=lambda i, j: j <= i)
    with pytest.raises(DomainError):
        reference(early, {})
    assert reference(s, {})[3].tolist() == [4, 3, 2, 1]
