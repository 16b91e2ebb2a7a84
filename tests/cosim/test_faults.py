"""Every fault: its code, detection in bounded time, and a next launch that is not affected."""

import random
from dataclasses import replace

import numpy as np
import pytest
from comparison import drain, fault_of, reported_fault, same
from error_checks import check_mentions
from random_streams import stream_of_data
from streams import NO_PAGES, Stream

from lathe.configs import load_config
from lathe.isa import (
    Alu,
    AluOp,
    BusError,
    FaultCode,
    Finish,
    Gemm,
    Load,
    MachineFault,
    MemoryType,
    Store,
    verify_stream,
)
from lathe.isa.semantics import MachineState
from lathe.isa.semantics import run as run_plainly
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.engines import pysim, verilator
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
    ([load(sram_base=257, y_size=0)], FaultCode.SRAM_RANGE),
    ([store(sram_base=257, y_size=0)], FaultCode.SRAM_RANGE),
    *(([Alu(each, 0, 1, 1, 1, 0, 0, 0, 0)], FaultCode.ALU_OPCODE) for each in AluOp if each.extension is not None),
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


@pytest.mark.parametrize("engine", ENGINES)
def test_illegal_and_deadlocking_instructions_stop_the_machine_with_their_code(engine):
    cfg = load_config("tiny")
    streams = [Stream([NOTHING, *instructions, Finish()], *NO_PAGES) for instructions, _ in FAULTS]
    # All run on one machine, so that each also checks that the previous fault does not affect it.
    outcomes = engine.run(cfg, *(stream.launch(cfg, most_cycles=5000) for stream in streams))
    assert [outcome.fault for outcome in outcomes] == [code for _, code in FAULTS]
    assert [reported_fault(outcome) for outcome in outcomes] == [fault_of(cfg, stream) for stream in streams]


@pytest.mark.parametrize(("instructions", "code"), FAULTS)
def test_the_simulator_names_code_and_instruction(instructions, code):
    cfg = load_config("tiny")
    with pytest.raises(MachineFault) as caught:
        replay(cfg, Stream([NOTHING, *instructions, Finish()], *NO_PAGES).raw(cfg))
    assert (caught.value.code, caught.value.instruction) == (code, 1)


@pytest.mark.parametrize(("instructions", "code"), FAULTS)
def test_the_reference_semantics_have_the_same_code_and_instruction(instructions, code):
    with pytest.raises(MachineFault) as caught:
        run_plainly(MachineState(load_config("tiny"), PagedMemory()), [NOTHING, *instructions, Finish()])
    assert (caught.value.code, caught.value.instruction, caught.value.cycle) == (code, 1, None)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("instructions", [[], [NOTHING], [load(), store()]])
def test_a_stream_without_finish_is_a_fault(instructions, engine):
    cfg = load_config("tiny")
    stream = Stream(instructions, *NO_PAGES)
    (outcome,) = engine.run(cfg, stream.launch(cfg))
    assert outcome.fault == FaultCode.NO_FINISH
    assert reported_fault(outcome) == fault_of(cfg, stream)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_of_several_faults_the_first_one_detected_is_reported(engine):
    cfg = load_config("tiny").with_(**{"timing.command_queue_depth": 2})
    slow = [load(y_size=10, x_size=20, x_stride=30)]
    illegal, beyond, stuck = load(pop_prev=True), load(sram_base=256), replace(NOTHING, pop_prev=True)
    several = {
        FaultCode.SRAM_RANGE: [beyond, *slow, NOTHING, illegal],  # fetch continues while the first one is decoded
        FaultCode.NO_NEIGHBOUR: [*slow, *slow, beyond, illegal],
        FaultCode.DEADLOCK: [stuck, stuck, stuck, illegal],
        FaultCode.ACC_RANGE: [Gemm(0, 1, 2, 2, 200, 56, 0, 0, 0, 0, reset=True), *[stuck] * 3],
    }
    streams = [Stream([*instructions, Finish()], *NO_PAGES) for instructions in several.values()]
    outcomes = engine.run(cfg, *(stream.launch(cfg, most_cycles=5000) for stream in streams))
    assert [outcome.fault for outcome in outcomes] == list(several)
    assert [reported_fault(outcome) for outcome in outcomes] == [fault_of(cfg, stream) for stream in streams]


def test_instructions_that_move_nothing_are_legal_whatever_their_other_fields():
    cfg = load_config("tiny")
    instructions = [
        load(memory_type=MemoryType.OUT, x_size=0),
        store(memory_type=MemoryType.INP, x_size=0, x_pad_0=3),
        load(sram_base=65535, x_size=0, y_size=5),
        load(sram_base=256, y_size=0),
        store(sram_base=256, y_size=0),
        Finish(),
    ]
    stream = Stream(instructions, *NO_PAGES)
    (outcome,) = pysim.run(cfg, stream.launch(cfg))
    assert outcome.fault == FaultCode.NONE
    assert reported_fault(outcome) == fault_of(cfg, stream)


