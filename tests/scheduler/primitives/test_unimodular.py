"""``reverse``, ``shift``, ``skew`` and ``interchange``: unimodular loop transformations."""

import pytest
from documented import as_documented
from nests import check, grid, plus_one, text

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.interchange import interchange
from lathe.scheduler.primitives.reverse import reverse
from lathe.scheduler.primitives.shift import shift
from lathe.scheduler.primitives.skew import skew


@pytest.mark.parametrize(
    ("command", "program", "arguments"),
    [
        (reverse, plus_one, ("i",)),
        (shift, plus_one, ("i", 2)),
        (skew, grid, ("i", "j")),
        (interchange, grid, ("i", "j")),
    ],
)
def test_documentation_shows_before_and_after(command, program, arguments):
    *_, C, s = program()
    with as_documented(command, s):
        getattr(s[C], command.__name__)(*arguments)


def test_interchange_takes_the_loops_in_either_order():
    C, s = grid()
    t = create_schedule(C)
    s[C].interchange("i", "j")
    t[C].interchange("j", "i")
    assert text(s) == text(t)
    check(s)


def test_a_loop_reversed_twice_is_as_it_was():
    _, C, s = plus_one()
    before = text(s)
    s[C].reverse(s[C].reverse("i"))
    assert text(s) == before
    check(s)


def test_a_tail_comes_first_in_a_reversed_loop():
    _, C, s = plus_one()
    io, _ = s[C].split("i", factor=16)
    s[C].reverse(io)
    assert text(s, "chunks") == (
        "for io in 0..1:\n"
        "  for ii in 0..12:\n"
        "    C[-16*io + ii + 48] = A[-16*io + ii + 48] + 1\n"
        "for io in 1..4:\n"
        "  for ii in 0..16:\n"
        "    C[-16*io + ii + 48] = A[-16*io + ii + 48] + 1\n"
    )
    check(s)


def test_a_reversed_reduction_starts_from_nothing_all_the_same():
    A, k = placeholder((4, 6), "int32", "A"), reduce_axis(6, "k")
    C = compute(4, lambda i: sum(A[i, k], axis=k), "C")
    s = create_schedule(C)
    s[C].reorder(s[C].reverse(k), "i")
    check(s)


def test_a_shifted_loop_is_empty_at_first():
    _, C, s = plus_one(4)
    s[C].shift("i", 2)
    assert text(s, "chunks") == "for i in 2..6:\n  C[i - 2] = A[i - 2] + 1\n"
    check(s)


FACTORS = [(1, 1), (2, 1), (-1, 1), (3, 2), (2, 3), (2, -3), (0, 1), (-3, -5), (5, 7), (1, 4)]


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("factors", FACTORS)
def test_a_skewed_nest_meets_each_point_once(factors, outside):
    C, s = grid()
    one, two = s[C].skew("i", "j", *factors)
    if outside:
        s[C].reorder(two, one)
    check(s)
    assert s.count().stages["C"].executed == 35
    assert s.count().stages["C"].redundant == 0


def test_a_skewed_loop_can_be_split_and_fused():
    C, s = grid()
    one, two = s[C].skew("i", "j", 2, 1)
    outer, inner = s[C].split(two, factor=4)
    s[C].reorder(outer, one, inner)
    s[C].fuse(outer, one)
    check(s)


def test_a_fused_loop_can_be_reversed_and_shifted():
    C, s = grid()
    fused = s[C].fuse("i", "j")
    outer, _ = s[C].split(s[C].shift(s[C].reverse(fused), 3), factor=4)
    s[C].reverse(outer)
    check(s)


def test_reductions_are_skewed_among_themselves():
    A = placeholder((4, 3, 5), "int32", "A")
    y, x = reduce_axis(3, "y"), reduce_axis((1, 5), "x")
    C = compute(4, lambda i: sum(A[i, y, x], axis=[y, x]), "C")
    s = create_schedule(C)
    t, d = s[C].skew(y, x, 2, 1)
    s[C].reorder(d, "i", t)
    check(s)


def test_a_producer_computed_in_a_reversed_or_skewed_loop_gets_its_window():
    A = placeholder((9, 8), "int32", "A")
    B = compute((9, 8), lambda y, x: A[y, x] * 3, "B")
    C = compute((8, 7), lambda y, x: B[y, x] + B[y + 1, x + 1], "C")
    s = create_schedule(C)
    s[B].compute_at(s[C], s[C].reverse("y"))
    s[B].set_scope("acc")
    check(s)
    t = create_schedule(C)
    _, diagonal = t[C].skew("y", "x")
    t[C].reorder(diagonal, "y")
    t[B].compute_at(t[C], diagonal)
    t[B].set_scope("acc")
    check(t)


def test_a_producer_with_skewed_loops_of_its_own_computes_its_part():
    A = placeholder((9, 8), "int32", "A")
    B = compute((9, 8), lambda y, x: A[y, x] * 3, "B")
    C = compute((8, 7), lambda y, x: B[y, x] + B[y + 1, x + 1], "C")
    s = create_schedule(C)
    yo, _ = s[C].split("y", factor=3)
    s[B].compute_at(s[C], yo)
    t, d = s[B].skew("y", "x")
    s[B].reorder(d, t)
    check(s)
