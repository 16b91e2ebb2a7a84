"""Skipping of taps that only meet zero padding: non-zero analysis, the partition of a GEMM, and the cycles saved."""

import numpy as np
import pytest
from random_programs import random_inputs
from small_machine import TINY, VTA, run, simulate_and_check

import lathe as lt
from lathe.frontend import placeholders
from lathe.scheduler.layout.nonzero_analysis import cells_within, nonzero_fraction, nonzero_masks
from lathe.sim import Counters

BEGINS = TINY.with_(extensions=("gemm_begin",))


def image(*pixels: int, channels: int = 4) -> lt.Tensor:
    return lt.placeholder((1, *pixels, channels), "int8", "data")


def weights(filters: int, *taps: int, channels: int = 4) -> lt.Tensor:
    return lt.placeholder((filters, *taps, channels), "int8", "weights")


def measured(output: lt.Tensor | lt.Schedule, config: lt.HardwareConfig = VTA) -> Counters:
    """The counters of a validated build, whose outputs are compared with NumPy's."""
    s = output if isinstance(output, lt.Schedule) else lt.create_schedule(output)
    lt.build(s, [*placeholders(s.program), *s.program], config, check=True)
    inputs = random_inputs(list(s.program), seed=3)
    return lt.simulate(run(s, config, inputs), inputs).counters


def pairs(extent: int, taps: int, stride: int = 1, dilation: int = 1, before: int = 0, after: int = 0) -> int:
    """Pairs of a result and a tap that meet one of ``extent`` pixels."""
    results = (extent + before + after - dilation * (taps - 1) - 1) // stride + 1
    return sum(0 <= r * stride + t * dilation - before < extent for r in range(results) for t in range(taps))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("pixels", "taps", "arguments"),
    [
        ((14, 14), (3, 3), {"padding": 1}),
        ((16, 12), (5, 3), {"padding": ((2, 2), (1, 1))}),
        ((15, 13), (3, 3), {"padding": ((2, 0), (0, 1)), "stride": 2}),
        ((12, 12), (3, 3), {"padding": 4, "dilation": 4}),
        ((9, 10), (7, 7), {"padding": 3}),
        ((12, 14), (3, 3), {"padding": ((5, 4), (0, 6))}),
        ((10, 10), (1, 1), {"padding": 2}),
        ((11, 10), (2, 2), {"padding": 1}),
        ((9, 9), (4, 4), {"padding": 3, "stride": 3}),
    ],
    ids=str,
)
@pytest.mark.parametrize("config", [VTA, lt.load_config("lathe16")], ids=lambda each: each.name)
def test_exactly_the_taps_that_meet_data_are_multiplied(pixels, taps, arguments, config):
    data, kernel = image(*pixels, channels=64), weights(16, *taps, channels=64)
    output = lt.conv2d(data, kernel, name="conv", **arguments)
    padding = arguments["padding"]
    sides = ((padding,) * 2,) * 2 if isinstance(padding, int) else padding
    stride, dilation = arguments.get("stride", 1), arguments.get("dilation", 1)
    met = [pairs(n, t, stride, dilation, *side) for n, t, side in zip(pixels, taps, sides, strict=True)]
    steps = measured(output, config).gemm_operations
    if config is VTA:
        assert steps == met[0] * met[1] * 4
    else:  # if no tap meets data for all results, the other sums begin with a MAC of zeros
        assert met[0] * met[1] * 4 <= steps < met[0] * met[1] * 4 + output.shape[1] * output.shape[2]


