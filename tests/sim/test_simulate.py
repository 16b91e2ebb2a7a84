"""Simulation of programs: input and output arrays, cycles, counters, and refusals of inputs."""

import json
from dataclasses import replace

import convolution
import numpy as np
import pytest
from error_checks import raises
from percycle import PerCycle

from lathe.configs import load_config
from lathe.configs.host_memory import MemoryLimitError
from lathe.isa import Finish, Layout, Load, MachineFault, MemoryType, Program, Segment, Store
from lathe.sim import InputError, simulate_program
from lathe.sim.dram import FlatMemory


@pytest.fixture(scope="module")
def conv():
    """The convolution's program, its weights and one input."""
    program, weights = convolution.program()
    data = np.random.default_rng(5).integers(-128, 128, (56, 56, 64)).astype(np.int8)
    return program, weights, data


def copying(tokens_in=(0, 0, 0, 0), x_size=2, dram_base=0):
    """A program on tiny that copies input "a" (2, 4) int8 to output "b" through the accumulators."""
    layout = Layout.row_major((2, 4), "int8")
    instructions = (
        Load(MemoryType.ACC8, 0, dram_base, 1, x_size, x_size, push_next=True),
        Store(sram_base=0, dram_base=4, y_size=1, x_size=2, x_stride=2, pop_prev=True),
        Finish(),
    )
    segments = (
        Segment("a", "input", 0, 8, layout),
        Segment("b", "output", 16, 8, layout),
        Segment("stream", "instructions", 32, 48),
    )
    return Program(load_config("tiny"), instructions, segments, {}, tokens_in=tokens_in)


def test_a_convolution_equals_numpy(conv):
    program, weights, data = conv
    result = simulate_program(program, {"data": data})
    assert list(result.outputs) == ["result"]
    np.testing.assert_array_equal(result.outputs["result"], convolution.expected(data, weights))
    assert result.outputs["result"].dtype == np.int8


def test_counters_of_a_convolution_follow_from_its_loops(conv):
    program, _, data = conv
    counters = simulate_program(program, {"data": data}).counters
    assert counters.gemm_operations == 56 * 56 * 9 * 4 * 4
    assert counters.reset_operations == 56 * 56 * 4
    assert counters.alu_operations == 3 * 56 * 56 * 4
    assert counters.alu_operations_of == {
        "min": 12544,
        "max": 12544,
        "add": 0,
        "shr": 12544,
        "mul": 0,
        "sub": 0,
        "rescale": 0,
    }
    rows = 56 + 2 * 3  # rows of the image, and halo rows that are loaded twice
    assert counters.bytes_read == {
        "instructions": 16 * len(program.instructions),
        "uop": 4 * 38,
        "wgt": 4 * 64 * 64 * 9,
        "inp": 2 * rows * 56 * 64,
        "acc": 0,
        "acc8": 0,
        "par": 0,
        "lut": 0,
    }
    assert counters.bytes_written == {"out": 56 * 56 * 64}
    assert counters.write_beats == 56 * 56 * 64 // 8
    assert {name: unit.instructions for name, unit in counters.units.items()} == {
        "load": 64,
        "compute": 66,
        "store": 16,
        "fetch": 146,
    }


def test_each_cycle_of_each_unit_is_counted_once(conv):
    program, _, data = conv
    counters = simulate_program(program, {"data": data}).counters
    for unit in counters.units.values():
        assert unit.busy + sum(unit.stalls.values()) == counters.cycles
        assert min(unit.stalls.values()) > 0
    assert counters.units["compute"].busy == counters.gemm_operations + counters.reset_operations + (
        counters.alu_operations + 19 + 1  # beats of the micro-ops, and FINISH
    )


def test_one_input_may_be_stored_in_dram_twice():
    program = copying()
    layout = Layout.row_major((2, 4), "int8")
    again = Segment("a.again", "input", 8, 8, layout, tensor="a")
    program = replace(program, segments=(*program.segments, again))
    program = replace(program, instructions=(replace(program.instructions[0], dram_base=2), *program.instructions[1:]))
    values = np.arange(8, dtype=np.int8).reshape(2, 4)
    np.testing.assert_array_equal(simulate_program(program, {"a": values}).outputs["b"], values)


def test_counters_are_plain_values_for_json(conv):
    program, _, data = conv
    counters = simulate_program(program, {"data": data}).counters
    plain = json.loads(json.dumps(counters.to_dict()))
    assert plain["gemm_operations"] == counters.gemm_operations
    assert plain["units"]["load"]["stalls"] == counters.units["load"].stalls


