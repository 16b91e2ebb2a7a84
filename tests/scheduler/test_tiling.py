"""What the default schedule chooses."""

import pytest

from lathe.configs import load_config
from lathe.frontend import placeholder
from lathe.frontend.operators import matmul, relu, requantise
from lathe.scheduler import build
from lathe.scheduler.tiling import _parts
from lathe.sim import simulate_program


def test_sizes_of_parts_reach_from_the_whole_to_one():
    assert _parts(1) == [1]
    assert _parts(7) == [7, 4, 3, 2, 1]
    many = _parts(1 << 20)
    assert (many[0], many[-1], len(many)) == (1 << 20, 1, 24 + 16)


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_a_long_vector_is_cut_into_tiles_that_fill_the_scratchpad_not_into_single_elements(name):
    config = load_config(name)
    A = placeholder(1 << 15, "int8", "A")
    B = relu(A, name="B")
    program = build(B, [A, B], config)
    elements = (1 << 15) // config.block_out
    assert len(program.instructions) < elements / 8


def test_the_next_tile_is_computed_while_one_is_stored():
    """GEMM, resets and ALU fill the time of a matrix product but for the ends."""
    A, B = placeholder((256, 256), "int8", "A"), placeholder((256, 256), "int8", "B")
    D = requantise(matmul(A, B, name="C"), 8, name="D")
    counters = simulate_program(build(D, [A, B, D], load_config("vta")), {}, timing_only=True).counters
    busy = counters.gemm_operations + counters.reset_operations + counters.alu_operations
    assert counters.cycles < 1.05 * busy
