"""The tiling search: tiles that the default schedule chooses."""

from dataclasses import replace

import numpy as np
import pytest
from random_programs import random_inputs

from lathe.configs import load_config
from lathe.frontend import placeholder, reference
from lathe.frontend.operators import flatten, matmul, pad2d, relu, requantise
from lathe.isa import verify
from lathe.scheduler import build
from lathe.scheduler.tiling.search_space import equal_parts
from lathe.sim import simulate_program


def test_tile_sizes_reach_from_the_extent_to_one():
    assert equal_parts(1) == [1]
    assert equal_parts(7) == [7, 4, 3, 2, 1]
    many = equal_parts(1 << 20)
    assert (many[0], many[-1], len(many)) == (1 << 20, 1, 24 + 16)


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_a_long_array_gets_tiles_that_fill_the_scratchpad(name):
    config = load_config(name)
    A = placeholder(1 << 15, "int8", "A")
    B = relu(A, name="B")
    program = build(B, [A, B], config)
    vectors = (1 << 15) // config.block_out
    assert len(program.instructions) < vectors / 8


def test_the_next_tile_is_computed_while_one_is_stored():
    """GEMM, resets and ALU take almost all cycles of a matmul, except in prologue and epilogue."""
    A, B = placeholder((256, 256), "int8", "A"), placeholder((256, 256), "int8", "B")
    D = requantise(matmul(A, B, name="C"), 8, name="D")
    counters = simulate_program(build(D, [A, B, D], load_config("vta")), {}, timing_only=True).counters
    busy = counters.gemm_operations + counters.reset_operations + counters.alu_operations
    assert counters.cycles < 1.05 * busy


def test_the_longest_reduction_axis_is_tiled_if_tiling_channels_is_not_enough():
    """A case found by random tests: 11 × 15 × 3 blocks of weights, of which 128 fit."""
    config = replace(load_config("batch4"), wgt_buffer_bytes=8192)
    image, weights = placeholder((1, 7, 11, 17), "int8", "image"), placeholder((2805, 5), "int8", "weights")
    output = matmul(flatten(pad2d(image, 2, name="padded"), name="flat"), weights, name="output")
    inputs = random_inputs([output], seed=0)
    program = build(output, [image, weights, output], config)
    assert verify(program) == []
    np.testing.assert_array_equal(simulate_program(program, inputs).outputs["output"], reference(output, inputs))
