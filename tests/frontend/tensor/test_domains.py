"""Non-rectangular domains: which elements exist, which may be read, and their values."""

import numpy as np
import pytest

from lathe.frontend import (
    DomainError,
    compute,
    domain_of,
    evaluate,
    format_computation,
    max,
    min,
    placeholder,
    reduce_axis,
    reference,
    select,
    sum,
)

A = placeholder((8, 8), "int32", "A")
VALUES = np.arange(64, dtype=np.int32).reshape(8, 8)
I, J = np.indices((8, 8))

CONDITIONS = {
    "triangle": (lambda i, j: j <= i, J <= I),
    "band": (lambda i, j: (j <= i + 1) & (i <= j + 1), abs(I - J) <= 1),
    "union": (lambda i, j: (j < 2) | (i > 5), (J < 2) | (I > 5)),
    "stripes": (lambda i, j: (i + j) % 3 == 0, (I + J) % 3 == 0),
    "steps": (lambda i, j: i // 3 >= j // 2, I // 3 >= J // 2),
    "all but the diagonal": (lambda i, j: i + 0 != j, I != J),
    "not affine": (lambda i, j: i * j < 20, I * J < 20),
    "data": (lambda i, j: A[i, j] % 5 > 1, VALUES % 5 > 1),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_elements_outside_the_domain_are_zero(name):
    where, exists = CONDITIONS[name]
    T = compute((8, 8), lambda i, j: A[i, j] + 1, "T", where=where)
    np.testing.assert_array_equal(reference(T, {"A": VALUES}), np.where(exists, VALUES + 1, 0))


@pytest.mark.parametrize("name", CONDITIONS)
def test_reads_must_be_inside_the_domain(name):
    where, _ = CONDITIONS[name]
    T = compute((8, 8), lambda i, j: A[i, j], "T", where=where)
    same = compute((8, 8), lambda i, j: T[i, j] + 1, "same", where=where)
    assert reference(same, {"A": VALUES}).shape == (8, 8)
    guarded = compute((8, 8), lambda i, j: select(where(i, j), T[i, j], 0), "guarded")
    np.testing.assert_array_equal(reference(guarded, {"A": VALUES}), reference(T, {"A": VALUES}))
    with pytest.raises(DomainError):
        compute((8, 8), lambda i, j: T[i, j], "all")
    with pytest.raises(DomainError):
        compute((8, 7), lambda i, j: T[i, j + 1], "neighbours", where=lambda i, j: where(i, j) & (j < 6))


@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "data"])
def test_a_domain_is_exact(name):
    where, exists = CONDITIONS[name]
    T = compute((8, 8), lambda i, j: A[i, j], "T", where=where)
    points: list[tuple[int, ...]] = []
    domain_of(T.computation).foreach_point(
        lambda point: points.append(tuple(int(point.get_coordinate_val(3, d).to_python()) for d in range(2)))
    )
    assert sorted(points) == [tuple(map(int, point)) for point in np.argwhere(exists)]


def test_reads_of_a_domain_count_as_guarded_by_it():
    T = compute((8, 8), lambda i, j: A[i - j, j], "T", where=lambda i, j: j <= i)
    expected = np.array([[VALUES[i - j, j] if j <= i else 0 for j in range(8)] for i in range(8)])
    np.testing.assert_array_equal(reference(T, {"A": VALUES}), expected)


def test_a_domain_is_part_of_the_text_of_a_computation():
    T = compute((8, 8), lambda i, j: A[i - j, j], "T", where=lambda i, j: (j <= i) & (A[i, i] > 0))
    assert format_computation(T.computation) == (
        "compute T: int32[8, 8]\n"
        "  domain 0 <= i < 8 and 0 <= j < 8 and j <= i and A[i, i] > 0\n"
        "  value  T[i, j] = A[i - j, j]\n"
        "  reads  A[i - j, j]\n"
        "  reads  A[i, i]"
    )


@pytest.mark.parametrize(
    "always", [lambda i, j: i + j >= 0, lambda i, j: i * j < 50, lambda i, j: (i < 4) | (i + j > 3)]
)
def test_a_condition_that_always_holds_is_dropped(always):
    assert compute((8, 8), lambda i, j: A[i, j], "T", where=always).computation.where is None


def test_several_outputs_share_a_domain():
    low, high = compute((8, 8), lambda i, j: (A[i, j], A[i, j] * 2), "T", where=lambda i, j: j < i)
    found = reference([low, high], {"A": VALUES})
    np.testing.assert_array_equal(found["T.0"], np.tril(VALUES, -1))
    np.testing.assert_array_equal(found["T.1"], np.tril(VALUES * 2, -1))


def test_a_reduction_has_only_points_at_which_its_condition_holds():
    k = reduce_axis(8, "k")
    rows = compute((8,), lambda i: sum(A[i, k], axis=k, where=k <= i), "rows")
    np.testing.assert_array_equal(reference(rows, {"A": VALUES}), np.tril(VALUES).sum(axis=1))
    high = compute((8,), lambda i: max(A[i, k], axis=k, where=k < i), "high")
    least = np.iinfo(np.int32).min
    np.testing.assert_array_equal(reference(high, {"A": VALUES}), [least, *(VALUES[i, i - 1] for i in range(1, 8))])
    low = compute((8,), lambda i: min(A[i, k], axis=k, where=A[i, k] % 7 == 3), "low")
    expected = [next((v for v in row if v % 7 == 3), np.iinfo(np.int32).max) for row in VALUES]
    np.testing.assert_array_equal(reference(low, {"A": VALUES}), expected)


def test_the_condition_of_a_reduction_guards_its_reads():
    r = reduce_axis(3, "r")
    X = placeholder((8,), "int32", "X")
    T = compute((8,), lambda x: sum(X[x - r], axis=r, where=x >= r), "T")
    values = np.arange(8, dtype=np.int32) + 5
    np.testing.assert_array_equal(reference(T, {"X": values}), np.convolve(values, [1, 1, 1])[:8])


def test_a_computed_condition_is_evaluated_where_axes_are_bound_to_numbers():
    T = compute((8, 8), lambda i, j: A[i, j], "T", where=lambda i, j: j * i == 12)
    i, j = T.computation.axes
    assert [bool(evaluate(T.computation.where, {i: 3, j: n})) for n in (3, 4, 5)] == [False, True, False]
