"""Every fault: its code, in bounded time, and a machine that runs the next launch as if nothing had been."""

import random
from dataclasses import replace

import numpy as np
import pytest
from comparison import NO_PAGES, Stream
from random_streams import stream_of_data

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MachineFault, MemoryType, Store
from lathe.rtl.engines import pysim, verilator
from lathe.rtl.engines.launch import BusError
from lathe.rtl.fault import FaultCode
from lathe.sim import replay

NOTHING = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
ENGINES = [pysim, pytest.param(verilator, marks=pytest.mark.slow)]


def load(**fields):
    return Load(
        **{"memory_type": MemoryType.INP, "sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
        | fields
    )


def store(**fields):
    return Store(**{"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1} | fields)


FAULTS = [
    ([load(pop_prev=True)], FaultCode.NO_NEIGHBOUR),
    ([load(push_prev=True)], FaultCode.NO_NEIGHBOUR),
    ([store(pop_next=True)], FaultCode.NO_NEIGHBOUR),
    ([store(push_next=True)], FaultCode.NO_NEIGHBOUR),
    ([load(memory_type=MemoryType.OUT)], FaultCode.MEMORY_TYPE),
    ([store(memory_type=MemoryType.ACC)], FaultCode.MEMORY_TYPE),
    ([store(x_pad_1=2)], FaultCode.STORE_PADDING),
    ([load(sram_base=250, y_pad_0=1, x_pad_1=1, x_size=3)], FaultCode.SRAM_RANGE),
    ([load(memory_type=MemoryType.ACC8, sram_base=255, x_size=2)], FaultCode.SRAM_RANGE),
    ([load(y_size=65535, x_size=65535, y_pad_0=15, y_pad_1=15, x_pad_0=15, x_pad_1=15)], FaultCode.SRAM_RANGE),
    ([store(y_size=257)], FaultCode.SRAM_RANGE),
    ([Alu(AluOp.ADD, 0, 1, 2, 2, 0, 0, 200, 56)], FaultCode.ACC_RANGE),
    ([Gemm(0, 1, 2, 2, 200, 56, 0, 0, 0, 0, reset=True)], FaultCode.ACC_RANGE),
    ([Gemm(0, 1, 2, 2, 0, 0, 200, 56, 0, 0)], FaultCode.INP_RANGE),
    ([Gemm(0, 1, 2, 2, 0, 0, 0, 0, 100, 28)], FaultCode.WGT_RANGE),
    ([Gemm(0, 1, 16383, 2, 255, 255, 0, 0, 0, 0)], FaultCode.ACC_RANGE),
    ([Gemm(255, 257, 1, 1, 0, 0, 0, 0, 0, 0)], FaultCode.UOP_RANGE),
    ([replace(NOTHING, pop_prev=True)], FaultCode.DEADLOCK),
    ([load(pop_next=True), replace(NOTHING, pop_prev=True), store(pop_prev=True)], FaultCode.DEADLOCK),
    ([replace(NOTHING, pop_prev=True)] * 20 + [load(push_next=True)] * 20, FaultCode.DEADLOCK),
]


def launch_of(cfg, instructions, tokens=(0, 0, 0, 0)):
    return Stream(instructions, *NO_PAGES, tokens=tokens).launch(cfg, most_cycles=5000)


@pytest.mark.parametrize("engine", ENGINES)
def test_illegal_and_deadlocking_instructions_stop_the_machine_with_their_code(engine):
    cfg = load_config("tiny")
    launches = [launch_of(cfg, [NOTHING, *instructions, Finish()]) for instructions, _ in FAULTS]
    # On one machine, one after the other, so that each also shows that the fault before it left nothing behind.
    outcomes = engine.run(cfg, *launches)
    assert [outcome.fault for outcome in outcomes] == [code for _, code in FAULTS]


@pytest.mark.parametrize(("instructions", "code"), FAULTS)
def test_the_simulator_refuses_the_same_instructions(instructions, code):
    cfg = load_config("tiny")
    assert code != FaultCode.NONE
    with pytest.raises(MachineFault):
        replay(cfg, Stream([NOTHING, *instructions, Finish()], *NO_PAGES).raw(cfg))


@pytest.mark.parametrize("instructions", [[], [NOTHING], [load(), store()]])
def test_a_stream_without_finish_is_a_fault(instructions):
    cfg = load_config("tiny")
    (outcome,) = pysim.run(cfg, launch_of(cfg, instructions))
    assert outcome.fault == FaultCode.NO_FINISH


def test_instructions_that_move_nothing_are_legal_whatever_else_they_hold():
    cfg = load_config("tiny")
    instructions = [
        load(memory_type=MemoryType.OUT, x_size=0),
        store(memory_type=MemoryType.INP, x_size=0, x_pad_0=3),
        load(sram_base=65535, x_size=0, y_size=5),
        Finish(),
    ]
    (outcome,) = pysim.run(cfg, launch_of(cfg, instructions))
    assert outcome.fault == FaultCode.NONE


def test_a_token_too_many_is_a_fault_and_one_in_place_of_another_is_not():
    cfg = load_config("tiny")
    full = (65535, 0, 0, 0)
    (outcome,) = pysim.run(cfg, launch_of(cfg, [load(push_next=True), Finish()], full))
    assert outcome.fault == FaultCode.TOKEN_OVERFLOW
    pop = replace(NOTHING, pop_prev=True)
    (outcome,) = pysim.run(cfg, launch_of(cfg, [pop, load(push_next=True), Finish()], full))
    assert (outcome.fault, outcome.tokens) == (FaultCode.NONE, full)


@pytest.mark.parametrize(
    ("byte", "content", "code"),
    [
        (0, 5, FaultCode.OPCODE),
        (0, 7, FaultCode.OPCODE),
        (0, 0x80, FaultCode.MEMORY_TYPE),  # LOAD of memory type 7, with byte 1
        (0, 4, FaultCode.ALU_OPCODE),
    ],
)
def test_bits_that_are_no_instruction_are_a_fault(byte, content, code):
    cfg = load_config("tiny")
    launch = launch_of(cfg, [Finish(), Finish()])
    word = launch.memory.pages[0x100000][16:32]
    word[:] = 0xFF if code is FaultCode.ALU_OPCODE else 0
    word[byte] = content
    if code is FaultCode.MEMORY_TYPE:
        word[1] = 3
    (outcome,) = pysim.run(cfg, launch)
    assert outcome.fault == code


def same(one, other):
    """Whether two outcomes agree in everything that a launch leaves."""
    return (
        (one.fault, one.cycles, one.tokens, one.units) == (other.fault, other.cycles, other.tokens, other.units)
        and one.memory.pages.keys() == other.memory.pages.keys()
        and all(np.array_equal(one.memory.pages[page], other.memory.pages[page]) for page in one.memory.pages)
    )


def stored_bytes(cfg, instructions):
    """The addresses of all bytes that a stream stores."""
    size = cfg.out_element_bytes
    return {
        byte
        for each in instructions
        if isinstance(each, Store)
        for row in range(each.y_size)
        for byte in range(
            (each.dram_base + row * each.x_stride) * size, (each.dram_base + row * each.x_stride + each.x_size) * size
        )
    }


def bus_error(engine, cfg, seed, channel):
    """An error at a random place of a launch, and the same launch again without one."""
    rng = random.Random(seed)
    stream = stream_of_data(rng, cfg, 10)
    (calm,) = engine.run(cfg, stream.launch(cfg))
    number = calm.beats["read"] if channel == "read" else calm.bursts["write"]
    if not number:
        return False
    error = BusError(channel, rng.randrange(number))
    failing = stream.launch(cfg, error=error, most_cycles=calm.cycles + 200)
    failed, again = engine.run(cfg, failing, stream.launch(cfg))
    assert failed.fault == (FaultCode.READ_ERROR if channel == "read" else FaultCode.WRITE_ERROR)
    assert failed.cycles < calm.cycles
    before, told = stream.launch(cfg).memory, stored_bytes(cfg, stream.instructions)
    for page, content in failed.memory.pages.items():
        changed = np.flatnonzero(content != before.read(page, len(content))) + page
        assert told.issuperset(changed.tolist())
    assert same(again, calm)
    return True


@pytest.mark.parametrize("channel", ["read", "write"])
def test_a_bus_error_stops_the_machine_and_the_next_launch_is_whole(channel):
    assert bus_error(pysim, load_config("tiny"), 6, channel)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["read", "write"])
def test_bus_errors_anywhere(channel):
    tried = sum(bus_error(verilator, load_config("tiny"), seed, channel) for seed in range(60))
    assert tried > 20


def test_an_access_beyond_the_memory_is_a_bus_error():
    cfg = load_config("tiny")
    stream = Stream([load(dram_base=0x400000), Finish()], *NO_PAGES)
    (outcome,) = pysim.run(cfg, stream.launch(cfg, memory_end=0x101000))
    assert outcome.fault == FaultCode.READ_ERROR
    stream = Stream([store(dram_base=0x400000), Finish()], *NO_PAGES)
    (outcome,) = pysim.run(cfg, stream.launch(cfg, memory_end=0x101000))
    assert outcome.fault == FaultCode.WRITE_ERROR


def reset_in(engine, cfg, seed, times):
    """A reset in random cycles, and the launch that follows it."""
    rng = random.Random(seed)
    stream = stream_of_data(rng, cfg, 8)
    (calm,) = engine.run(cfg, stream.launch(cfg))
    for _ in range(times):
        (after,) = engine.run(cfg, stream.launch(cfg, reset_at=rng.randrange(1, calm.cycles)))
        assert same(after, calm)


def test_a_launch_after_a_reset_in_any_cycle_is_like_a_first_one():
    reset_in(pysim, load_config("tiny"), 3, 2)


@pytest.mark.slow
def test_launches_after_resets_in_many_cycles():
    for seed in range(20):
        reset_in(verilator, load_config("tiny"), seed, 10)


def test_two_launches_on_one_machine_are_like_two_machines():
    cfg = load_config("tiny")
    streams = [stream_of_data(random.Random(seed), cfg, 5) for seed in (1, 2)]
    alone = [pysim.run(cfg, stream.launch(cfg))[0] for stream in streams]
    together = pysim.run(cfg, *(stream.launch(cfg) for stream in streams))
    assert all(same(one, other) for one, other in zip(alone, together, strict=True))
