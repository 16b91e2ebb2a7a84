"""Reuse buffers as rings in the scratchpads: each row is loaded once, and results equal NumPy's."""

import numpy as np
import pytest
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend.operators import conv2d, requantise
from lathe.scheduler import Schedule, create_schedule
from lathe.sim import simulate_program

CONFIG = load_config("vta")


def random_values(*tensors: Tensor) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {tensor.name: rng.integers(-128, 128, tensor.shape).astype(np.int8) for tensor in tensors}


class Convolution:
    """A convolution and requantisation in tiles of rows (``dim`` 1) or columns (2), weights loaded once."""

    def __init__(
        self, size: int, tile: int, *, kernel: int = 3, stride: int = 1, padding: int = 1, dim: int = 1
    ) -> None:
        self.data = placeholder((1, size, size, 16), "int8", "data")
        self.weights = placeholder((16, kernel, kernel, 16), "int8", "weights")
        self.product = conv2d(self.data, self.weights, padding=padding, stride=stride, name="conv")
        self.output = requantise(self.product, 8, name="output")
        self.operand = self.product.computation.reads[0].tensor
        self.schedule = create_schedule(self.output)
        made = self.schedule.cache_write(self.output, "acc")
        self.schedule.cache_read(self.weights, "wgt", [self.product])
        stage = self.schedule[self.output]
        self.loop, inner = stage.split(stage.axis[dim], factor=tile)
        stage.reorder(stage.axis[0], self.loop, *(a for a in stage.leaf_axis if a not in (stage.axis[0], self.loop)))
        for tensor in (made, self.product):
            self.schedule[tensor].set_scope("acc")
            self.schedule[tensor].compute_at(stage, self.loop)

    def keep_halo(self, prologue: str = "loop") -> Schedule:
        s = self.schedule
        if self.operand is self.data:
            s.reuse_at(self.data, s[self.output], self.loop, "inp", prologue=prologue)
        else:
            s[self.operand].set_scope("inp")
            s[self.operand].reuse_at(s[self.output], self.loop, prologue=prologue)
        return s

    def load_halo_again(self) -> Schedule:
        s = self.schedule
        s[self.operand].set_scope("inp")
        s[self.operand].compute_at(s[self.output], self.loop)
        return s

    def bytes_read(self) -> int:
        inputs = random_values(self.data, self.weights)
        program = run(self.schedule, CONFIG, inputs)
        return int(simulate_program(program, inputs).counters.bytes_read["inp"])


def test_the_halo_is_loaded_again_without_it():
    convolution = Convolution(56, 14)
    convolution.load_halo_again()
    assert convolution.bytes_read() == 62 * 56 * 16


@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_each_row_of_a_convolution_is_loaded_once(prologue):
    convolution = Convolution(56, 14)
    s = convolution.keep_halo(prologue)
    assert s[convolution.operand].buffer_shape == (16, 58, 16)
    assert convolution.bytes_read() == 56 * 56 * 16


@pytest.mark.sample(7)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize(
    ("size", "tile", "kernel", "stride", "padding"),
    [(11, 2, 3, 1, 1), (12, 5, 3, 1, 0), (13, 2, 3, 2, 1), (9, 1, 3, 1, 1), (10, 3, 4, 1, 2), (8, 8, 3, 1, 1)],
)
def test_tiles_of_all_kinds(size, tile, kernel, stride, padding, dim):
    convolution = Convolution(size, tile, kernel=kernel, stride=stride, padding=padding, dim=dim)
    convolution.keep_halo()
    used = (size + 2 * padding - kernel) // stride * stride + kernel  # along either dimension, with the padding
    rows = min(used - padding, size)
    assert convolution.bytes_read() == rows * rows * 16


def image_blur() -> tuple[Tensor, Tensor]:
    A = placeholder((10, 10, 16), "int8", "A")

    def body(y: Tensor, x: Tensor, c: Tensor) -> Tensor:
        taps = [A[y + dy, x + dx, c].astype("int32") for dy in range(3) for dx in range(3)]
        total = taps[0]
        for tap in taps[1:]:
            total = total + tap
        return total

    return A, compute((8, 8, 16), body, "B")


@pytest.mark.parametrize("nested", [False, True])
def test_line_buffer_and_window_in_the_accumulators(nested):
    A, B = image_blur()
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    y, x, _ = s[B].axis
    s[made].compute_at(s[B], x if nested else y)
    lines = s.reuse_at(A, s[B], y)
    if nested:
        pixels = s.reuse_at(lines, s[B], x)
        assert s[pixels].buffer_shape == (3, 3, 16)
    assert s[lines].buffer_shape == (3, 10, 16)
    inputs = random_values(A)
    program = run(s, CONFIG, inputs)
    assert simulate_program(program, inputs).counters.bytes_read["acc8"] == 10 * 10 * 16
    assert np.sum([load.y_size * load.x_size for load in loads_of(program, "A")]) == 10 * 10


@pytest.mark.parametrize(("factor", "apart"), [(16, 16), (32, 48), (16, 40), (48, 16)])
def test_a_buffer_that_moves_along_lanes_is_counted_around_in_whole_elements(factor, apart):
    A = placeholder(200, "int32", "A")
    B = compute(200 - apart, lambda x: A[x] + A[x + apart], "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    xo, _ = s[B].split("x", factor=factor)
    s[made].compute_at(s[B], xo)
    s.reuse_at(A, s[B], xo)
    inputs = {"A": np.arange(200, dtype=np.int32)}
    program = run(s, CONFIG, inputs)
    loaded = np.sum([load.y_size * load.x_size for load in loads_of(program, "A")])
    assert loaded in (-(-200 // 16), 200)  # with A along the lanes, or one value per vector


@pytest.mark.parametrize("order", ["reverse", "shift"])
@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_tiles_in_another_order_load_each_row_once(order, prologue):
    convolution = Convolution(28, 7)
    stage = convolution.schedule[convolution.output]
    amounts = {"reverse": (), "shift": (1,)}[order]
    convolution.loop = getattr(stage, order)(convolution.loop, *amounts)
    convolution.keep_halo(prologue)
    assert convolution.bytes_read() == 28 * 28 * 16
