"""``reuse_at``: buffers that hold what consecutive iterations share."""

import numpy as np
import pytest
from documented import as_documented
from nests import CONFIG, check, levels, text
from rings import reads_of

from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.scheduler import Schedule, create_schedule
from lathe.scheduler.primitives.reuse_at import reuse_at, reuse_own_at


def image(height: int = 10, width: int = 10) -> Tensor:
    return placeholder((height, width), "int32", "A")


def along_x() -> tuple[Tensor, Tensor, Schedule]:
    A = image()
    B = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
    return A, B, create_schedule(B)


def along_y() -> tuple[Tensor, Tensor, Schedule]:
    A = image()
    B = compute((8, 10), lambda y, x: A[y, x] + A[y + 1, x] + A[y + 2, x], "B")
    return A, B, create_schedule(B)


def window(extent: int = 10, stride: int = 1) -> tuple[Tensor, Tensor, Schedule]:
    A, r, c = image(extent, extent), reduce_axis(3, "r"), reduce_axis(3, "c")
    size = (extent - 3) // stride + 1
    B = compute((size, size), lambda y, x: sum(A[stride * y + r, stride * x + c], axis=[r, c]), "B")
    return A, B, create_schedule(B)


def test_documentation_shows_before_and_after():
    A, _, s = along_x()
    with as_documented(reuse_at, s):
        s.reuse_at(A, s[s.outputs[0]], "x")


def test_documentation_shows_values_kept_without_a_copy():
    A = placeholder(12, "int32", "A")
    B = compute(12, lambda i: A[i] * 3, "B")
    s = create_schedule(compute(10, lambda i: B[i] + B[i + 2], "C"))
    with as_documented(reuse_own_at, s):
        s[B].set_scope("acc")
        s[B].reuse_at(s[s.outputs[0]], "i")
    assert reads_of(s) == {"A": 12, "B": 20}


# The examples of HeteroCL.


def test_blur_along_x(golden):
    A, B, s = along_x()
    assert reads_of(s) == {"A": 240}
    buffer = s.reuse_at(A, s[B], s[B].axis[1])
    assert s[buffer].buffer_shape == (3,)
    assert "for x in 0..10:" in text(s)
    assert "if x >= 2:" in text(s)
    assert "if" not in text(s, "chunks")
    assert reads_of(s)["A"] == 100
    golden(levels(s))


def test_blur_along_y(golden):
    A, B, s = along_y()
    buffer = s.reuse_at(A, s[B], "y")
    assert s[buffer].buffer_shape == (3, 10)
    assert reads_of(s)["A"] == 100
    golden(levels(s))


def test_a_diagonal_needs_the_box_around_it():
    A = image()
    B = compute((8, 8), lambda y, x: A[y, x] + A[y + 1, x + 1] + A[y + 2, x + 2], "B")
    s = create_schedule(B)
    buffer = s.reuse_at(A, s[B], "x")
    assert s[buffer].buffer_shape == (3, 3)
    assert reads_of(s)["A"] == 8 * 10 * 3


def test_a_reduction(golden):
    A, r = image(), reduce_axis(3, "r")
    B = compute((10, 8), lambda y, x: sum(A[y, x + r], axis=r), "B")
    s = create_schedule(B)
    buffer = s.reuse_at(A, s[B], "x")
    assert s[buffer].buffer_shape == (3,)
    assert reads_of(s)["A"] == 100
    golden(levels(s))


def test_a_stride_of_two():
    A, r = image(10, 9), reduce_axis(3, "r")
    B = compute((10, 4), lambda y, x: sum(A[y, 2 * x + r], axis=r), "B")
    s = create_schedule(B)
    assert reads_of(s)["A"] == 120
    buffer = s.reuse_at(A, s[B], "x")
    assert s[buffer].buffer_shape == (3,)
    assert "for x in 0..5:" in text(s)
    assert reads_of(s)["A"] == 90


def test_a_convolution_by_line_buffer_and_window(golden):
    A, B, s = window()
    assert reads_of(s)["A"] == 576
    lines = s.reuse_at(A, s[B], "y")
    pixels = s.reuse_at(lines, s[B], "x")
    assert (s[lines].buffer_shape, s[pixels].buffer_shape) == ((3, 10), (3, 3))
    assert reads_of(s) == {"A": 100, "A.reuse": 8 * 10 * 3, "A.reuse.reuse": 576}
    golden(levels(s))