def transposed(stride: int, taps: int, before: int) -> lt.Tensor:
    """A convolution of a dilated and padded image."""
    data, kernel = image(6, 6, channels=64), weights(16, taps, taps, channels=64)
    extent = 5 * stride + 1 + 2 * before

    def cell(n, y, x, c):
        row, column = y - before, x - before
        inside = (row >= 0) & (row < 5 * stride + 1) & (column >= 0) & (column < 5 * stride + 1)
        there = inside & (row % stride == 0) & (column % stride == 0)
        return lt.select(there, data[n, row // stride, column // stride, c], 0)

    spread = lt.compute((1, extent, extent, 64), cell, "spread")
    return lt.conv2d(spread, kernel, name="conv")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("stride", "taps", "before"), [(2, 3, 2), (2, 4, 2), (3, 3, 2), (2, 2, 1)])
def test_gaps_between_pixels_are_not_multiplied(stride, taps, before):
    """Rows and columns without pixels are skipped by strided loops, one GEMM for each residue of the stride."""
    results = 5 * stride + 1 + 2 * before - taps + 1
    met = sum((r + t - before) % stride == 0 and 0 <= r + t - before <= 5 * stride
              for r in range(results) for t in range(taps))  # fmt: skip
    steps = measured(transposed(stride, taps, before)).gemm_operations
    assert met * met * 4 <= steps < 1.05 * met * met * 4  # the excess costs less than another GEMM


def test_a_border_of_another_value_is_multiplied():
    data, kernel = image(8, 8, channels=16), weights(16, 3, 3, channels=16)

    def cell(n, y, x, c):
        inside = (y >= 1) & (y < 9) & (x >= 1) & (x < 9)
        return lt.select(inside, data[n, y - 1, x - 1, c], -7)

    padded = lt.compute((1, 10, 10, 16), cell, "padded")
    output = lt.conv2d(padded, kernel, name="conv")
    assert measured(output, lt.load_config("lathe16")).gemm_operations == 64 * 9


def test_sums_begin_in_the_part_that_covers_all_of_them():
    """The middle tap meets data everywhere."""
    output = lt.conv2d(image(6, 7), weights(4, 3, 3), padding=1, name="conv")
    counters = measured(output, BEGINS)
    assert (counters.gemm_operations, counters.reset_operations) == (16 * 19, 0)


def test_if_no_tap_covers_all_sums_the_others_begin_with_a_mac_of_zeros():
    output = lt.conv2d(image(6, 7), weights(4, 2, 2), padding=1, name="conv")
    counters = measured(output, BEGINS)
    assert (counters.gemm_operations, counters.reset_operations) == (12 * 14 + 7 * 8 - 6 * 7, 0)
    counters = measured(transposed(2, 3, 2), lt.load_config("lathe16"))
    assert counters.reset_operations == 0


def test_taps_in_chunks_of_their_own_begin_sums_too():
    """The rows of taps are an outer loop: the first of them has no data for the first row."""
    output = lt.conv2d(image(10, 10, channels=16), weights(32, 3, 3, channels=16), padding=1, name="conv")
    s = lt.create_schedule(output)
    made = s.cache_write(output, "acc")
    stage = s[made]
    n, y, x, o = stage.axis
    ry, rx, rc = stage.reduce_axis
    stage.reorder(ry, n, y, x, o, rx, rc)
    stage.emit_insn(n, "gemm")
    counters = measured(s, lt.load_config("lathe16"))
    assert counters.reset_operations == 0
    assert counters.gemm_operations == (28 * 28 + 10) * 2


def test_results_that_meet_no_data_are_zeros():
    output = lt.conv2d(image(3, 3), weights(4, 2, 2), padding=4, name="conv")
    assert measured(output, TINY).gemm_operations == 6 * 6
    assert measured(output, BEGINS).gemm_operations == 6 * 6 + 100 - 9  # 91 more initialise sums


@pytest.mark.parametrize("config", [TINY, BEGINS], ids=["adds", "begins"])
def test_parts_on_the_rtl(config):
    for output in (
        lt.conv2d(image(5, 6), weights(4, 3, 3), padding=1, name="conv"),
        lt.conv2d(image(5, 4), weights(6, 3, 2), padding=2, stride=2, name="conv"),
    ):
        simulate_and_check(lt.create_schedule(output), config)


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["ring", "shift"])
@pytest.mark.parametrize("prologue", ["loop", "first"])
@pytest.mark.parametrize("loop", [1, 2])
def test_windows_that_move_over_a_border(form, prologue, loop):
    """Reused rows of a padded image, shifted or in a ring: the non-zero masks follow the window."""
    data, kernel = image(7, 8), weights(4, 3, 3)
    output = lt.conv2d(data, kernel, padding=1, name="conv")
    padded = output.computation.reads[0].tensor
    s = lt.create_schedule(output)
    made = s.cache_write(output, "acc")
    s[made].compute_at(s[output], s[output].axis[loop])
    s[padded].set_scope("acc" if form == "shift" else "inp")
    s[padded].compute_at(s[output], s[output].axis[loop])
    s[padded].reuse_at(s[output], s[output].axis[loop], form=form, prologue=prologue)
    measured(s, TINY)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(12))
def test_any_convolution_equals_numpy(seed):
    generator = np.random.default_rng(seed)
    pixels, taps = generator.integers(2, 11, 2).tolist(), generator.integers(1, 5, 2).tolist()
    stride, dilation = (tuple(generator.integers(1, 4, 2).tolist()) for _ in range(2))
    reach = [d * (t - 1) + 1 for d, t in zip(dilation, taps, strict=True)]
    padding = []
    for extent, least in zip(pixels, reach, strict=True):
        before = int(generator.integers(0, 6))
        padding.append((before, int(max(least - extent - before, generator.integers(0, 6)))))
    data, kernel = image(*pixels, channels=int(generator.integers(1, 9))), None
    kernel = weights(int(generator.integers(1, 9)), *taps, channels=data.shape[-1])
    output = lt.conv2d(data, kernel, padding=tuple(padding), stride=stride, dilation=dilation, name="conv")
    config = (TINY, BEGINS, VTA, lt.load_config("batch4"))[seed % 4]
    counters = measured(output, config)
    if config is VTA:
        each = zip(pixels, taps, stride, dilation, padding, strict=True)
        met = [pairs(n, t, s, d, *side) for n, t, s, d, side in each]
        everything = output.shape[1] * output.shape[2] * taps[0] * taps[1]
        assert met[0] * met[1] <= counters.gemm_operations <= everything, f"seed {seed}"


