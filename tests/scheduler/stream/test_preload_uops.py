"""Hoisting of LOADs of micro-ops that overwrite no others to the beginning of the stream."""

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.frontend import placeholder
from lathe.frontend.operators import conv2d, requantise
from lathe.isa import Finish, Gemm, Instruction, Load, MemoryType, verify
from lathe.scheduler import build
from lathe.scheduler.stream.micro_op_pool import MicroOpPool
from lathe.scheduler.stream.preload_uops import MOST, hoist_uop_loads
from lathe.sim import simulate_program

WORK = Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0)


def uops(sram: int, dram: int, count: int) -> Load:
    return Load(MemoryType.UOP, sram, dram, 1, count, count)


def test_loads_that_are_contiguous_in_both_memories_are_merged_with_the_label_of_the_first():
    stream: list[Instruction] = [uops(0, 0, 4), WORK, uops(4, 4, 2), WORK, Finish()]
    assert hoist_uop_loads(stream, [0, 0, 1, 1, 1]) == ([uops(0, 0, 6), WORK, WORK, Finish()], [0, 0, 1, 1])


def test_loads_that_are_not_contiguous_in_one_memory_are_not_merged():
    stream: list[Instruction] = [WORK, uops(0, 0, 4), uops(4, 7, 2), uops(9, 9, 2)]
    assert hoist_uop_loads(stream, [0] * 4)[0] == [uops(0, 0, 4), uops(4, 7, 2), uops(9, 9, 2), WORK]


def test_nothing_is_hoisted_from_the_first_load_that_overwrites_another_on():
    stream: list[Instruction] = [uops(0, 0, 4), WORK, uops(2, 4, 2), WORK, uops(4, 6, 2)]
    assert hoist_uop_loads(stream, [0] * 5)[0] == stream


def test_a_merged_load_fits_its_field():
    stream: list[Instruction] = [uops(0, 0, MOST), uops(MOST, MOST, 1)]
    assert hoist_uop_loads(stream, [0, 0])[0] == stream


def test_other_loads_are_not_hoisted():
    stream: list[Instruction] = [Load(MemoryType.INP, 0, 0, 1, 4, 4), WORK, Load(MemoryType.ACC, 0, 0, 1, 4, 4)]
    assert hoist_uop_loads(stream, [0] * 3) == (stream, [0] * 3)


def test_a_program_without_evictions_loads_all_micro_ops_in_its_first_instruction():
    config = load_config("vta")
    data, weights = placeholder((1, 14, 14, 16), "int8", "data"), placeholder((32, 3, 3, 16), "int8", "weights")
    output = requantise(conv2d(data, weights, padding=1, name="conv"), 8, name="output")
    program = build(output, [data, weights, output], config)
    loads = [n for n, each in enumerate(program.instructions) if _loads_uops(each) and each.x_size]
    assert loads == [0]
    assert program.instructions[0].x_size * 4 == program.segment("uop").nbytes
    assert verify(program) == []


def _loads_uops(instruction: Instruction) -> bool:
    return isinstance(instruction, Load) and instruction.memory_type == MemoryType.UOP


def test_allocations_of_a_failed_rule_are_undone():
    pool = MicroOpPool(load_config("vta"))
    index = np.arange(4)
    pool.place(index, index, index)

    def fail() -> None:
        with pool.rollback_on(KeyError):
            pool.place(index + 4, index, index)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert pool.place(index + 8, index, index)[2] == [uops(4, 4, 4)]
    assert pool.image().nbytes == 8 * 4


def test_a_program_with_evicted_micro_ops_computes_the_same():
    config = load_config("tiny")
    generator = np.random.default_rng(0)
    data, weights = placeholder((1, 13, 11, 9), "int8", "data"), placeholder((7, 3, 3, 9), "int8", "weights")
    output = requantise(conv2d(data, weights, padding=1, name="conv"), 8, name="output")
    inputs = {t.name: generator.integers(-128, 128, t.shape, np.int8) for t in (data, weights)}
    small = build(output, [data, weights, output], _with_uops(config, 8))
    large = build(output, [data, weights, output], config)
    loads = [each for each in small.instructions if _loads_uops(each) and each.x_size]
    assert len(loads) > 1
    expected = simulate_program(large, inputs).outputs["output"]
    np.testing.assert_array_equal(simulate_program(small, inputs).outputs["output"], expected)


def _with_uops(config, count: int):
    from dataclasses import replace

    return replace(config, uop_buffer_bytes=count * config.uop_element_bytes)