def test_a_convolution_by_its_window_alone():
    A, B, s = window()
    buffer = s.reuse_at(A, s[B], "x")
    assert s[buffer].buffer_shape == (3, 3)
    assert reads_of(s)["A"] == 8 * 10 * 3


def test_a_strided_convolution():
    A, B, s = window(9, stride=2)
    assert reads_of(s)["A"] == 144
    lines = s.reuse_at(A, s[B], "y")
    s.reuse_at(lines, s[B], "x")
    assert reads_of(s)["A"] == 81


# Other cases.


def test_the_first_iteration_may_fetch_the_whole_window(golden):
    A, B, s = along_x()
    s.reuse_at(A, s[B], "x", prologue="first")
    assert reads_of(s)["A"] == 100
    golden(levels(s))


def test_a_shifted_buffer_says_so():
    A, B, s = along_y()
    s.reuse_at(A, s[B], "y", form="shift")
    assert text(s).startswith("buffer A.reuse in acc: [3, 10], shift along i0\n")
    assert "  shift A.reuse: [" in text(s)
    assert reads_of(s)["A"] == 100


@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_backwards(prologue):
    A = placeholder(10, "int32", "A")
    B = compute(8, lambda i: A[9 - i] + A[8 - i] * 2 + A[7 - i] * 3, "B")
    s = create_schedule(B)
    s.reuse_at(A, s[B], "i", prologue=prologue)
    assert reads_of(s)["A"] == 10


def test_only_what_is_read_is_fetched():
    A = placeholder(20, "int32", "A")
    B = compute(8, lambda i: A[i + 5] + A[i + 7], "B")
    s = create_schedule(B)
    s.reuse_at(A, s[B], "i")
    assert reads_of(s)["A"] == 10


@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_padding_in_the_consumer(prologue):
    A, r = placeholder(10, "int32", "A"), reduce_axis(5, "r")
    B = compute(10, lambda i: sum(select((i + r >= 2) & (i + r < 12), A[i + r - 2], 0), axis=r), "B")
    s = create_schedule(B)
    buffer = s.reuse_at(A, s[B], "i", prologue=prologue)
    assert s[buffer].buffer_shape == (5,)
    assert reads_of(s)["A"] == 10


def test_several_outputs():
    A = image()
    low, high = compute((10, 8), lambda y, x: (A[y, x] + A[y, x + 1], A[y, x + 1] * A[y, x + 2]), "B")
    s = create_schedule([low, high])
    buffer = s.reuse_at(A, s[low], "x")
    assert s[buffer].buffer_shape == (3,)
    assert reads_of(s)["A"] == 100


@pytest.mark.parametrize("factor", [2, 3, 5])
def test_along_the_inner_part_of_a_split_the_buffer_begins_anew(factor):
    A, B, s = along_x()
    _, xi = s[B].split("x", factor=factor)
    buffer = s.reuse_at(A, s[B], xi)
    assert s[buffer].buffer_shape == (3,)
    tiles = [min(factor, 8 - first) for first in range(0, 8, factor)]
    assert reads_of(s)["A"] == 10 * np.sum([tile + 2 for tile in tiles])


@pytest.mark.parametrize("prologue", ["loop", "first"])
@pytest.mark.parametrize("factor", [2, 3, 5])
def test_along_the_outer_part_of_a_split_it_keeps_the_halo(factor, prologue):
    A, B, s = along_y()
    yo, _ = s[B].split("y", factor=factor)
    buffer = s.reuse_at(A, s[B], yo, prologue=prologue)
    assert s[buffer].buffer_shape == (factor + 2, 10)
    assert reads_of(s)["A"] == 100


def test_after_a_reorder():
    A, B, s = along_y()
    s[B].reorder("x", "y")
    buffer = s.reuse_at(A, s[B], "y")
    assert s[buffer].buffer_shape == (3,)
    assert reads_of(s)["A"] == 100