AT_STREAM = 0x100000 // 4  # in vectors of out

INTO_THE_STREAM = {
    "its first instruction": store(dram_base=AT_STREAM),
    "its last vector": store(dram_base=AT_STREAM + 4 * 3 - 1),
    "one vector too many": store(dram_base=AT_STREAM - 9, x_size=10, x_stride=10),
    "a later burst": store(dram_base=AT_STREAM - 200, x_size=201, x_stride=201),
    "a later row": store(dram_base=AT_STREAM - 40, y_size=3, x_size=2, x_stride=20),
}
AROUND_THE_STREAM = {
    "before": store(dram_base=AT_STREAM - 4, x_size=4, x_stride=4),
    "after": store(dram_base=AT_STREAM + 4 * 3),
    "around": store(dram_base=AT_STREAM - 2, y_size=2, x_size=2, x_stride=14),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_into_the_stream_is_a_fault_and_changes_none_of_it(engine):
    cfg = load_config("tiny")
    cases = INTO_THE_STREAM | AROUND_THE_STREAM
    streams = {name: Stream([NOTHING, each, Finish()], *NO_PAGES) for name, each in cases.items()}
    outcomes = engine.run(cfg, *(stream.launch(cfg, most_cycles=5000) for stream in streams.values()))
    for (name, stream), outcome in zip(streams.items(), outcomes, strict=True):
        code = FaultCode.STREAM_WRITE if name in INTO_THE_STREAM else FaultCode.NONE
        assert (outcome.fault, reported_fault(outcome)) == (code, fault_of(cfg, stream)), name
        encoded = stream.encoded(cfg).reshape(-1)
        assert outcome.memory.read(stream.insn_addr, len(encoded)).tolist() == encoded.tolist(), name


@pytest.mark.parametrize("name", INTO_THE_STREAM | AROUND_THE_STREAM)
def test_verifier_simulator_and_semantics_reject_a_store_into_the_stream(name):
    cfg = load_config("tiny")
    fill = load(memory_type=MemoryType.ACC, x_size=256, x_stride=256, push_next=True)
    each = replace((INTO_THE_STREAM | AROUND_THE_STREAM)[name], pop_prev=True)
    stream = Stream([fill, each, Finish()], *NO_PAGES)
    findings = verify_stream(cfg, stream.instructions, PagedMemory(), insn_addr=stream.insn_addr)
    state = MachineState(cfg, PagedMemory())
    if name in AROUND_THE_STREAM:
        assert findings == []
        assert fault_of(cfg, stream)[0] is FaultCode.NONE
        run_plainly(state, stream.instructions, stream.insn_addr)
        return
    assert [(finding.code, finding.instruction) for finding in findings] == [(FaultCode.STREAM_WRITE, 1)]
    with pytest.raises(MachineFault) as simulated:
        replay(cfg, stream.raw(cfg))
    with pytest.raises(MachineFault) as meant:
        run_plainly(state, stream.instructions, stream.insn_addr)
    first = "0x10002c" if name == "its last vector" else "0x100000"
    check_mentions(simulated.value, "instruction 1 (STORE in store)", "stream", first)
    assert str(meant.value) == str(simulated.value)
    check_mentions(findings[0], "dram_base of instruction 1 in store", "0x100000", "0x10002f", f"DRAM {first}")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_overflow_of_tokens_is_a_fault_and_a_push_after_a_pop_is_not(engine):
    cfg = load_config("tiny")
    full = (65535, 0, 0, 0)
    pop = replace(NOTHING, pop_prev=True)
    stream = Stream([load(push_next=True), Finish()], *NO_PAGES, tokens=full)
    (outcome,) = engine.run(cfg, stream.launch(cfg))
    assert outcome.fault == FaultCode.TOKEN_OVERFLOW
    assert reported_fault(outcome) == fault_of(cfg, stream)
    stream = Stream([pop, load(push_next=True), Finish()], *NO_PAGES, tokens=full)
    (outcome,) = engine.run(cfg, stream.launch(cfg))
    assert (outcome.fault, outcome.tokens) == (FaultCode.NONE, full)
    assert reported_fault(outcome) == fault_of(cfg, stream)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("content", "code"),
    [
        ([5] + [0] * 15, FaultCode.OPCODE),
        ([7] + [0] * 15, FaultCode.OPCODE),
        ([0x80, 3] + [0] * 14, FaultCode.MEMORY_TYPE),  # LOAD of memory type 7
        ([0x81, 3] + [0] * 14, FaultCode.MEMORY_TYPE),  # STORE of memory type 7
        ([4] + [0xFF] * 15, FaultCode.ALU_OPCODE),
    ],
)
def test_bits_that_are_no_instruction_are_a_fault(content, code, engine):
    cfg = load_config("tiny")
    stream = Stream([Finish(), Finish()], *NO_PAGES)
    stream.insns = stream.encoded(cfg)
    stream.insns[1] = content
    (outcome,) = engine.run(cfg, stream.launch(cfg))
    assert outcome.fault == code
    assert reported_fault(outcome) == fault_of(cfg, stream)
    with pytest.raises(MachineFault) as caught:
        replay(cfg, stream.raw(cfg))
    assert caught.value.instruction == 1


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
    """An error at a random access of a launch, and then the same launch without one."""
    rng = random.Random(seed)
    stream = stream_of_data(rng, cfg, 10)
    (calm,) = engine.run(cfg, stream.launch(cfg))
    number = calm.beats["read"] if channel == "read" else calm.bursts["write"]
    if not number:
        return False
    error = BusError(channel, rng.randrange(number))
    expected = fault_of(cfg, stream, bus_error=error)
    failing = stream.launch(cfg, error=error, most_cycles=expected[1] + drain(cfg))
    failed, again = engine.run(cfg, failing, stream.launch(cfg))
    assert failed.fault == (FaultCode.READ_ERROR if channel == "read" else FaultCode.WRITE_ERROR)
    assert reported_fault(failed) == expected
    assert failed.cycles < calm.cycles
    before, stores = stream.launch(cfg).memory, stored_bytes(cfg, stream.instructions)
    for page, content in failed.memory.pages.items():
        changed = np.flatnonzero(content != before.read(page, len(content))) + page
        assert stores.issuperset(changed.tolist())
    assert same(again, calm)
    return True


