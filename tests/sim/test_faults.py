"""What a machine refuses: each with its whole message."""

import numpy as np
import pytest
from percycle import PerCycle

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MachineFault, MemoryType, Store, encode
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


def fault_of(cfg, instructions, tokens=(0, 0, 0, 0)):
    with pytest.raises(MachineFault) as caught:
        launched(cfg, instructions, tokens)
    return str(caught.value)


def load(**fields):
    block = {"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1}
    return Load(**{"memory_type": MemoryType.INP} | block | fields)


def store(**fields):
    return Store(**{"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 1, "x_stride": 1} | fields)


NO_NEIGHBOUR = "must be 0, not 1, for {} has no {} neighbour. Tokens go between neighbours only."

# fmt: off
ILLEGAL = [
    (load(pop_prev=True), "pop_prev of instruction 1 (LOAD in load) " + NO_NEIGHBOUR.format("load", "prev")),
    (load(push_prev=True), "push_prev of instruction 1 (LOAD in load) " + NO_NEIGHBOUR.format("load", "prev")),
    (store(pop_next=True), "pop_next of instruction 1 (STORE in store) " + NO_NEIGHBOUR.format("store", "next")),
    (store(push_next=True), "push_next of instruction 1 (STORE in store) " + NO_NEIGHBOUR.format("store", "next")),
    (Alu(AluOp.SUB, 0, 1, 1, 1, 0, 0, 0, 0),
        "alu_opcode of instruction 1 (ALU in compute) must be one of min, max, add, shr, mul, not sub. Machine 'tiny' "
        "is without the extension 'alu_sub'."),
    (load(memory_type=MemoryType.OUT),
        "memory_type of instruction 1 (LOAD in compute) must be uop, wgt, inp, acc or acc8, not out. No unit loads "
        "out."),
    (store(memory_type=MemoryType.ACC),
        "memory_type of instruction 1 (STORE in store) must be out, not acc. STORE takes no other."),
    (store(x_pad_1=2), "x_pad_1 of instruction 1 (STORE in store) must be 0, not 2. STORE has no padding."),
    (load(sram_base=250, y_pad_0=1, y_size=1, x_pad_1=1, x_size=3),
        "sram_base of instruction 1 (LOAD in load) must put its block of 8 elements below 256, not up to 257. The "
        "scratchpad ends there."),
    (load(memory_type=MemoryType.ACC8, sram_base=255, x_size=2),
        "sram_base of instruction 1 (LOAD in compute) must put its block of 2 elements below 256, not up to 256. The "
        "scratchpad ends there."),
    (store(sram_base=0, y_size=257),
        "sram_base of instruction 1 (STORE in store) must put its block of 257 elements below 256, not up to 256. "
        "The scratchpad ends there."),
    (load(sram_base=300, y_size=0),
        "sram_base of instruction 1 (LOAD in load) must be at most 256, not 300, also for a block of no elements. "
        "The scratchpad ends there."),
    (Alu(AluOp.ADD, 0, 1, 2, 2, 0, 0, 200, 56),
        "acc element src of instruction 1 (ALU in compute) must be below 256, not 256. The scratchpad ends there."),
    (Gemm(0, 1, 2, 2, 200, 56, 0, 0, 0, 0, reset=True),
        "acc element dst of instruction 1 (GEMM in compute) must be below 256, not 256. The scratchpad ends there."),
]
# fmt: on


@pytest.mark.parametrize(("instruction", "message"), ILLEGAL)
def test_an_illegal_instruction_is_refused_by_name(instruction, message):
    assert fault_of(load_config("tiny"), [NOTHING, instruction, Finish()]) == message


def test_the_first_of_several_illegal_instructions_is_named():
    message = fault_of(load_config("tiny"), [store(push_next=True), load(pop_prev=True), Finish()])
    assert message.startswith("push_next of instruction 0 (STORE in store)")


def test_an_opcode_that_is_none_is_refused():
    cfg = load_config("tiny")
    encoded = encode(cfg, [Finish(), Finish()])
    encoded[1, 0] |= 7
    assert fault_of(cfg, encoded) == (
        "opcode of instruction 1 must be one of 0 LOAD, 1 STORE, 2 GEMM, 3 FINISH, 4 ALU, 5 RESCALE, not 7. "
        "The bytes are no instruction of machine 'tiny'."
    )


def test_an_instruction_that_moves_nothing_may_be_of_any_kind_of_memory():
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
    message = fault_of(cfg, instructions)
    cycle = message.split("after cycle ")[1].split(":")[0]
    assert message == (
        f"The launch must end, and is deadlocked after cycle {cycle}: "
        "load waits with instruction 0 (load inp sram_base=0 dram_base=0x0 y_size=1 x_size=1 x_stride=1 pop_next) "
        "for a token of compute->load; "
        "compute waits with instruction 1 (gemm uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 "
        "dst_factor_in=0 src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0 pop_prev pop_next) "
        "for a token of load->compute and store->compute; "
        "store waits with instruction 2 (store out sram_base=0 dram_base=0x0 y_size=1 x_size=1 x_stride=1 pop_prev) "
        "for a token of compute->store. Every pop needs a push before it."
    )
    slow = PerCycle(cfg, instructions, 0, (0, 0, 0, 0))
    assert slow.run() is None


def test_a_deadlock_through_a_full_queue_names_what_fetch_waits_with():
    cfg = load_config("tiny").with_(**{"timing.command_queue_depth": 2})
    stuck = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    instructions = [stuck, stuck, stuck, load(push_next=True), load(push_next=True), load(push_next=True), Finish()]
    message = fault_of(cfg, instructions)
    assert "load has no instruction; compute waits with instruction 0 (" in message
    assert (
        "store has no instruction; fetch waits with instruction 2 (gemm uop_bgn=0 uop_end=0 iter_out=0 iter_in=0 "
        "dst_factor_out=0 dst_factor_in=0 src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0 pop_prev) "
        "for room in the compute queue. Every pop needs a push before it." in message
    )
    assert PerCycle(cfg, instructions, 0, (0, 0, 0, 0)).run() is None


def test_a_deeper_queue_lets_the_same_stream_end():
    cfg = load_config("tiny").with_(**{"timing.command_queue_depth": 3})
    stuck = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    instructions = [stuck, stuck, stuck, load(push_next=True), load(push_next=True), load(push_next=True), Finish()]
    result = launched(cfg, instructions)
    assert result.cycles == PerCycle(cfg, instructions, 0, (0, 0, 0, 0)).run()


@pytest.mark.parametrize("instructions", [[], [NOTHING]])
def test_a_stream_without_finish_is_refused(instructions):
    assert fault_of(load_config("tiny"), instructions) == (
        "The stream must have a FINISH, and has none: the launch never ends. Add a FINISH."
    )


def test_a_token_more_than_a_counter_holds_is_refused():
    message = fault_of(load_config("tiny"), [load(push_next=True), Finish()], (MOST_TOKENS, 0, 0, 0))
    assert message == (
        "The tokens of load->compute must be at most 65535, not more, as with that of instruction 0 (LOAD in load). "
        "Let the receiving unit pop them earlier."
    )


def test_a_full_counter_takes_a_token_when_one_was_popped_before():
    cfg = load_config("tiny")
    pop = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    instructions = [pop, load(push_next=True), Finish()]
    result = launched(cfg, instructions, (MOST_TOKENS, 0, 0, 0))
    assert result.tokens == (MOST_TOKENS, 0, 0, 0)


def test_a_load_that_is_refused_is_not_cut_into_bursts(monkeypatch):
    """Its four milliards of elements would be millions of them."""
    asked = []
    runs = Chains.runs
    monkeypatch.setattr(Chains, "runs", lambda self, *sizes: asked.append(self.chains.tolist()) or runs(self, *sizes))
    far = load(y_size=65535, x_size=65535, x_stride=65535, x_pad_0=15)
    assert "must put its block of 4295819250 elements below 256" in fault_of(
        load_config("tiny"), [load(), far, Finish()]
    )
    assert asked == [[1]]
