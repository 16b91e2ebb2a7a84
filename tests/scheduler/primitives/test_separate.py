"""``separate``: full tiles and remainder; and the remainders of splits, tiles and unrolled loops."""

import pytest
from documented import as_documented
from nests import check, plus_one, text

from lathe.frontend import compute, placeholder
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.separate import separate


def test_documentation_shows_before_and_after():
    _, C, s = plus_one()
    with as_documented(separate, s, "chunks"):
        s[C].separate("i", 16)


def test_all_full_tiles_come_before_any_partial_one():
    A = placeholder((5, 7), "int32", "A")
    C = compute((5, 7), lambda i, j: A[i, j] + 1, "C")
    s = create_schedule(C)
    part, j = s[C].separate("j", 3)
    jo, ji = s[C].split(j, factor=3)
    s[C].reorder(part, "i", jo, ji)
    assert text(s, "chunks") == (
        "for jp in 0..1:\n"
        "  for i in 0..5:\n"
        "    for jio in 0..2:\n"
        "      for jii in 0..3:\n"
        "        C[i, 6*jp + 3*jio + jii] = A[i, 6*jp + 3*jio + jii] + 1\n"
        "for jp in 1..2:\n"
        "  for i in 0..5:\n"
        "    for jio in 0..1:\n"
        "      for jii in 0..1:\n"
        "        C[i, 6*jp + 3*jio + jii] = A[i, 6*jp + 3*jio + jii] + 1\n"
    )
    check(s)


def test_nothing_is_left_over_where_the_factor_divides():
    _, C, s = plus_one()
    s[C].separate("i", 20)
    assert text(s, "chunks") == "for ip in 0..1:\n  for ii in 0..60:\n    C[60*ip + ii] = A[60*ip + ii] + 1\n"


def test_a_split_by_sixteen_is_exact():
    """The seed's split of 98 rows by 16: floor and remainder, for every row once."""
    A = placeholder(98, "int32", "A")
    C = compute(98, lambda i: A[i] + 1, "C")
    s = create_schedule(C)
    s[C].split("i", factor=16)
    assert text(s, "chunks") == (
        "for io in 0..6:\n"
        "  for ii in 0..16:\n"
        "    C[16*io + ii] = A[16*io + ii] + 1\n"
        "for io in 6..7:\n"
        "  for ii in 0..2:\n"
        "    C[16*io + ii] = A[16*io + ii] + 1\n"
    )
    check(s)
    assert s.count().stages["C"].executed == 98


def test_unrolling_three_by_three_leaves_no_remainder():
    A = placeholder((4, 3), "int32", "A")
    C = compute((4, 3), lambda i, c: A[i, c] + 1, "C")
    s = create_schedule(C)
    assert s[C].unroll("c", 3) is s[C].axis[1]
    assert text(s, "order") == "C:\n  band i [4]\n  band c [3] @unroll\n  time [0, i, 0, c, 0]\n"
    t = create_schedule(C)
    assert t[C].unroll("c", 2).name == "ci"
    assert text(t, "order") == (
        "C:\n  band i [4]\n  band co [2]\n  band ci [2] @unroll\n  time [0, i, 0, co, 0, ci, 0]\n"
    )
    check(t)


@pytest.mark.parametrize("factors", [(2, 3, 4), (5, 1, 2), (7, 9, 9)])
def test_three_loops_are_tiled_at_once(factors):
    A = placeholder((5, 6, 7), "int32", "A")
    C = compute((5, 6, 7), lambda x, y, z: A[x, y, z] + 1, "C")
    s = create_schedule(C)
    loops = s[C].tile("x", "y", "z", *factors)
    assert [loop.name for loop in loops] == ["xo", "yo", "zo", "xi", "yi", "zi"]
    assert s[C].leaf_axis == loops
    check(s)
    t = create_schedule(C)
    pairs = [t[C].split(axis, factor=factor) for axis, factor in zip("xyz", factors, strict=True)]
    t[C].reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    assert text(s) == text(t)