def test_splits_and_reorders_after_it():
    A, B, s = along_y()
    s.reuse_at(A, s[B], "y")
    s[B].split("x", factor=4)
    yo, yi = s[B].split("y", factor=3)
    assert reads_of(s)["A"] > 100  # the buffer is filled again in each tile
    s[B].reorder(yo, "xo", "xi", yi)
    reads_of(s)


def test_a_fuse_after_it():
    A, B, s = along_x()
    s.reuse_at(A, s[B], "x")
    s[B].fuse("y", "x")
    assert reads_of(s)["A"] == 100


def test_along_a_fused_loop():
    A, B, s = along_x()
    s.reuse_at(A, s[B], s[B].fuse("y", "x"))
    assert reads_of(s)["A"] == 100


def test_together_with_compute_at():
    """A producer that is computed only for the new cells of a buffer, in a consumer that is itself in a loop."""
    A = image()
    P = compute((10, 10), lambda y, x: A[y, x] * 3, "P")
    B = compute((8, 10), lambda y, x: P[y, x] + P[y + 1, x] + P[y + 2, x], "B")
    C = compute((8, 10), lambda y, x: B[y, x] + 1, "C")
    s = create_schedule(C)
    yo, _ = s[C].split("y", factor=4)
    s[B].compute_at(s[C], yo)
    s[B].set_scope("acc")
    buffer = s.reuse_at(P, s[B], "y")
    s[P].compute_at(s[buffer], s[buffer].axis[0])
    s[P].set_scope("acc")
    assert reads_of(s)["A"] == 2 * 6 * 10


def test_a_producer_at_the_same_loop_fills_the_buffer():
    A = image()
    P = compute((10, 10), lambda y, x: A[y, x] * 3, "P")
    B = compute((8, 10), lambda y, x: P[y, x] + P[y + 1, x] + P[y + 2, x], "B")
    s = create_schedule(B)
    s.reuse_at(P, s[B], "y")
    s[P].compute_at(s[B], "y")
    s[P].set_scope("acc")
    assert reads_of(s)["A"] == 100


def test_readers_in_a_loop_share_one_buffer():
    A = image()
    B = compute((8, 10), lambda y, x: A[y, x] + A[y + 1, x], "B")
    C = compute((8, 10), lambda y, x: B[y, x] * A[y + 2, x], "C")
    s = create_schedule(C)
    s[B].compute_at(s[C], "y")
    buffer = s.reuse_at(A, s[C], "y")
    assert s[buffer].buffer_shape == (3, 10)
    assert reads_of(s)["A"] == 100


def test_two_buffers_at_one_loop():
    A, D = image(), placeholder((12, 10), "int32", "D")
    B = compute((8, 10), lambda y, x: A[y, x] + A[y + 2, x] + D[y, x] + D[y + 4, x], "B")
    s = create_schedule(B)
    s.reuse_at(A, s[B], "y")
    s.reuse_at(D, s[B], "y")
    assert "for y in 0..12:" in text(s)
    reads = reads_of(s)
    assert (reads["A"], reads["D"]) == (100, 120)


def test_compute_root_undoes_it():
    A, B, s = along_y()
    buffer = s.reuse_at(A, s[B], "y")
    s[buffer].compute_root()
    assert s[buffer].buffer_shape == (10, 10)
    assert "  for y in 0..8:" not in text(s)
    assert "for y in 0..8:" in text(s)
    check(s)


def test_compute_at_undoes_it_where_no_other_buffer_is():
    A, D = image(), placeholder((10, 10), "int32", "D")
    B = compute((8, 10), lambda y, x: A[y, x] + A[y + 2, x] + D[y, x] * D[y + 2, x], "B")
    s = create_schedule(B)
    first, second = s.reuse_at(A, s[B], "y"), s.reuse_at(D, s[B], "y")
    s[first].compute_at(s[B], "y")
    assert "for y in 0..10:" in text(s)
    reads_of(s)
    s[second].compute_at(s[B], "y")
    assert "for y in 0..8:" in text(s)
    reads_of(s)


def test_the_order_shows_the_form():
    A, B, s = along_y()
    s.reuse_at(A, s[B], "y")
    assert "    A.reuse: @reuse ring\n" in text(s, "order")
    assert CONFIG.name == "vta"
