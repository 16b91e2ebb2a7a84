"""``store_in``, compiled: buffers in scratchpads and DRAM have the folded size, and results equal NumPy's."""

import numpy as np
import pytest
from error_checks import raises
from folds import check_stored
from messages import refusal
from nests import rows
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, placeholders, recurrence, reduce_axis, sum
from lathe.frontend.operators import conv2d, requantise
from lathe.scheduler import BuildError, CapacityError, EmitError, Schedule, build, create_schedule


def in_shared_loops(width: int = 16) -> tuple[Schedule, Tensor, Tensor]:
    """B shares a loop with its consumer, which runs two rows later: each row of B is computed once."""
    B, D, s = rows(width=width)
    made = s.cache_write(D, "acc")
    s[made].after(s[B], s[made].shift("i", 2))
    return s, B, made


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("given", "cells"),
    [
        (lambda i, c: (i % 3, c), (3, 16)),
        (lambda i, c: (c, i % 3), (16, 3)),
        (lambda i, c: (i % 5, c), (5, 16)),
        (lambda i, c: (i % 3 * 16 + c,), (48,)),
        ("{ B[i, c] -> [i mod 4, floor(c/16), c mod 16] }", (4, 1, 16)),
    ],
)
def test_rows_are_a_ring_in_the_accumulators(given, cells):
    s, B, made = in_shared_loops()
    s[B].store_in(given, scope="acc")
    s[made].set_scope("acc")
    counts = s.count(VTA)
    assert counts.buffers["B"].shape == cells
    assert counts.buffers["B"].elements == np.prod(cells) // 16
    assert counts.stages["B"].redundant == 0
    run(s, VTA, random_inputs(list(s.program), seed=0))


def test_rows_are_a_ring_on_the_rtl():
    s, B, _ = in_shared_loops(width=4)
    s[B].store_in(lambda i, c: (i % 3, c), scope="acc")
    assert s.count(TINY).buffers["B"].elements == 3
    simulate_and_check(s)