@pytest.mark.parametrize("channel", ["read", "write"])
def test_a_bus_error_stops_the_machine_and_does_not_affect_the_next_launch(channel):
    assert bus_error(pysim, load_config("tiny"), 6, channel)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["read", "write"])
def test_bus_errors_anywhere(channel):
    tried = sum(bus_error(verilator, load_config("tiny"), seed, channel) for seed in range(60))
    assert tried > 20


@pytest.mark.parametrize(
    ("engine", "bus_bits"),
    [(pysim, 64), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((pysim, 256), (verilator, 64)))],
)
def test_an_access_beyond_the_memory_is_a_bus_error(engine, bus_bits):
    cfg = load_config("tiny").with_(**{"memory.bus_bits": bus_bits})
    end = 0x101004  # within a beat, all of which is accessible
    cases = [
        (load(dram_base=0x400000), FaultCode.READ_ERROR),
        (store(dram_base=0x400000), FaultCode.WRITE_ERROR),
        (load(dram_base=0x101000 // 4, x_size=20), FaultCode.READ_ERROR),
        (load(dram_base=0x101000 // 4, x_size=2), FaultCode.NONE),
        (store(dram_base=0x100F00 // 4, x_size=66), FaultCode.NONE),
        (store(dram_base=0x100F00 // 4, x_size=80), FaultCode.WRITE_ERROR),
    ]
    streams = [Stream([instruction, Finish()], *NO_PAGES) for instruction, _ in cases]
    outcomes = engine.run(cfg, *(stream.launch(cfg, memory_end=end) for stream in streams))
    assert [outcome.fault for outcome in outcomes] == [code for _, code in cases]
    expected = [fault_of(cfg, stream, memory_end=end) for stream in streams]
    assert [reported_fault(outcome) for outcome in outcomes] == expected


def test_the_simulator_names_the_instruction_that_a_bus_error_hits():
    cfg = load_config("tiny")
    stream = Stream([load(x_size=4), load(dram_base=64), Finish()], *NO_PAGES)
    beats = 3 * 2  # of the stream; two and one follow
    instructions = []
    for number in (0, beats, beats + 1, beats + 2):
        with pytest.raises(MachineFault) as caught:
            replay(cfg, stream.raw(cfg), bus_error=BusError("read", number))
        instructions.append(caught.value.instruction)
    assert instructions == [None, 0, 0, 1]
    check_mentions(caught.value, "instruction 1 (LOAD in load)", f"cycle {caught.value.cycle}")
    result = replay(cfg, stream.raw(cfg), bus_error=BusError("read", beats + 3))
    assert result.cycles == replay(cfg, stream.raw(cfg)).cycles
