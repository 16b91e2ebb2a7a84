"""``reorder``: loops are permuted."""

from documented import as_documented
from nests import check, text

from lathe.frontend import compute, max, placeholder, reduce_axis
from lathe.frontend.operators import matmul
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.reorder import reorder


def product(m: int, n: int, k: int):
    A, B = placeholder((m, k), "int32", "A"), placeholder((n, k), "int32", "B")
    C = matmul(A, B, transpose_b=True, name="C")
    return C, create_schedule(C)


def test_documentation_shows_before_and_after():
    C, s = product(64, 96, 128)
    with as_documented(reorder, s):
        s[C].reorder("k", "i")


def test_axes_that_are_not_named_stay_in_their_places(golden_and_right):
    A = placeholder((2, 3, 4, 5), "int32", "A")
    C = compute((2, 3, 4, 5), lambda a, b, c, d: A[a, b, c, d] + 1, "C")
    s = create_schedule(C)
    s[C].reorder("d", "b")
    assert [axis.name for axis in s[C].leaf_axis] == ["a", "d", "c", "b"]
    golden_and_right(s)


def test_a_reduction_outside_starts_all_results_first(golden_and_right):
    C, s = product(3, 5, 4)
    s[C].reorder("k", "i", "j")
    golden_and_right(s)


def test_a_reduction_between_data_loops_starts_the_results_inside_it(golden_and_right):
    C, s = product(3, 5, 4)
    ko, ki = s[C].split("k", factor=3)
    s[C].reorder("i", ko, "j", ki)
    golden_and_right(s)


def test_reductions_by_maximum_commute_too():
    A = placeholder((4, 3, 5), "int8", "A")
    y, x = reduce_axis(3, "y"), reduce_axis(5, "x")
    C = compute(4, lambda i: max(A[i, y, x], axis=[y, x]), "C")
    s = create_schedule(C)
    s[C].reorder(x, "i", y)
    check(s)


def test_the_tail_follows_its_loop(golden_and_right):
    A = placeholder((10, 6), "int32", "A")
    C = compute((10, 6), lambda i, j: A[i, j] + 1, "C")
    s = create_schedule(C)
    io, ii = s[C].split("i", factor=4)
    s[C].reorder(ii, "j", io)
    golden_and_right(s)


def test_no_axes_change_nothing():
    C, s = product(3, 5, 4)
    before = text(s)
    s[C].reorder()
    assert text(s) == before
