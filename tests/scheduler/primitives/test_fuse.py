"""``fuse``: two adjacent loops become one."""

import pytest
from documented import as_documented
from nests import check, text

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.fuse import fuse


def grid(*shape: int):
    A = placeholder(shape, "int32", "A")
    element = (lambda i, j: A[i, j] + 1) if len(shape) == 2 else (lambda i, j, k: A[i, j, k] + 1)
    C = compute(shape, element, "C")
    return C, create_schedule(C)


def test_documentation_shows_before_and_after():
    C, s = grid(8, 6)
    with as_documented(fuse, s, "order"):
        s[C].fuse("i", "j")


def test_a_part_of_a_fused_loop_takes_the_pairs_that_belong_to_it(golden_and_right):
    C, s = grid(4, 6)
    fused = s[C].fuse("i", "j")
    assert fused.name == "i.j"
    s[C].split(fused, factor=5)
    golden_and_right(s)


def test_a_part_that_is_a_whole_number_of_rows(golden_and_right):
    C, s = grid(5, 6)
    s[C].split(s[C].fuse("i", "j"), factor=12)
    golden_and_right(s)


def test_three_loops_fused_one_after_the_other(golden_and_right):
    C, s = grid(2, 3, 4)
    s[C].split(s[C].fuse(s[C].fuse("i", "j"), "k"), factor=10)
    golden_and_right(s)


def test_fused_halves_of_splits(golden_and_right):
    C, s = grid(6, 10)
    io, ii = s[C].split("i", factor=4)
    jo, ji = s[C].split("j", factor=4)
    s[C].reorder(io, jo, ii, ji)
    s[C].fuse(io, jo)
    golden_and_right(s)


def test_fused_reduction_loops(golden_and_right):
    A = placeholder((4, 3, 5), "int32", "A")
    y, x = reduce_axis(3, "y"), reduce_axis((1, 5), "x")
    C = compute(4, lambda i: sum(A[i, y, x], axis=[y, x]), "C")
    s = create_schedule(C)
    outer, _ = s[C].split(s[C].fuse(y, x), factor=5)
    s[C].reorder(outer, "i")
    golden_and_right(s)


def test_stages_computed_at_either_loop_are_computed_at_the_fused_one(golden_and_right):
    A = placeholder((4, 6), "int32", "A")
    B = compute((4, 6), lambda i, j: A[i, j] * 3, "B")
    C = compute((4, 6), lambda i, j: B[i, j] + 1, "C")
    s = create_schedule(C)
    s[B].compute_at(s[C], "i")
    s[C].fuse("i", "j")
    golden_and_right(s)


def test_pragma_and_unrolling_of_either_loop_go_to_the_fused_one():
    C, s = grid(4, 6)
    s[C].emit_insn("j", "alu")
    s[C].unroll("i")
    s[C].fuse("i", "j")
    assert text(s, "order") == "C:\n  band i.j [4×6] @emit_insn alu, unroll\n  time [0, i.j, 0]\n"
    check(s)


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("factor", [1, 2, 3, 4, 6, 7, 11, 24, 30])
def test_the_meaning_stays_in_any_order_of_the_parts(factor, outside):
    C, s = grid(4, 6)
    outer, inner = s[C].split(s[C].fuse("i", "j"), factor=factor)
    if not outside:
        s[C].reorder(inner, outer)
    check(s)
