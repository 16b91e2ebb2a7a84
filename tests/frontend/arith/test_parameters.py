"""Parameters: symbolic extents, checks for all values, and bound programs."""

import numpy as np
import pytest

from lathe.frontend import (
    DomainError,
    compute,
    define,
    format_program,
    max,
    parameter,
    placeholder,
    recurrence,
    reduce_axis,
    reference,
    select,
    state,
    sum,
)
from lathe.frontend.tensor.bind_parameters import Binding, program_parameters

N, M = parameter("N", minimum=3), parameter("M")
A = placeholder((N, M), "int32", "A")


def values(n, m):
    return np.arange(n * m, dtype=np.int32).reshape(n, m)


def test_a_shape_is_a_formula_and_a_typical_number():
    B = compute((N - 2, M // 2 + 1), lambda i, j: A[i, 0] + A[i + 2, 0] + (j * 1).astype("int32"), "B")
    assert str(B.shape) == "(N - 2, M // 2 + 1)"
    assert B.shape == (100, 51)
    assert str((B.shape[0] + 1, 2 * B.shape[1], B.shape[0] - B.shape[1])) == (
        "(N - 2 + 1, 2 * (M // 2 + 1), N - 2 - (M // 2 + 1))"
    )
    assert (N.minimum, N.typical, M.maximum) == (3, 102, 2**31 - 1)
    assert parameter("K", 5, 20).typical == 20
    assert parameter("K", 5, typical=7).typical == 7


@pytest.mark.parametrize(("n", "m"), [(3, 1), (4, 2), (10, 7), (100, 100)])
def test_the_reference_is_that_of_the_bound_program(n, m):
    k = reduce_axis((1, N), "k")
    B = compute((N - 2, M), lambda i, j: A[i, j] + A[i + 2, M - 1 - j], "B")
    C = compute(B.shape, lambda i, j: B[i, j] * N.astype("int32"), "C", where=lambda i, j: i <= j)
    D = compute((M,), lambda j: sum(A[k, j], axis=k, where=k % 2 == 1), "D")
    E = compute((M,), lambda j: select(j > N, D[j], max(D[j], 0)), "E")
    found = reference([C, E], {"A": values(n, m)}, parameters={"N": n, "M": m})
    a = values(n, m)
    b = a[: n - 2] + a[2:, ::-1]
    i, j = np.indices(b.shape)
    np.testing.assert_array_equal(found["C"], np.where(i <= j, b * n, 0))
    d = a[1::2].sum(axis=0)
    np.testing.assert_array_equal(found["E"], np.where(np.arange(m) > n, d, np.maximum(d, 0)))


def test_the_text_of_a_program_has_formulas():
    k = reduce_axis((2, N), "k")
    D = compute((M,), lambda j: sum(A[N - 1 - k + 2, j], axis=k), "D", where=lambda j: j * 2 < M)
    assert format_program(D) == (
        "placeholder A: int32[N, M]\n\n"
        "compute D: int32[M]\n"
        "  domain 0 <= j < M and 2 <= k < 2 + (N - 2) and j * 2 < M\n"
        "  reduce k\n"
        "  value  D[j] = sum(A[N - 1 - k + 2, j], axis=k)\n"
        "  reads  A[N - 1 - k + 2, j]\n"
    )


def accepted(shape, function, where=None):
    try:
        compute(shape, function, "X", where=where)
    except DomainError:
        return False
    return True


@pytest.mark.parametrize(
    ("shape", "function", "inside"),
    [
        ((N, M), lambda i, j: A[i, j], True),
        ((N, M), lambda i, j: A[N - 1 - i, j], True),
        ((N, M), lambda i, j: A[N - i, j], False),
        ((N - 1, M), lambda i, j: A[i + 1, j], True),
        ((N, M), lambda i, j: A[i + 1, j], False),
        ((N, M), lambda i, j: select(i + 1 < N, A[i + 1, j], 0), True),
        ((N, N), lambda i, j: A[i, j], False),
        ((3, 1), lambda i, j: A[i, j], True),
        ((4, 1), lambda i, j: A[i, j], False),
        ((N // 2, M), lambda i, j: A[2 * i, j], True),
        ((N // 2 + 1, M), lambda i, j: A[2 * i, j], False),
        ((N, M), lambda i, j: A[max(i - 1, 0), j], True),
    ],
)
def test_reads_are_checked_for_all_values(shape, function, inside):
    assert accepted(shape, function) == inside


def test_domains_are_checked_for_all_values():
    T = compute((N, M), lambda i, j: A[i, j], "T", where=lambda i, j: i + j < M)
    assert accepted((N, M), lambda i, j: T[i, j], lambda i, j: i + 2 * j < M)
    assert not accepted((N, M), lambda i, j: T[i, j], lambda i, j: i + j <= M)


def test_what_isl_cannot_decide_is_decided_with_numbers():
    flat = placeholder((100,), "int32", "flat")
    T = compute((N, M), lambda i, j: flat[(i * M + j) % 100], "T")
    line = placeholder((N * M,), "int32", "line")
    S = compute((N, M), lambda i, j: line[i * M + j], "S")
    assert reference(T, {"flat": np.arange(100, dtype=np.int32)}, parameters={"N": 3, "M": 50})[2, 49] == 49
    assert reference(S, {"line": np.arange(12, dtype=np.int32)}, parameters={"N": 3, "M": 4})[2, 3] == 11
    wrong = compute((N, M), lambda i, j: line[i * N + j], "wrong", where=lambda i, _: i < 1)
    assert reference(wrong, {"line": np.arange(12, dtype=np.int32)}, parameters={"N": 3, "M": 4}).shape == (3, 4)


def test_recurrences_have_parameters_too():
    T = parameter("T", minimum=2)
    x = placeholder((T, 3), "int32", "x")
    total = recurrence((T, 3), lambda s, t, c: s[t - 1, c] + x[t, c], init=0, name="total")
    data = np.arange(15, dtype=np.int32).reshape(5, 3)
    np.testing.assert_array_equal(reference(total, {"x": data}, parameters={"T": 5}), data.cumsum(axis=0))
    h = state((T, 3), "int32", "h", init=1)
    doubled = compute((T, 3), lambda t, c: h[t - 1, c] * 2, "doubled")
    define(h, lambda t, c: doubled[t, c] + x[t, c])
    expected = np.ones(3, np.int32)
    for row in data:
        expected = expected * 2 + row
    np.testing.assert_array_equal(reference(h, {"x": data}, parameters={"T": 5})[4], expected)


def test_a_bound_program_has_numbers_only():
    B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
    binding = Binding(B, {"N": 5, "M": 2}, "build")
    assert program_parameters(B) == (N, M)
    assert program_parameters(binding.outputs) == ()
    assert [type(extent) for extent in binding.outputs[0].shape] == [int, int]
    assert binding.bound(A).shape == (5, 2)
