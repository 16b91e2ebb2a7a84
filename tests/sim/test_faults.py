"""Faults in the simulator: the names and values in each message."""

import numpy as np
import pytest
from error_checks import check_mentions, raises
from percycle import PerCycle

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MachineFault, MemoryType, Store, encode, instruction_text
from lathe.sim import replay
from lathe.sim.bursts import Chains
from lathe.sim.fault import MOST_TOKENS

NOTHING = Load(MemoryType.UOP, 0, 0, 0, 0, 0)


def launched(cfg, instructions, tokens=(0, 0, 0, 0)):
    """The replay of a stream, of instructions or bytes, on empty memory."""
    stream = {
        "insns": instructions if isinstance(instructions, np.ndarray) else encode(cfg, instructions),
        "insn_addr": 0,
        "page_addrs": np.zeros(0, np.uint64),
        "pages": np.zeros((0, 4096), np.uint8),
        "tokens": np.array(tokens),
    }
    return replay(cfg, stream)


def fault_of(cfg, instructions, *mentions, tokens=(0, 0, 0, 0)):
    return str(raises(MachineFault, launched, cfg, instructions, tokens, mentions=mentions))


def load(**fields):
    block = {"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
    return Load(**{"memory_type": MemoryType.INP} | block | fields)


def store(**fields):
    return Store(**{"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1} | fields)


# fmt: off
ILLEGAL = [
    (load(pop_prev=True), ("pop_prev of instruction 1 (LOAD in load)", "not 1", "load has no prev neighbour")),
    (load(push_prev=True), ("push_prev of instruction 1 (LOAD in load)", "not 1", "load has no prev neighbour")),
    (store(pop_next=True), ("pop_next of instruction 1 (STORE in store)", "not 1", "store has no next neighbour")),
    (store(push_next=True), ("push_next of instruction 1 (STORE in store)", "not 1", "store has no next neighbour")),
    (Alu(AluOp.SUB, 0, 1, 1, 1, 0, 0, 0, 0),
        ("alu_opcode of instruction 1 (ALU in compute)", "min, max, add, shr, mul", "not sub", "tiny", "alu_sub")),
    (load(memory_type=MemoryType.OUT),
        ("memory_type of instruction 1 (LOAD in compute)", "uop, wgt, inp, acc or acc8", "not out")),
    (store(memory_type=MemoryType.ACC),
        ("memory_type of instruction 1 (STORE in store)", "must be out", "not acc", "STORE supports")),
    (store(x_pad_1=2), ("x_pad_1 of instruction 1 (STORE in store)", 0, "not 2", "STORE has no padding")),
    (load(sram_base=250, y_pad_0=1, y_size=1, x_pad_1=1, x_size=3),
        ("sram_base of instruction 1 (LOAD in load)", "8 vectors", "below 256", "not up to 257")),
    (load(memory_type=MemoryType.ACC8, sram_base=255, x_size=2),
        ("sram_base of instruction 1 (LOAD in compute)", "2 vectors", "below 256", "not up to 256")),
    (store(sram_base=0, y_size=257),
        ("sram_base of instruction 1 (STORE in store)", "257 vectors", "below 256", "not up to 256")),
    (load(sram_base=300, y_size=0),
        ("sram_base of instruction 1 (LOAD in load)", "at most 256", "not 300", "empty")),
    (Alu(AluOp.ADD, 0, 1, 2, 2, 0, 0, 200, 56),
        ("acc", "src of instruction 1 (ALU in compute)", "below 256", "not 256")),
    (Gemm(0, 1, 2, 2, 200, 56, 0, 0, 0, 0, reset=True),
        ("acc", "dst of instruction 1 (GEMM in compute)", "below 256", "not 256")),
]
# fmt: on


@pytest.mark.parametrize(("instruction", "mentions"), ILLEGAL)
def test_an_illegal_instruction_is_refused_by_name(instruction, mentions):
    fault_of(load_config("tiny"), [NOTHING, instruction, Finish()], *mentions)


def test_the_first_of_several_illegal_instructions_is_named():
    message = fault_of(load_config("tiny"), [store(push_next=True), load(pop_prev=True), Finish()])
    assert message.startswith("push_next of instruction 0 (STORE in store)")


def test_an_invalid_opcode_is_refused():
    cfg = load_config("tiny")
    encoded = encode(cfg, [Finish(), Finish()])
    encoded[1, 0] |= 7
    mentions = ("opcode of instruction 1", "0 LOAD, 1 STORE, 2 GEMM, 3 FINISH, 4 ALU, 5 RESCALE", "not 7", "tiny")
    fault_of(cfg, encoded, *mentions)


def test_an_empty_transfer_may_have_any_memory_type():
    cfg = load_config("tiny")
    instructions = [
        load(memory_type=MemoryType.OUT, x_size=0),
        store(memory_type=MemoryType.INP, x_size=0, x_pad_0=3),
        load(sram_base=65535, x_size=0, y_size=5),
        Finish(),
    ]
    result = launched(cfg, instructions)
    assert not result.changed.any()
    assert sum(result.counters.bytes_read.values()) == 4 * 16


def test_a_deadlock_names_what_each_unit_waits_for():
    cfg = load_config("tiny")
    instructions = [
        load(pop_next=True),
        Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, pop_prev=True, pop_next=True),
        store(pop_prev=True),
        Finish(),
    ]
    waiting, gemm, storing = fault_of(cfg, instructions, "deadlocked after cycle").split("; ")
    texts = [f"({instruction_text(each)})" for each in instructions]
    check_mentions(waiting, f"load waits with instruction 0 {texts[0]}", "compute->load")
    check_mentions(gemm, f"compute waits with instruction 1 {texts[1]}", "load->compute and store->compute")
    check_mentions(storing, f"store waits with instruction 2 {texts[2]}", "compute->store")
    slow = PerCycle(cfg, instructions, 0, (0, 0, 0, 0))
    assert slow.run() is None


def test_a_deadlock_through_a_full_queue_names_fetchs_instruction():
    cfg = load_config("tiny").with_(**{"timing.command_queue_depth": 2})
    stuck = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    instructions = [stuck, stuck, stuck, load(push_next=True), load(push_next=True), load(push_next=True), Finish()]
    *_, fetch = fault_of(
        cfg, instructions, "load has no instruction; compute waits with instruction 0", "store has no instruction"
    ).split("; ")
    check_mentions(fetch, f"fetch waits with instruction 2 ({instruction_text(stuck)})", "compute queue")
    assert PerCycle(cfg, instructions, 0, (0, 0, 0, 0)).run() is None


def test_a_deeper_queue_lets_the_same_stream_end():
    cfg = load_config("tiny").with_(**{"timing.command_queue_depth": 3})
    stuck = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    instructions = [stuck, stuck, stuck, load(push_next=True), load(push_next=True), load(push_next=True), Finish()]
    result = launched(cfg, instructions)
    assert result.cycles == PerCycle(cfg, instructions, 0, (0, 0, 0, 0)).run()


@pytest.mark.parametrize("instructions", [[], [NOTHING]])
def test_a_stream_without_finish_is_refused(instructions):
    fault_of(load_config("tiny"), instructions, "FINISH", "never ends")


def test_an_overflowing_token_counter_is_a_fault():
    mentions = ("load->compute", MOST_TOKENS, "instruction 0 (LOAD in load)")
    fault_of(load_config("tiny"), [load(push_next=True), Finish()], *mentions, tokens=(MOST_TOKENS, 0, 0, 0))


def test_a_full_counter_takes_a_token_when_one_was_popped_before():
    cfg = load_config("tiny")
    pop = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    instructions = [pop, load(push_next=True), Finish()]
    result = launched(cfg, instructions, (MOST_TOKENS, 0, 0, 0))
    assert result.tokens == (MOST_TOKENS, 0, 0, 0)


def test_a_load_that_is_refused_is_not_cut_into_bursts(monkeypatch):
    """Its four billion vectors would take millions of bursts."""
    asked = []
    runs = Chains.runs
    monkeypatch.setattr(Chains, "runs", lambda self, *sizes: asked.append(self.chains.tolist()) or runs(self, *sizes))
    far = load(y_size=65535, x_size=65535, x_stride=65535, x_pad_0=15)
    fault_of(load_config("tiny"), [load(), far, Finish()], "4295819250 vectors", "below 256")
    assert asked == [[1]]