@pytest.mark.parametrize("steps", [1, 4])
def test_copies_in_a_recurrence(steps):
    """Nothing is known of a state that is passed on between iterations, except that it is zero at first."""
    rows = 5
    state = lt.state((rows, 16), "int8", "state", init=0)
    data, kernel = lt.placeholder((16, 16), "int8", "data"), lt.placeholder((16, 16), "int8", "kernel")
    before = lt.compute((rows, 16), lambda t, i: state[t - 1, i], "before")
    k = lt.reduce_axis(16, "k")
    made = lt.compute(
        (rows, 16), lambda t, i: lt.sum(kernel[i, k].astype("int32") * before[t, k].astype("int32"), axis=k), "made"
    )
    lt.define(state, lambda t, i: lt.select(t % steps == 0, data[t, i], before[t, i]))
    output = lt.requantise(made, 4, name="output")
    assert measured(output).gemm_operations in (rows, rows - 1)


# Non-zero analysis.


def nothing_known(_tensor):
    return None


def padded(condition, value=0, shape=(6, 5)):
    data = lt.placeholder((4, 5), "int8", "data")
    return lt.compute(shape, lambda y, x: lt.select(condition(y, x), data[lt.max(lt.min(y - 1, 3), 0), x], value), "p")


@pytest.mark.parametrize(
    ("condition", "value", "rows", "columns"),
    [
        (lambda y, _: (y >= 1) & (y < 5), 0, "011110", None),
        (lambda y, x: ((y >= 1) & (y < 5)) & (x % 2 == 0), 0, "011110", "10101"),
        (lambda y, _: ~((y < 1) | (y >= 5)), 0, "011110", None),
        (lambda y, x: (y >= 1) & (x + y < 6), 0, "011111", None),
        (lambda y, x: (y >= 1) | (x >= 1), 0, None, None),
        (lambda y, _: (y >= 1) & (y < 5), 3, None, None),
        (lambda y, _: y >= 0, 0, None, None),
    ],
)
def test_cells_that_hold_data(condition, value, rows, columns):
    found = nonzero_masks(padded(condition, value).computation, nothing_known)
    expected = tuple(None if each is None else bytes(map(int, each)) for each in (rows, columns))
    assert found == (None if expected == (None, None) else expected)


def test_the_branches_may_be_exchanged_and_nested():
    data = lt.placeholder((4,), "int8", "data")

    def cell(i):
        inner = lt.select(i < 5, data[lt.max(lt.min(i - 1, 3), 0)], 0)
        return lt.select(i < 1, 0, inner)

    assert nonzero_masks(lt.compute((7,), cell, "p").computation, nothing_known) == (b"\0\1\1\1\1\0\0",)


def test_other_selects_give_no_mask():
    data, other = lt.placeholder((4,), "int8", "data"), lt.placeholder((4,), "int8", "other")
    both = lt.compute((4,), lambda i: lt.select(i < 2, data[i], other[i]), "both")
    chosen = lt.compute((4,), lambda i: lt.select(other[i] < 2, data[i], 0), "chosen")
    assert [nonzero_masks(each.computation, nothing_known) for each in (both, chosen)] == [None] * 2
    more = lt.compute((4,), lambda i: lt.select(i < 2, data[i] + 1, 0), "more")
    assert nonzero_masks(more.computation, nothing_known) == (b"\1\1\0\0",)


def test_masks_are_propagated_through_copies():
    first = padded(lambda y, _: (y >= 1) & (y < 5))

    def cells_of(tensor):
        return None if tensor.computation is None else nonzero_masks(tensor.computation, cells_of)

    copy = lt.compute((5, 3), lambda x, y: first[y * 2, x], "copy")
    assert cells_of(copy) == (None, b"\0\1\1")
    around = lt.compute((8, 5), lambda y, x: lt.select((y >= 1) & (y < 7), first[y - 1, x], 0), "around")
    assert cells_of(around) == (b"\0\0\1\1\1\1\0\0", None)
    added = lt.compute((6, 5), lambda y, x: first[y, x] + 1, "added")
    assert cells_of(added) is None


def test_cells_within_a_box():
    cells = (b"\0\1\1\1\0", None)
    assert cells_within(cells, (0, 0), (3, 4)) == (b"\0\1\1", None)
    assert cells_within(cells, (1, 0), (3, 4)) is None
    assert cells_within(cells, (3, 2), (3, 4)) is None  # beyond the tensor nothing is known
    assert cells_within(cells, (3, 2), (2, 4)) == (b"\1\0", None)
    assert cells_within(None, (0, 0), (3, 4)) is None


def test_the_share_of_taps_on_data():
    output = lt.conv2d(image(6, 7), weights(4, 3, 3), padding=1, name="conv")
    read = output.computation.reads[0]
    cells = nonzero_masks(read.tensor.computation, nothing_known)
    assert nonzero_fraction(read.indices, cells) == pytest.approx(16 * 19 / (18 * 21))
    assert nonzero_fraction(read.indices, None) == 1
