"""Delinearised loops: one chunk for all quotients, and lines of pixels with gaps as one LOAD each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

from lathe.frontend import Tensor, compute, placeholder, placeholders, select
from lathe.frontend.operators import conv2d, max_pool2d, requantise
from lathe.isa import Load, MemoryType, Program
from lathe.scheduler import Schedule, create_schedule, lower


def spread(data: Tensor, stride: int, before: int, behind: int) -> Tensor:
    """An image with ``stride - 1`` zeros between its pixels, and more around it."""
    n, height, width, channels = data.shape

    def cell(n, y, x, c):
        row, column = y - before, x - before
        inside = (row >= 0) & (row < height * stride) & (column >= 0) & (column < width * stride)
        there = inside & (row % stride == 0) & (column % stride == 0)
        return select(there, data[n, row // stride, column // stride, c], 0)

    shape = (n, height * stride + before + behind, width * stride + before + behind, channels)
    return compute(shape, cell, "spread")


def transposed(height: int, width: int, channels: int, stride: int, before: int, behind: int = 0) -> Schedule:
    """A convolution of such an image, all of which is in ``inp``."""
    data = placeholder((1, height, width, channels), "int8", "data")
    weights = placeholder((16, 3, 3, channels), "int8", "weights")
    image = spread(data, stride, before, behind)
    s = create_schedule(requantise(conv2d(image, weights, name="conv"), 6, name="out"))
    s[image].set_scope("inp")
    return s


def maxima(height: int, width: int, channels: int, stride: int, behind: int = 0) -> tuple[Schedule, Tensor, Tensor]:
    """Max pooling of such an image in ``acc``, where gaps are stored: schedule, image, and maxima."""
    image = spread(placeholder((1, height, width, channels), "int8", "data"), stride, 0, behind)
    s = create_schedule(max_pool2d(image, 2, stride=1, name="out"))
    made = s.cache_write(s.outputs[0], "acc")
    s[image].set_scope("acc")
    return s, image, made


def loads(program: Program, memory: MemoryType = MemoryType.ACC8) -> list[Load]:
    """The LOADs of data, without those of padding alone."""
    found = (each for each in program.instructions if isinstance(each, Load))
    return [each for each in found if each.memory_type == memory and each.y_size]


@pytest.mark.parametrize(("stride", "channels"), [(2, 16), (2, 64), (3, 16), (3, 48), (4, 16)])
def test_a_line_of_pixels_is_one_load_with_their_gaps_as_padding(stride, channels):
    s, *_ = maxima(5, 6, channels, stride)
    program = run(s, VTA, random_inputs(list(s.program), seed=1))
    found = [
        (each.y_size, each.x_size, each.x_pad_0, each.x_pad_1, each.y_pad_0, each.y_pad_1) for each in loads(program)
    ]
    lines = 6 * (stride - 1)  # of gaps, in rows of a pixel and its gap; one LOAD pads up to 15
    assert found == [(6, 1, 0, stride - 1, 0, lines if lines <= 15 else 0)] * 5 * (channels // 16)


def test_a_tile_that_begins_between_pixels_is_loaded_in_lines_too():
    s, image, made = maxima(6, 12, 16, 2, behind=1)
    out = s.outputs[0]
    _, columns, *_ = s[out].tile(s[out].axis[1], s[out].axis[2], 12, 3)
    for tensor in (made, image):
        s[tensor].compute_at(s[out], columns)
    program = run(s, VTA, random_inputs(list(s.program), seed=1))
    found = {(each.y_size, each.x_pad_0, each.x_pad_1) for each in loads(program)}
    assert found == {(2, 0, 1), (2, 1, 0), (1, 1, 0)}  # the last tile has one pixel, and the border


def test_gaps_wider_than_a_loads_padding_are_loads_of_padding():
    s = transposed(2, 2, 16, 17, 0)
    program = run(s, VTA, random_inputs(list(s.program), seed=1))
    assert sum(each.y_size * each.x_size for each in loads(program, MemoryType.INP)) == 2 * 2


def test_chunks_name_quotients():
    """All data is at one remainder, and the zeros in between are padding of the same LOAD."""
    s = transposed(4, 5, 16, 2, 0, 1)
    image = s.stages[0]
    image.emit_insn(image.axis[1], "dma")
    text = lower(s, [*placeholders(s.program), *s.program], VTA, stage="chunks")
    assert "dma(y//2 in 0..5, x//2 in 0..6, c in 0..16)" in text


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    height=st.integers(1, 5),
    width=st.integers(1, 5),
    blocks=st.integers(1, 3),
    stride=st.integers(2, 4),
    before=st.integers(0, 3),
    behind=st.integers(0, 3),
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
)
def test_gaps_in_tiles_that_begin_anywhere(height, width, blocks, stride, before, behind, rows, columns):
    if min(height, width) * stride + before + behind < 3:
        return
    data = placeholder((1, height, width, 16 * blocks), "int8", "data")
    weights = placeholder((16, 3, 3, 16 * blocks), "int8", "weights")
    image = spread(data, stride, before, behind)
    out = requantise(conv2d(image, weights, name="conv"), 6, name="out")
    s = create_schedule(out)
    _, columns_of_tile, *_ = s[out].tile(s[out].axis[1], s[out].axis[2], rows, columns)
    product = s[out.computation.reads[0].tensor]
    product.set_scope("acc")
    product.compute_at(s[out], columns_of_tile)
    s[image].set_scope("inp")
    s[image].compute_at(s[out], columns_of_tile)
    run(s, VTA, random_inputs(list(s.program), seed=1))


def test_pixels_that_are_doubled_are_not_loaded_pair_by_pair():
    data = placeholder((1, 6, 6, 16), "int8", "data")
    out = compute((1, 12, 12, 16), lambda n, y, x, c: data[n, y // 2, x // 2, c], "out")
    run(create_schedule(out), VTA, random_inputs([out], seed=1))


@pytest.mark.parametrize(
    "index",
    [lambda x: (3 * x + 1) // 2, lambda x: x + (x + 1) // 2, lambda x: (5 * x + 3) // 2 - 1],
    ids=["by three halves", "by one and a half", "by five halves"],
)
@pytest.mark.parametrize("scope", ["inp", "acc"])
def test_what_is_read_moves_with_the_remainder_too(index, scope):
    """Only one remainder is read; its iterations are counted from the start of the remainder's loop."""
    data = placeholder((1, 6, 40, 16), "int8", "data")
    image = compute((1, 6, 13, 16), lambda n, y, x, c: select(x % 2 == 1, data[n, y, index(x), c], 0), "image")
    if scope == "inp":
        out = conv2d(image, placeholder((16, 1, 3, 16), "int8", "weights"), name="out")
    else:
        out = compute(image.shape, lambda *i: image[i].astype("int32") * 3, "out")
    s = create_schedule(out)
    s[image].set_scope(scope)
    run(s, VTA, random_inputs([out], seed=1))


@pytest.mark.parametrize("skewed", [False, True])
def test_gaps_in_loops_that_run_backwards_or_aslant(skewed):
    data = placeholder((1, 6, 9, 16), "int8", "data")

    def cell(n, y, x, c):
        return select((y % 2 == 0) & (x % 3 == 2), data[n, (y + 1) // 2, (x + 2) // 3, c], 0)

    image = compute((1, 6, 9, 16), cell, "image")
    out = compute(image.shape, lambda *i: image[i].astype("int32") * 3, "out")
    s = create_schedule(out)
    s[image].set_scope("acc")
    y, x = s[image].axis[1:3]
    if skewed:
        s[image].skew(y, x, 1, 1)
    else:
        s[image].reverse(x)
    run(s, VTA, random_inputs([out], seed=1))


def test_gaps_on_the_rtl():
    data = placeholder((1, 4, 5, 8), "int8", "data")
    weights = placeholder((4, 3, 3, 8), "int8", "weights")
    out = requantise(conv2d(spread(data, 2, 1, 0), weights, name="conv"), 6, name="out")
    simulate_and_check(create_schedule(out), TINY)
