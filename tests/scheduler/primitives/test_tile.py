"""``tile``: loops are split, and the outer loops moved outside."""

from documented import as_documented
from nests import blur

from lathe.frontend import compute, placeholder
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.tile import tile


def test_documentation_shows_before_and_after():
    A = placeholder((64, 60), "int8", "A")
    C = compute((64, 60), lambda x, y: A[x, y] + 1, "C")
    s = create_schedule(C)
    with as_documented(tile, s):
        s[C].tile("x", "y", 32, 8)


def test_tails_along_both_loops_make_four_kinds_of_tile(golden_and_right):
    A = placeholder((10, 12, 3), "int32", "A")
    C = compute((10, 12, 3), lambda y, x, c: A[y, x, c] * 2, "C")
    s = create_schedule(C)
    xo, yo, xi, yi = s[C].tile("y", "x", 4, 5)
    assert [axis.name for axis in s[C].leaf_axis] == ["yo", "xo", "yi", "xi", "c"]
    assert s[C].leaf_axis[:4] == (xo, yo, xi, yi)
    golden_and_right(s)


def test_loops_between_the_two_stay_between_the_halves(golden_and_right):
    A = placeholder((5, 4, 7), "int32", "A")
    C = compute((5, 4, 7), lambda y, x, c: A[y, x, c] * 2, "C")
    s = create_schedule(C)
    s[C].tile("y", "c", 2, 3)
    golden_and_right(s)


def test_a_stencil_is_computed_tile_by_tile_with_its_halo(golden_and_right):
    B, C, s = blur()
    _, xo, _, _ = s[C].tile("y", "x", 3, 4)
    s[B].compute_at(s[C], xo)
    golden_and_right(s)
