"""Every refusal of a domain that is no box, and of reads outside one: the whole message."""

import re

import pytest

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
CASES = {
    "outside a triangle": (lambda: compute((8, 8), lambda i, j: TRIANGLE[i, j] + 1, "Q"), DomainError,
        "read T[i, j] of computation 'Q' must stay inside the domain of tensor 'T' (j <= i), not reach T[0, 1] at i "
        "= 0, j = 1. Shrink the domain, or guard the read with select(condition, read, 0)."),
    "outside by a neighbour": (
        lambda: compute((8, 7), lambda i, j: TRIANGLE[i, j + 1], "Q", where=lambda i, j: j <= i),
        DomainError,
        "read T[i, j + 1] of computation 'Q' must stay inside the domain of tensor 'T' (j <= i), not reach T[0, 1] at "
        "i = 0, j = 0. Shrink the domain, or guard the read with select(condition, read, 0).",
    ),
    "outside in a reduction": (lambda: compute((8,), lambda i: sum(TRIANGLE[i, k], axis=k, where=k < 2), "Q"),
        DomainError,
        "read T[i, k] of computation 'Q' must stay inside the domain of tensor 'T' (j <= i), not reach T[0, 1] at i "
        "= 0, k = 1. Shrink the domain, or guard the read with select(condition, read, 0)."),
    "outside a curve": (lambda: compute((8, 8), lambda i, j: CURVED[i, j], "Q", where=lambda i, j: i * j <= 20),
        DomainError,
        "read U[i, j] of computation 'Q' must stay inside the domain of tensor 'U' (i * j < 20), not reach U[4, 5] "
        "at i = 4, j = 5. Shrink the domain, or guard the read with select(condition, read, 0)."),
    "inside as far as data goes": (lambda: compute((8, 8), lambda i, j: select(A[i, j] > 0, TRIANGLE[i, j], 0), "Q"),
        DomainError,
        "read T[i, j] of computation 'Q' must stay inside the domain of tensor 'T' (j <= i), not reach T[0, 1] at i "
        "= 0, j = 1. A condition that reads data cannot keep a read inside. Shrink the domain, or guard the read "
        "with select(condition, read, 0)."),
    "a domain by data": (lambda: compute((8, 8), lambda i, j: select(A[i, j] > 2, BY_DATA[i, j], 0), "Q"), DomainError,
        "read S[i, j] of computation 'Q' must be shown to stay inside the domain of tensor 'S', where A[i, j] > 3, "
        "which cannot be decided: it depends on data. Give the computation, or a select around the read, the same "
        "condition."),
    "a domain too large to visit": (
        lambda: compute(
            (8192, 8192),
            lambda i, j: compute(
                (8192, 8192), lambda i, j: (i + j).astype("int32"), "L", where=lambda i, j: i * j < 5000
            )[i, j],
            "Q",
        ),
        DomainError,
        "read L[i, j] of computation 'Q' must be shown to stay inside the domain of tensor 'L', where i * j < 5000, "
        "which cannot be decided: it is not affine, and 67108864 points are too many to visit. Give the computation, "
        "or a select around the read, the "
        "same condition.",
    ),
    "empty": (lambda: compute((8, 8), identity, "Q", where=lambda i, j: i + j > 20), TensorError,
        "where of computation 'Q' must hold somewhere in its shape (8, 8), not nowhere: i + j > 20 for no point of 0 "
        "<= i < 8 and 0 <= j < 8. Drop the computation, or correct the condition."),
    "empty, not affine": (lambda: compute((8, 8), identity, "Q", where=lambda i, j: i * i == 3 + j * 0), TensorError,
        "where of computation 'Q' must hold somewhere in its shape (8, 8), not nowhere: i * i == 3 for no point of 0 "
        "<= i < 8 and 0 <= j < 8. Drop the computation, or correct the condition."),
    "empty whatever the data": (lambda: compute((8, 8), identity, "Q", where=lambda i, j: (A[i, j] > 3) & (i > 9)),
        TensorError,
        "where of computation 'Q' must hold somewhere in its shape (8, 8), not nowhere: A[i, j] > 3 and i > 9 for no "
        "point of 0 <= i < 8 and 0 <= j < 8. Drop the computation, or correct the condition."),
    "no function": (lambda: compute((8, 8), identity, "Q", where=True), TensorError,
        "where of computation 'Q' must be given as a function of its axes, as in lambda i, j: j <= i, not True."),
    "too many parameters": (lambda: compute((8, 8), identity, "Q", where=lambda i, j, c: j <= i + c), TensorError,
        "parameters of where of computation 'Q' must be 2, one per dimension, not 3. Write lambda *indices to take "
        "any number."),
    "no condition": (lambda: compute((8, 8), identity, "Q", where=lambda i, j: i - j), TensorError,
        "where of computation 'Q' must be bool, not index: i - j. Compare first, as in x != 0."),
    "a reduction axis": (lambda: compute((8,), lambda i: sum(A[i, k], axis=k), "Q", where=lambda i: k + 0 <= i),
        TensorError,
        "where of computation 'Q' must be a condition on its data axes (i), not on 'k': k <= i. Conditions on "
        "reduction axes belong to the reduction, as in sum(x, axis=k, where=k <= i)."),
    "a reduction in the condition": (
        lambda: compute((8,), lambda i: A[i, i], "Q", where=lambda i: sum(A[i, k], axis=k) > 0),
        TensorError,
        "where of computation 'Q' must be a condition without a reduction, not sum(A[i, k], axis=k) > 0. Give the "
        "reduction a computation of its own and read its result here.",
    ),
    "a condition that reads outside": (lambda: compute((8, 8), identity, "Q", where=lambda i, j: A[i + 1, j] > 0),
        DomainError,
        "read A[i + 1, j] of computation 'Q' must stay inside the shape (8, 8) of tensor 'A', not reach A[8, 0] at i "
        "= 7, j = 0. Shrink the domain, or guard the read with select(condition, read, 0)."),
    "a sum of no condition": (lambda: compute((8,), lambda i: sum(A[i, k], axis=k, where=A[i, k]), "Q"), TensorError,
        "where of sum must be bool, not int32: A[i, k]. Compare first, as in x != 0."),
    "a condition of an element-wise maximum": (lambda: compute((8, 8), lambda i, j: max(A[i, j], 3, where=i > 3), "Q"),
        TensorError,
        "where of max must stand beside axis=, not beside a second expression: the condition says what is reduced. "
        "Use select for one element."),
}
# fmt: on