def test_time_does_not_depend_on_data(conv):
    program, _, data = conv
    whole = simulate_program(program, {"data": data})
    timed = simulate_program(program, timing_only=True)
    assert timed.outputs == {}
    assert timed.cycles == whole.cycles == whole.counters.cycles
    assert timed.counters == whole.counters
    for name in ("unit", "instruction", "start", "end", "cause", "stalled", "waited"):
        np.testing.assert_array_equal(getattr(timed.trace, name), getattr(whole.trace, name))


@pytest.mark.slow
def test_a_convolution_takes_the_cycles_of_the_per_cycle_model(conv):
    program, _, _ = conv
    slow = PerCycle(program.config, program.instructions, program.insn_addr, program.tokens_in)
    assert simulate_program(program, timing_only=True).cycles == slow.run(most=600_000)


def test_no_trace_is_recorded_unless_requested():
    result = simulate_program(copying(), {"a": np.zeros((2, 4), np.int8)}, trace=False)
    assert result.trace is None


def test_simulating_a_program_twice_gives_equal_results():
    program, value = copying(), np.arange(8, dtype=np.int8).reshape(2, 4)
    first, second = (simulate_program(program, {"a": value}) for _ in range(2))
    np.testing.assert_array_equal(first.outputs["b"], value)
    np.testing.assert_array_equal(second.outputs["b"], value)
    assert first.cycles == second.cycles


def test_tokens_are_the_programs_own_unless_given():
    program, value = copying((1, 2, 0, 3)), np.zeros((2, 4), np.int8)
    assert simulate_program(program, {"a": value}).tokens == (1, 2, 0, 3)
    assert simulate_program(program, {"a": value}, tokens=(0, 0, 5, 0)).tokens == (0, 0, 5, 0)


def test_segments_without_a_layout_are_bytes():
    program = copying()
    segments = tuple(replace(segment, layout=None) for segment in program.segments)
    program = replace(program, segments=segments)
    result = simulate_program(program, {"a": np.arange(8, dtype=np.uint8)})
    assert result.outputs["b"].tolist() == list(range(8))


def test_constants_and_instructions_are_in_memory():
    program = copying(dram_base=8)  # the stream's first 8 bytes, counted in vectors of 4
    result = simulate_program(program, {"a": np.zeros((2, 4), np.int8)})
    assert result.outputs["b"].reshape(-1).view(np.uint8).tolist() == program.encoded.reshape(-1)[:8].tolist()


def test_a_load_beyond_the_programs_memory_faults():
    inputs = {"a": np.zeros((2, 4), np.int8)}
    mentions = ("instruction 0 (LOAD in compute)", "memory", "byte 0xc8")
    raises(MachineFault, simulate_program, copying(x_size=50), inputs, mentions=mentions)


@pytest.mark.parametrize(
    ("inputs", "mentions"),
    [
        ({}, ("'a' of shape (2, 4) and dtype int8", "missing")),
        ({"a": np.zeros((2, 4), np.int8), "c": np.zeros(3)}, ("must be a", "not 'c")),
        ({"a": np.zeros((4, 2), np.int8)}, ("Input 'a", "(2, 4) and dtype int8", "not (4, 2) and int8")),
        ({"a": np.zeros((2, 4))}, ("Input 'a", "(2, 4) and dtype int8", "not (2, 4) and float64")),
    ],
)
def test_inputs_that_are_not_the_programs_are_refused(inputs, mentions):
    raises(InputError, simulate_program, copying(), inputs, mentions=mentions)


@pytest.mark.parametrize("tokens", [(0, 0, 0), (0, 0, 0, -1), (0, 0, 0, 65536)])
def test_token_counts_that_no_machine_has_are_refused(tokens):
    inputs = {"a": np.zeros((2, 4), np.int8)}
    mentions = ("tokens", "from 0 to 65535", tokens, "load->compute, compute->load, compute->store, store->compute")
    raises(InputError, simulate_program, copying(), inputs, tokens=tokens, mentions=mentions)


def test_more_memory_than_exists_is_refused():
    raises(MemoryLimitError, FlatMemory, 1 << 62, kind="limit", mentions=(1 << 62, "timing_only"))


def test_timing_needs_no_memory():
    segments = (Segment("x", "input", (1 << 37) - 16, 16), Segment("i", "instructions", 0, 16))
    program = Program(load_config("tiny"), (Finish(),), segments, {}, ("all",), np.zeros(1, np.int32))
    assert simulate_program(program, timing_only=True).cycles > 0
