"""Pad values that consumers require: contracts derived backwards from them, and conflicts reported."""

import pytest
from error_checks import raises
from nests import check, text
from padded import check_poisoned

from lathe.frontend import compute, max, min, placeholder, prod, reduce_axis, sum
from lathe.scheduler import ScheduleError, create_schedule, undef


@pytest.mark.parametrize(
    ("reduction", "needed"), [(sum, 0), (prod, 1), (max, -128), (min, 127)], ids=["sum", "prod", "max", "min"]
)
def test_reductions_need_what_changes_nothing(reduction, needed):
    A = placeholder((16, 14), "int8", "A")
    j = reduce_axis(14, "j")
    B = compute(16, lambda i: reduction(A[i, j], axis=j), "B")
    s = create_schedule(B)
    found = s.padding_needed(A)
    assert (found.value, found.by) == (needed, (("B", str(needed)),))
    s.transform_layout(A, lambda i, j: [i, j // 4, j % 4], pad_value=found.value)
    s[B].reorder_to_buffer(A)
    s[B].overcompute()
    assert "select" not in text(s)
    check(s)


def test_needs_are_solved_backwards_through_computations():
    A = placeholder((16, 14), "int8", "A")
    B = compute((16, 14), lambda i, j: A[i, j] * 3 + 6, "B")
    j = reduce_axis(14, "j")
    C = compute(16, lambda i: sum(B[i, j].astype("int32"), axis=j), "C")
    s = create_schedule(C)
    solved = s.solve_padding()
    assert {name: need.value for name, need in solved.items()} == {"A": -2, "B": 0}
    assert str(solved["A"]) == "A: -2 (-2 for B)"
    for tensor in (A, B):
        s.transform_layout(tensor, lambda i, j: [i, j // 4, j % 4], pad_value=solved[tensor.name].value)
    s[B].overcompute()
    s[C].reorder_to_buffer(B)
    s[C].overcompute()
    assert "select" not in text(s)
    check(s)


def test_a_factor_of_nought_is_enough():
    X, W = placeholder((6, 10), "int8", "X"), placeholder((9, 10), "int8", "W")
    k = reduce_axis(10, "k")
    M = compute((6, 9), lambda i, j: sum(X[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), "M")
    s = create_schedule(M)
    assert s.padding_needed(X).value == s.padding_needed(W).value == 0
    s.transform_layout(X, lambda i, k: [i, k // 4, k % 4], pad_value=0)
    s.transform_layout(W, lambda j, k: [j, k // 4, k % 4], pad_value=undef)
    s[M].reorder_to_buffer(X)
    s[M].overcompute()
    check(s)
    check_poisoned(s)


def test_two_consumers_in_conflict_are_named():
    A = placeholder((16, 14), "int8", "A")
    j, k = reduce_axis(14, "j"), reduce_axis(14, "k")
    B = compute(16, lambda i: sum(A[i, j].astype("int32"), axis=j), "B")
    C = compute(16, lambda i: max(A[i, k], axis=k), "C")
    D = compute((16, 14), lambda i, j: A[i, j] + 1, "D")
    s = create_schedule([B, D, C])
    raises(ScheduleError, s.padding_needed, A, kind="legality", mentions=("A", 0, "B", "sum", -128, "C", "max"))
    s = create_schedule([B, D])
    assert s.padding_needed(A).by == (("B", "0"), ("D", "anything"))
    s = create_schedule([D])
    assert s.padding_needed(A).value is None


def test_where_no_value_will_do():
    A = placeholder((16, 14), "int8", "A")
    j = reduce_axis(14, "j")
    B = compute(16, lambda i: sum(A[i, j].astype("int32") * 2 + 1, axis=j), "B")
    s = create_schedule(B)
    assert str(s.padding_needed(A)) == "A: undef (a branch for B)"
    Z = placeholder(16, "int32", "Z")
    raises(ScheduleError, s.padding_needed, Z, kind="argument", mentions=("Z"))