def test_channels_first_in_the_accumulators_and_in_dram():
    B, D, s = rows(8, 32)
    made = s.cache_write(D, "acc")
    s[B].store_in(lambda i, c: (c, i), scope="acc")
    s[made].store_in(lambda i, c: (c // 16, i, c % 16))
    s[D].store_in(lambda i, c: (c, i))
    program = run(s, VTA, random_inputs([D], seed=0))
    layout = program.segment("D").layout
    assert layout is not None
    assert [step.shape for step in layout.reorderings] == [(32, 6)]
    simulate_and_check(s)


def test_two_by_two_holds_a_whole_image():
    """Tiramisu's c(i % 2, j % 2): each pixel is read before a later one overwrites its cell."""
    A = placeholder((6, 6, 16), "int8", "A")
    P = compute((6, 6, 16), lambda i, j, c: A[i, j, c].astype("int32") + 1, "P")
    Q = compute((6, 6, 16), lambda i, j, c: P[i, j, c] * P[i, j, c], "Q")
    for config, inputs in ((VTA, random_inputs([Q], seed=0)), (TINY, None)):
        s = create_schedule(Q)
        made = s.cache_write(Q, "acc")
        s[made].compute_at(s[Q], "j")
        s[P].compute_at(s[Q], "j")
        s[P].store_in(lambda i, j, c: (i % 2, j % 2, c), scope="acc")
        counts = s.count(config).buffers["P"]
        assert (counts.shape, counts.elements, counts.values) == ((2, 2, 16), 4 * 16 // config.block_out, 6 * 6 * 16)
        if inputs is None:
            simulate_and_check(s)
        else:
            run(s, config, inputs)


def convolution(size: int, channels: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = placeholder((1, size, size, channels), "int8", "data")
    weights = placeholder((channels, 3, 3, channels), "int8", "weights")
    product = conv2d(data, weights, padding=0, name="conv")
    return data, weights, product, requantise(product, 6, name="output")


def folded_convolution(size: int, channels: int, keep: int) -> Schedule:
    """A convolution with ``keep`` rows of the image in the input scratchpad; each row is loaded once."""
    data, weights, product, output = convolution(size, channels)
    s = create_schedule(output)
    made = s.cache_write(output, "acc")
    s.cache_read(weights, "wgt", [product])
    image = s.cache_read(data, "dram", [product])
    row = s[output].axis[1]
    for tensor in (made, product):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[output], row)
    s[image].compute_at(s[output], row, "missing")
    s[image].store_in(lambda _n, y, x, c: (y % keep, x, c), scope="inp")
    return s


@pytest.mark.parametrize("keep", [3, 4, 7])
def test_rows_of_a_convolution_are_a_ring_in_the_input_scratchpad(keep):
    s = folded_convolution(8, 16, keep)
    counts = s.count(VTA)
    assert counts.buffers["data.dram"].elements == keep * 8
    assert counts.loaded["inp"] == 8 * 8 * 16
    run(s, VTA, random_inputs(list(s.program), seed=0))


def test_rows_of_a_convolution_on_the_rtl():
    s = folded_convolution(5, 4, 3)
    assert s.count(TINY).buffers["data.dram"].elements == 15
    simulate_and_check(s)


def in_a_buffer_in_dram(height: int, width: int, factor: int) -> Schedule:
    """D in tiles of ``factor`` rows, with two more rows of B in a buffer in DRAM."""
    B, D, s = rows(height, width)
    io, _ = s[D].split("i", factor=factor)
    made = s.cache_write(B, "acc")
    s[made].compute_at(s[B], "i")
    s[B].compute_at(s[D], io)
    keep = factor + 2
    s[B].store_in(s.buffer("rows", (keep, width), scope="dram"), lambda i, c: (i % keep, c))
    return s


def test_rows_are_a_ring_in_dram():
    s = in_a_buffer_in_dram(10, 16, factor=4)
    program = run(s, VTA, random_inputs(list(s.program), seed=0))
    assert program.segment("rows").nbytes == 4 * 6 * 16


def test_a_nonlinear_storage_map_is_refused():
    B, D, s = rows()
    made = s.cache_write(D, "acc")
    s[B].store_in(lambda i, c: (i * i, c), scope="acc")
    s[made].set_scope("acc")
    tensors, mentions = [*placeholders(s.program), D], ("buffer B", "i * i", "B[i * i, c]")
    raises(EmitError, build, s, tensors, VTA, kind="machine", mentions=mentions)


def test_a_storage_map_that_splits_lanes_is_refused():
    B, D, s = rows(10, 24)
    made = s.cache_write(D, "acc")
    s[made].compute_at(s[D], "i")
    s[B].compute_at(s[D], "i")
    s[B].vectorize(s[B].split("c", 16)[1], 16)
    s[B].store_in(lambda i, c: (i % 4, c % 24 // 12, c % 12), scope="acc")
    mentions = ("B", 16, "along c", "B[i % 4, c % 24 // 12, c % 12]", "vectorize")
    raises(BuildError, build, s, [*placeholders(s.program), D], VTA, kind="machine", mentions=mentions)


def test_an_output_that_the_host_cannot_unpack_is_refused():
    _, D, s = rows()
    s[D].store_in(lambda i, c: (2 * i, c))
    mentions = ("output 'D'", "D[2 * i, c]", "(15, 16)", "s.cache_write(D, 'dram')")
    raises(BuildError, build, s, [*placeholders(s.program), D], VTA, kind="limit", mentions=mentions)


@pytest.mark.parametrize("scope", ["dram", "acc"])
def test_a_recurrence_keeps_two_steps(scope):
    x = placeholder((6, 16), "int8", "x")
    h = recurrence((6, 16), lambda s, t, n: (s[t - 1, n] >> 1) + x[t, n].astype("int32"), init=0, name="h")
    out = compute(16, lambda n: h[5, n] * 2, "out")
    s = create_schedule(out)
    s[h].store_in(lambda t, n: (t % 2, n), scope=scope)
    counts = s.count(VTA).buffers["h"]
    assert (counts.shape, counts.elements, counts.values) == ((2, 16), 2, 96)
    check_stored(s)
    run(s, VTA, random_inputs([out], seed=0))
    if scope == "acc":
        simulate_and_check(s)


def test_what_does_not_fit_says_what_the_buffer_is():
    s = folded_convolution(56, 64, 40)
    assert refusal(CapacityError, build, s, [*placeholders(s.program), *s.program], VTA).endswith(
        "now data.dram is 40×56×64 values. Split loops of such a stage by smaller factors, or compute it further "
        "inside."
    )


def test_a_convolution_loads_each_pixel_once_from_a_few_rows():
    """56 × 56 × 64 in tiles of four rows: six rows of the padded image are in the scratchpad at a time."""
    data = placeholder((1, 56, 56, 64), "int8", "data")
    weights = placeholder((64, 3, 3, 64), "int8", "weights")
    product = conv2d(data, weights, padding=1, name="conv")
    output = requantise(product, 8, name="output")
    padded = product.computation.reads[0].tensor
    s = create_schedule(output)
    rows, _ = s[output].split(s[output].axis[1], 4)
    made = s.cache_write(output, "acc", at=rows)
    s.cache_read(weights, "wgt", [product])
    s[product].compute_at(s[output], rows)
    s[padded].compute_at(s[output], rows, "missing")
    s[padded].store_in(lambda _n, y, x, c: (y % 6, x, c), scope="inp")
    for tensor in (product, made):
        s[tensor].store_in(lambda _n, y, x, c: (y % 4, x, c), scope="acc")
    counts = s.count(VTA)
    assert counts.buffers["conv.pad"].elements == 6 * 58 * 4
    assert counts.loaded["inp"] == 56 * 56 * 64
    assert counts.loaded["wgt"] == 64 * 9 * 64
    run(s, VTA, random_inputs([output], seed=0))


def one_at_a_time(kind: str, block: int) -> tuple[Schedule, Tensor, int]:
    """A schedule in which each value is read before the next is computed, its stored stage, and the vectors for it."""
    A = placeholder((6, block), "int8", "A")
    if kind == "sum":
        k = reduce_axis(block, "k")
        T = compute(6, lambda i: sum(A[i, k].astype("int32"), axis=k), "T")
        out = compute(6, lambda i: T[i] * 2, "out")
    else:
        T = compute((6, block), lambda i, c: A[i, c].astype("int32") + 1, "T")
        out = compute((6, block), lambda i, c: T[i, c] * 2, "out")
    s = create_schedule(out)
    place = s[out].axis[1 if kind == "value" else 0]
    made = s.cache_write(out, "acc", at=place)
    s[T].compute_at(s[out], place)
    s[T].store_in((lambda *index: index[1:]) if kind == "row" else (lambda *_: 0), scope="acc")
    assert s[made].state.scope == "acc"
    return s, T, 1


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["sum", "value", "row"])
@pytest.mark.parametrize("config", [VTA, TINY, load_config("batch4")], ids=lambda config: config.name)
def test_one_vector_holds_all_values(kind, config):
    s, T, elements = one_at_a_time(kind, config.block_out)
    found = s.count(config).buffers[T.name]
    assert found.elements == elements
    assert found.values == T.shape[0] * (config.block_out if T.ndim == 2 else 1)
    if config is TINY:
        simulate_and_check(s, config)
    else:
        run(s, config, random_inputs(list(s.program), seed=0))


def test_rows_are_a_ring_in_dram_on_the_rtl():
    s = in_a_buffer_in_dram(8, 4, factor=3)
    assert simulate_and_check(s).segment("rows").nbytes == 4 * 5 * 4


def test_the_host_gets_a_stored_intermediate_result_from_the_rtl():
    B, D, s = rows(6, 4)
    s[B].store_in(lambda i, c: (c, i))
    s.host_to_device(B.computation.reads[0].tensor)
    s.device_to_host(B)
    program = simulate_and_check(s)
    assert [segment.name for segment in program.segments if segment.role == "output"] == ["B", "D"]
