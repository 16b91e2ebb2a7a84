"""``remove_dead_stores``: dead values are not stored, and live ones are."""

from documented import as_documented
from error_checks import raises
from nests import text
from padded import check_poisoned

from lathe.frontend import compute, max, placeholder, reduce_axis, sum
from lathe.scheduler import PaddingError, create_schedule
from lathe.scheduler.primitives.remove_dead_stores import remove_dead_stores


def test_documentation_shows_before_and_after():
    A = placeholder(14, "int8", "A")
    B = compute(14, lambda i: A[i] + 1, "B")
    C = compute(14, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=0)
    with as_documented(remove_dead_stores, s):
        assert s.remove_dead_stores() == ("B",)
    check_poisoned(s)
    assert s.remove_dead_stores() == ()
    s.transform_layout(C, lambda i: [i // 4, i % 4], pad_value=0)
    raises(PaddingError, s[C].overcompute, mentions=("overcompute", "B[3, 2]", "C(io=3, ii=2)", "C[3, 2]"))


def test_what_is_read_stays():
    A = placeholder(14, "int8", "A")
    B = compute(14, lambda i: A[i] + 1, "B")
    C = compute(14, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    for tensor in (B, C):
        s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=0)
    s[C].overcompute()
    before = text(s)
    assert s.remove_dead_stores() == ()
    assert text(s) == before


def test_one_of_two_contracts_may_be_dead():
    A = placeholder((14, 10), "int8", "A")
    B = compute((14, 10), lambda i, j: A[i, j] + 1, "B")
    k = reduce_axis(10, "k")
    C = compute(14, lambda i: max(B[i, k], axis=k), "C")
    s = create_schedule(C)
    s.transform_layout(B, lambda i, j: [i // 4, i % 4, j], pad_value=3)
    s.transform_layout(B, lambda io, ii, j: [io, ii, j // 4, j % 4], pad_value=-128)
    s[C].reorder_to_buffer(B)
    s[C].overcompute("ki")
    assert s.remove_dead_stores() == ("B",)
    assert "3)" not in text(s)
    assert "-128)" in text(s)
    check_poisoned(s)


def test_a_reduction_stores_less_too():
    A = placeholder((14, 6), "int32", "A")
    j = reduce_axis(6, "j")
    B = compute(14, lambda i: sum(A[i, j], axis=j), "B")
    C = compute(14, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=7)
    assert s.remove_dead_stores() == ("B",)
    assert text(s).count("while 4*io + ii < 14") == 2
    check_poisoned(s)
