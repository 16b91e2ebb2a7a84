"""Errors of domains that are not boxes and of reads outside them, with the names and values that messages mention."""

import pytest
from error_checks import raises
from mistaken_programs import Mistake, check_message

from lathe.configs import load_config
from lathe.frontend import DomainError, TensorError, compute, max, placeholder, reduce_axis, select, sum
from lathe.scheduler import BuildError, build, create_schedule

A = placeholder((8, 8), "int32", "A")
k = reduce_axis(8, "k")
TRIANGLE = compute((8, 8), lambda i, j: A[i, j], "T", where=lambda i, j: j <= i)
BY_DATA = compute((8, 8), lambda i, j: A[i, j], "S", where=lambda i, j: A[i, j] > 3)
CURVED = compute((8, 8), lambda i, j: A[i, j], "U", where=lambda i, j: i * j < 20)


def identity(i, j):
    return A[i, j]


# fmt: off
CASES = [
    Mistake("outside a triangle", lambda: compute((8, 8), lambda i, j: TRIANGLE[i, j] + 1, "Q"), DomainError,
        ("T[i, j]", "'Q'", "'T'", "j <= i", "T[0, 1]", "i = 0, j = 1", "select(condition, read, 0)")),
    Mistake("outside by a neighbour",
        lambda: compute((8, 7), lambda i, j: TRIANGLE[i, j + 1], "Q", where=lambda i, j: j <= i), DomainError,
        ("T[i, j + 1]", "'Q'", "'T'", "j <= i", "T[0, 1]", "i = 0, j = 0")),
    Mistake("outside in a reduction", lambda: compute((8,), lambda i: sum(TRIANGLE[i, k], axis=k, where=k < 2), "Q"),
        DomainError, ("T[i, k]", "'Q'", "'T'", "j <= i", "T[0, 1]", "i = 0, k = 1")),
    Mistake("outside a curve", lambda: compute((8, 8), lambda i, j: CURVED[i, j], "Q", where=lambda i, j: i * j <= 20),
        DomainError, ("U[i, j]", "'Q'", "'U'", "i * j < 20", "U[4, 5]", "i = 4, j = 5")),
    Mistake("guarded by data", lambda: compute((8, 8), lambda i, j: select(A[i, j] > 0, TRIANGLE[i, j], 0), "Q"),
        DomainError, ("T[i, j]", "'Q'", "'T'", "j <= i", "T[0, 1]", "i = 0, j = 1", "Conditions on data")),
    Mistake("a domain by data", lambda: compute((8, 8), lambda i, j: select(A[i, j] > 2, BY_DATA[i, j], 0), "Q"),
        DomainError, ("S[i, j]", "'Q'", "'S'", "A[i, j] > 3", "depends on data")),
    Mistake("a domain too large to visit",
        lambda: compute(
            (8192, 8192),
            lambda i, j: compute(
                (8192, 8192), lambda i, j: (i + j).astype("int32"), "L", where=lambda i, j: i * j < 5000
            )[i, j],
            "Q",
        ),
        DomainError, ("L[i, j]", "'Q'", "'L'", "i * j < 5000", "not affine", 67108864)),
    Mistake("empty", lambda: compute((8, 8), identity, "Q", where=lambda i, j: i + j > 20), TensorError,
        ("where", "'Q'", "(8, 8)", "i + j > 20", "0 <= i < 8 and 0 <= j < 8")),
    Mistake("empty, not affine", lambda: compute((8, 8), identity, "Q", where=lambda i, j: i * i == 3 + j * 0),
        TensorError, ("where", "'Q'", "(8, 8)", "i * i == 3", "0 <= i < 8 and 0 <= j < 8")),
    Mistake("empty for all data", lambda: compute((8, 8), identity, "Q", where=lambda i, j: (A[i, j] > 3) & (i > 9)),
        TensorError, ("where", "'Q'", "(8, 8)", "A[i, j] > 3 and i > 9", "0 <= i < 8 and 0 <= j < 8")),
    Mistake("no function", lambda: compute((8, 8), identity, "Q", where=True), TensorError,
        ("where", "'Q'", "function", "True")),
    Mistake("too many parameters", lambda: compute((8, 8), identity, "Q", where=lambda i, j, c: j <= i + c),
        TensorError, ("where", "'Q'", 2, 3)),
    Mistake("no condition", lambda: compute((8, 8), identity, "Q", where=lambda i, j: i - j), TensorError,
        ("where", "'Q'", "bool", "index", "i - j")),
    Mistake("a reduction axis", lambda: compute((8,), lambda i: sum(A[i, k], axis=k), "Q", where=lambda i: k + 0 <= i),
        TensorError, ("where", "'Q'", "(i)", "'k'", "k <= i", "sum(x, axis=k, where=k <= i)")),
    Mistake("a reduction in the condition",
        lambda: compute((8,), lambda i: A[i, i], "Q", where=lambda i: sum(A[i, k], axis=k) > 0), TensorError,
        ("where", "'Q'", "reduction", "sum(A[i, k], axis=k) > 0")),
    Mistake("a read outside in where", lambda: compute((8, 8), identity, "Q", where=lambda i, j: A[i + 1, j] > 0),
        DomainError, ("A[i + 1, j]", "'Q'", "(8, 8)", "'A'", "A[8, 0]", "i = 7, j = 0")),
    Mistake("a sum of no condition", lambda: compute((8,), lambda i: sum(A[i, k], axis=k, where=A[i, k]), "Q"),
        TensorError, ("where of sum", "bool", "int32", "A[i, k]")),
    Mistake("where of an element-wise maximum", lambda: compute((8, 8), lambda i, j: max(A[i, j], 3, where=i > 3), "Q"),
        TensorError, ("where of max", "axis=", "select")),
]
# fmt: on


def test_cells_of_elements_that_do_not_exist_are_not_shared_on_a_machine():
    where = create_schedule(compute((8, 8), lambda i, j: TRIANGLE[i, j], "Q", where=lambda i, j: j <= i))
    where[TRIANGLE].store_in(lambda i, j: [i % 8, j])
    mentions = ("T", "T[i % 8, j]", "j <= i", "store_in")
    raises(BuildError, build, where, [A, *where.outputs], load_config("vta"), mentions=mentions)


def test_an_output_that_is_a_maximum_keeps_its_reduction_loops_to_itself():
    X = placeholder((8, 8), "int32", "X")
    P = compute((8, 8), lambda i, j: X[i, j] + 1, "P")
    Q = compute((8,), lambda i: max(P[i, k], axis=k), "Q", where=lambda i: i > 2)
    s = create_schedule(Q)
    s[P].compute_at(s[Q], "k")
    raises(BuildError, build, s, [X, Q], load_config("vta"), mentions=("Q", "i > 2", "max", "cache_write"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case):
    check_message(case)