def test_cells_of_elements_that_do_not_exist_are_not_shared_on_a_machine():
    where = create_schedule(compute((8, 8), lambda i, j: TRIANGLE[i, j], "Q", where=lambda i, j: j <= i))
    where[TRIANGLE].store_in(lambda i, j: [i % 8, j])
    with pytest.raises(BuildError) as refused:
        build(where, [A, *where.outputs], load_config("vta"))
    assert str(refused.value) == (
        "stage T must be defined everywhere to be stored in T[i % 8, j] on a machine, not where j <= i only: the "
        "machine computes whole boxes, and cells of elements that do not exist may be shared with others that do. "
        "Leave out store_in."
    )


def test_an_output_that_is_a_maximum_keeps_its_reduction_loops_to_itself():
    X = placeholder((8, 8), "int32", "X")
    P = compute((8, 8), lambda i, j: X[i, j] + 1, "P")
    Q = compute((8,), lambda i: max(P[i, k], axis=k), "Q", where=lambda i: i > 2)
    s = create_schedule(Q)
    s[P].compute_at(s[Q], "k")
    with pytest.raises(BuildError) as refused:
        build(s, [X, Q], load_config("vta"))
    assert str(refused.value) == (
        "output Q with a domain (i > 2) must be no max for the machine while other stages are computed in its "
        "reduction loops: it has zeros elsewhere, which no max gives. Call cache_write first, and compute them in the "
        "loops of the copy in acc."
    )


@pytest.mark.parametrize("name", CASES)
def test_the_message_is_whole(name):
    make, kind, message = CASES[name]
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        make()
