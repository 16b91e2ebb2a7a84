"""``split``: one loop becomes two."""

import pytest
from documented import as_documented
from nests import check, plus_one, two_stages

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.scheduler import Schedule, create_schedule
from lathe.scheduler.primitives.split import split


def one_split(extent: int, **by: int) -> Schedule:
    _, C, s = plus_one(extent)
    s[C].split("i", **by)
    return s


def test_documentation_shows_before_and_after():
    _, C, s = plus_one()
    with as_documented(split, s):
        s[C].split("i", factor=16)


def test_a_factor_that_divides_needs_no_condition(golden_and_right):
    _, C, s = plus_one(64)
    outer, inner = s[C].split("i", factor=16)
    assert (outer.name, inner.name) == ("io", "ii")
    assert s[C].leaf_axis == (outer, inner)
    golden_and_right(s)


def test_a_factor_that_does_not_divide_leaves_a_tail(golden_and_right):
    golden_and_right(one_split(60, factor=16))


def test_a_factor_beyond_the_extent_leaves_one_part_as_long_as_the_loop(golden_and_right):
    golden_and_right(one_split(10, factor=16))


def test_parts_of_equal_size_and_a_shorter_last_one(golden_and_right):
    golden_and_right(one_split(60, nparts=7))


def test_more_parts_than_are_needed(golden_and_right):
    """Nine iterations split into four times three: the last inner loop is empty."""
    golden_and_right(one_split(9, nparts=4))


def test_a_split_of_a_split(golden_and_right):
    _, C, s = plus_one(60)
    _, inner = s[C].split("i", factor=16)
    s[C].split(inner, factor=6)
    golden_and_right(s)


def test_a_reduction_is_split_and_set_to_its_start_value_once(golden_and_right):
    A, k = placeholder((6, 10), "int32", "A"), reduce_axis((1, 10), "k")
    C = compute(6, lambda i: sum(A[i, k], axis=k), "C")
    s = create_schedule(C)
    outer, _ = s[C].split(k, factor=4)
    s[C].reorder(outer, "i")
    golden_and_right(s)


def test_a_stage_computed_at_a_loop_is_computed_at_its_inner_part_afterwards(golden_and_right):
    B, C, s = two_stages()
    outer, _ = s[C].split("i", factor=20)
    s[B].compute_at(s[C], outer)
    s[C].split(outer, factor=2)
    golden_and_right(s)


def test_pragma_and_unrolling_go_to_the_parts(golden_and_right):
    _, C, s = plus_one(60)
    s[C].emit_insn("i", "alu")
    s[C].unroll("i")
    s[C].split("i", factor=16)
    golden_and_right(s)


@pytest.mark.parametrize("extent", [1, 2, 7, 12])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 40])
@pytest.mark.parametrize("way", ["factor", "nparts"])
def test_the_meaning_stays(extent, size, way):
    _, C, s = plus_one(extent)
    s[C].split("i", **{way: size})
    check(s)
