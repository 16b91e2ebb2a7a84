"""The static verifier: for each kind of mistake a program that has it, beside the nearest one that has not."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.isa import (
    Alu,
    AluOp,
    FaultCode,
    FindingKind,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    PagedMemory,
    Program,
    ProgramError,
    Segment,
    Store,
    VerificationError,
    check,
    encode_uops,
    instruction_text,
    unit_of,
    verify,
    verify_stream,
)

TINY = load_config("tiny")  # inp 256 elements of 4 bytes, wgt 128 of 16, acc 256 of 16 (out 4), 256 micro-ops

CODE, UOPS, A, W, B, T, C = (0x1000 * page for page in range(1, 8))

# Micro-op 0 is the element of the loops alone; 1 reads inp 4 and acc 4; 2 reads acc 255; 3 reads the last weight.
UOP_WORDS = encode_uops(TINY, dst=[0, 0, 0, 0], src=[0, 4, 255, 0], wgt=[0, 0, 0, 127])


def stream() -> list[Instruction]:
    """max(relu((A · Wᵀ + B) >> 4) through memory T, times W again, into C; free of mistakes."""
    return [
        Load(MemoryType.INP, 0, A // 4, 1, 4, 4),
        Load(MemoryType.WGT, 0, W // 16, 1, 1, 1, push_next=True),
        Load(MemoryType.UOP, 0, UOPS // 4, 1, 4, 4),
        Load(MemoryType.ACC, 0, B // 16, 1, 4, 4),
        Gemm(0, 1, 2, 2, 2, 1, 2, 1, 0, 0, pop_prev=True),
        Alu(AluOp.SHR, 0, 1, 1, 4, 0, 1, 0, 0, use_imm=True, imm=4, push_next=True),
        Store(sram_base=0, dram_base=T // 4, y_size=1, x_size=4, x_stride=4, pop_prev=True, push_prev=True),
        Alu(AluOp.MAX, 0, 1, 1, 4, 0, 1, 0, 0, use_imm=True, pop_next=True, push_prev=True),
        Load(MemoryType.INP, 0, T // 4, 1, 4, 4, pop_next=True, push_next=True),
        Gemm(0, 1, 1, 4, 0, 1, 0, 0, 0, 0, reset=True),
        Gemm(0, 1, 1, 4, 0, 1, 0, 1, 0, 0, pop_prev=True, push_next=True),
        Store(sram_base=0, dram_base=C // 4, y_size=2, x_size=2, x_stride=8, pop_prev=True, push_prev=True),
        Finish(pop_next=True),
    ]


def program(instructions: list[Instruction], **changes: Any) -> Program:
    parts: dict[str, Any] = {
        "config": TINY,
        "instructions": tuple(instructions),
        "segments": (
            Segment("code", "instructions", CODE, 16 * 20),
            Segment("uops", "uop", UOPS, 16),
            Segment("A", "input", A, 32),
            Segment("W", "constant", W, 32),
            Segment("B", "constant", B, 64),
            Segment("T", "temporary", T, 16),
            Segment("C", "output", C, 40),
        ),
        "images": {
            "uops": UOP_WORDS.view(np.uint8),
            "W": np.ones(32, np.uint8),
            "B": np.zeros(64, np.uint8),
        },
    }
    return Program(**parts | changes)


def with_changes(*changes: tuple[int, dict[str, Any]]) -> list[Instruction]:
    instructions = stream()
    for index, fields in changes:
        instructions[index] = replace(instructions[index], **fields)
    return instructions


def told(instructions: list[Instruction], **changes: Any) -> list[str]:
    return [str(finding) for finding in verify(program(instructions, **changes))]


def test_program_without_mistakes_has_no_findings() -> None:
    assert told(stream()) == []
    check(program(stream()))


# fmt: off
MISTAKES: dict[str, tuple[list[Any], list[Any], str]] = {
    "shift amount": ([(5, {"imm": -31})], [(5, {"imm": -32})],
        "shift amount: imm of {5} must be from -31 to 31, not -32."),
    "shift amount is only that of a shift": ([(7, {"imm": 32})], [(7, {"alu_opcode": AluOp.SHR, "imm": 32})],
        "shift amount: imm of {7} must be from -31 to 31, not 32."),
    "LOAD beyond the scratchpad": ([(0, {"sram_base": 0, "y_pad_1": 3})],
        [(0, {"sram_base": 0, "y_pad_1": 15, "x_pad_0": 13})],
        "scratchpad out of range: sram_base of {0} must put its block of 272 elements below 256, not up to 271; see "
        "inp[256] and 15 more."),
    "LOAD of no elements beyond the scratchpad": ([(3, {"sram_base": 0})], [(3, {"sram_base": 257, "y_size": 0})],
        "scratchpad out of range: sram_base of {3} must be at most 256, not 257, also for a block of no elements; "
        "see acc[257]."),
    "STORE of no elements beyond the scratchpad": ([(11, {"sram_base": 0})], [(11, {"sram_base": 300, "y_size": 0})],
        "scratchpad out of range: sram_base of {11} must be at most 256, not 300, also for a block of no elements; "
        "see out[300]."),
    "accumulator index beyond the scratchpad": ([(4, {"dst_factor_out": 2})], [(4, {"dst_factor_out": 255})],
        "scratchpad out of range: dst of {4} must stay below 256 acc elements, not reach 256; see acc[256]."),
    "micro-op never loaded": ([(2, {"y_size": 1})], [(2, {"x_size": 0})],
        "micro-op never loaded: uop_bgn of {4} must lead to micro-ops that a LOAD has brought before; see uop[0]."),
    "part of the micro-ops never loaded": ([(10, {"uop_end": 1})], [(10, {"uop_end": 6})],
        "micro-op never loaded: uop_bgn of {10} must lead to micro-ops that a LOAD has brought before; see uop[4] "
        "and 1 more."),
    "input that nothing has loaded": ([(4, {"src_factor_out": 2})], [(4, {"src_factor_out": 3})],
        "uninitialised scratchpad: src of {4} must lead to elements that have been written before; see inp[4]."),
    "accumulator that nothing has written": ([(3, {"x_size": 4})], [(3, {"x_size": 3, "x_stride": 3})],
        "uninitialised scratchpad: dst of {4} must lead to elements that have been written before; see acc[3]."),
    "ALU operand that nothing has written": ([(7, {"use_imm": False})],
        [(7, {"use_imm": False, "uop_bgn": 1, "uop_end": 2})],
        "uninitialised scratchpad: src of {7} must lead to elements that have been written before; see acc[4]."),
    "stored element that nothing has written": ([(11, {"sram_base": 0})], [(11, {"sram_base": 2})],
        "uninitialised scratchpad: sram_base of {11} must lead to elements that have been written before; see acc[4] "
        "and 1 more."),
    "read outside every segment": ([(0, {"dram_base": A // 4 + 4})], [(0, {"dram_base": A // 4 + 5})],
        "DRAM out of range: dram_base of {0} must lead to bytes of a segment, not of no segment; see DRAM 0x3020."),
    "second row stored outside every segment": ([(11, {"x_stride": 8})], [(11, {"x_stride": 9})],
        "DRAM out of range: dram_base of {11} must lead to bytes of an output or temporary segment, not of no "
        "segment; see DRAM 0x7028."),
    "store into a constant": ([(11, {"dram_base": C // 4})], [(11, {"dram_base": B // 4})],
        "DRAM out of range: dram_base of {11} must lead to bytes of an output or temporary segment, not of constant "
        "segment 'B'; see DRAM 0x5000."),
    "store into an input": ([(11, {"dram_base": C // 4})], [(11, {"dram_base": A // 4, "x_stride": 2})],
        "DRAM out of range: dram_base of {11} must lead to bytes of an output or temporary segment, not of input "
        "segment 'A'; see DRAM 0x3000."),
    "temporary that nothing has stored": ([(6, {"x_size": 4})], [(6, {"x_size": 3})],
        "uninitialised DRAM: dram_base of {8} must lead to bytes that a STORE has written before; see DRAM 0x600c "
        "and 3 more."),
    "micro-ops from elsewhere": ([(2, {"x_size": 4})], [(2, {"dram_base": W // 4})],
        "micro-ops of unknown content: dram_base of {2} must lead to micro-ops that are known before the run, not to "
        "constant segment 'W'; see DRAM 0x4000."),
    "STORE with padding": ([(11, {"memory_type": MemoryType.OUT})],
        [(11, {"memory_type": MemoryType.OUT, "x_pad_1": 1})],
        "illegal instruction: x_pad_1 of {11} must be 0, not 1."),
    "LOAD of the out view": ([(3, {"memory_type": MemoryType.ACC})],
        [(3, {"memory_type": MemoryType.OUT, "dram_base": B // 4})],
        "illegal instruction: memory_type of {3} must be uop, wgt, inp, acc or acc8, not out."),
    "token to no neighbour": ([(0, {"push_prev": False})], [(0, {"push_prev": True})],
        "illegal instruction: push_prev of {0} must be 0, not 1, for load has no prev neighbour."),
    "token that stays": ([(12, {"pop_next": True})], [(12, {"pop_next": False})],
        "unbalanced tokens: push_prev of {11} must be balanced by the other side of store->compute, for the launch "
        "leaves 1 token too many; see store->compute."),
    "token that never comes": ([(1, {"push_next": True})], [(1, {"push_next": False})],
        "deadlock: pop_prev of {4} must find a token of load->compute, and waits forever; see load->compute."),
    "GEMM that does not wait for its input": ([(4, {"pop_prev": True})],
        [(4, {"pop_prev": False}), (1, {"push_next": False})],
        "race: src of {4} must be ordered by tokens against {0}, which writes the same; see inp[0] and 3 more."),
    "LOAD that overwrites an input still in use": ([(8, {"pop_next": True})],
        [(8, {"pop_next": False}), (7, {"push_prev": False})],
        "race: sram_base of {8} must be ordered by tokens against {4}, which reads the same; see inp[0] and 3 more."),
    "LOAD that does not wait for the STORE of its data": ([(8, {"pop_next": True})],
        [(8, {"pop_next": False}), (7, {"push_prev": False})],
        "race: dram_base of {8} must be ordered by tokens against {6}, which writes the same; see DRAM 0x6000 and 15 "
        "more."),
    "STORE that does not wait for its result": ([(6, {"pop_prev": True})],
        [(6, {"pop_prev": False}), (5, {"push_next": False})],
        "race: sram_base of {6} must be ordered by tokens against {5}, which writes the same; see acc[0] and 3 more."),
    "ALU that overwrites what STORE reads": ([(7, {"pop_next": True})],
        [(7, {"pop_next": False}), (6, {"push_prev": False})],
        "race: dst of {7} must be ordered by tokens against {6}, which reads the same; see acc[0] and 3 more."),
}
# fmt: on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_found_and_its_twin_passes(mistake: str) -> None:
    """A number in braces stands for the instruction of that place, as messages name it."""
    good, bad, message = MISTAKES[mistake]
    assert told(with_changes(*good)) == []
    instructions = with_changes(*bad)
    named = [
        f"instruction {index} in {unit_of(each).name.lower()} ({instruction_text(each)})"
        for index, each in enumerate(instructions)
    ]
    assert message.format(*named) in told(instructions)


def test_micro_op_index_beyond_the_last_weight_is_found() -> None:
    last = with_changes((4, {"uop_bgn": 3, "uop_end": 4}))
    assert [text for text in told(last) if "out of range" in text] == []
    beyond = with_changes((4, {"uop_bgn": 3, "uop_end": 4, "wgt_factor_in": 1}))
    assert [text.split("must")[1] for text in told(beyond) if "out of range" in text] == [
        " stay below 128 wgt elements, not reach 128; see wgt[128]."
    ]


def test_micro_ops_of_the_greatest_block_that_an_instruction_can_name_are_reported_and_not_followed() -> None:
    most = {"y_size": 65535, "x_size": 65535, "x_stride": 65535, "y_pad_0": 15, "x_pad_1": 15}
    found = [text for text in told(with_changes((2, most))) if "out of range: sram_base" in text]
    assert [text.split("must")[1] for text in found] == [
        " put its block of 4296802500 elements below 256, not up to 4296802499; see uop[256] and 4296802243 more."
    ]


def test_uop_range_beyond_the_scratchpad_is_found() -> None:
    findings = [text for text in told(with_changes((10, {"uop_bgn": 255, "uop_end": 257}))) if "out of range" in text]
    assert [text.split("must")[1] for text in findings] == [" be at most 256, not 257; see uop[256]."]


def test_loops_that_do_not_run_touch_nothing() -> None:
    for idle in ({"iter_out": 0}, {"iter_in": 0}, {"uop_bgn": 200, "uop_end": 200}, {"uop_bgn": 9, "uop_end": 3}):
        instructions = stream()
        instructions.insert(12, Gemm(**{**_gemm(), **idle}))
        assert told(instructions) == []


def _gemm() -> dict[str, int]:
    names = ("uop_bgn", "uop_end", "iter_out", "iter_in", "dst_factor_out", "dst_factor_in")
    names += ("src_factor_out", "src_factor_in", "wgt_factor_out", "wgt_factor_in")
    return dict.fromkeys(names, 100)


def test_moves_of_no_elements_touch_nothing_whatever_their_fields_hold() -> None:
    instructions = stream()
    instructions.insert(12, Load(MemoryType.OUT, 65535, 9, 3, 0, 0, y_pad_0=3))
    instructions.insert(12, Store(memory_type=MemoryType.UOP, sram_base=9, dram_base=9, y_size=1, x_size=0, x_stride=0))
    assert told(instructions) == []


def test_padding_counts_as_written() -> None:
    load = {"x_size": 3, "x_stride": 3, "x_pad_1": 1}
    assert told(with_changes((0, load))) == []
    assert told(with_changes((0, load | {"x_pad_1": 0}))) != []


def test_stream_without_finish_is_a_deadlock() -> None:
    findings = told([*stream()[:-1], Load(MemoryType.UOP, 0, 0, 0, 0, 0, pop_next=True)])
    assert findings == [
        "deadlock: opcode of instruction 12 in compute (load uop sram_base=0 dram_base=0x0 y_size=0 x_size=0 "
        "x_stride=0 pop_next) must be followed by a FINISH, for the launch does not end without one; "
        "see the end of the stream."
    ]


def test_empty_stream_is_a_deadlock() -> None:
    (finding,) = verify(program([]))
    assert (finding.instruction, finding.code) == (0, FaultCode.NO_FINISH)
    assert str(finding) == (
        "deadlock: the end of the stream must be a FINISH at least, for the launch does not end without one; "
        "see the end of the stream."
    )


def pops_before_pushes(count: int) -> list[Instruction]:
    """GEMMs of no iterations that pop what loads push, which stand behind all of them."""
    nothing = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    return [*[nothing] * count, *[push()] * count, Finish()]


def test_full_command_queue_is_a_deadlock() -> None:
    depth = TINY.timing.command_queue_depth
    assert verify_stream(TINY, pops_before_pushes(depth), PagedMemory()) == []
    nothing = (
        "gemm uop_bgn=0 uop_end=0 iter_out=0 iter_in=0 dst_factor_out=0 dst_factor_in=0 src_factor_out=0 "
        "src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0 pop_prev"
    )
    findings = verify_stream(TINY, pops_before_pushes(depth + 1), PagedMemory())
    assert [str(finding) for finding in findings] == [
        f"deadlock: pop_prev of instruction 0 in compute ({nothing}) must find a token of load->compute, and waits "
        "forever; see load->compute.",
        f"deadlock: opcode of instruction {depth} in compute ({nothing}) must find room in the compute queue, which "
        f"holds {depth}, and fetch waits forever; see compute queue.",
    ]
    assert {finding.code for finding in findings} == {FaultCode.DEADLOCK}
    deeper = TINY.with_(**{"timing.command_queue_depth": depth + 1})
    assert verify_stream(deeper, pops_before_pushes(depth + 1), PagedMemory()) == []


def push(*, pop_next: bool = False) -> Load:
    return Load(MemoryType.INP, 0, 0, 0, 0, 0, pop_next=pop_next, push_next=True)


def test_token_that_a_counter_may_not_hold_is_found() -> None:
    pop = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    full = (65535, 0, 0, 0)
    overflow = (
        "token overflow: push_next of instruction {} in load (load inp sram_base=0 dram_base=0x0 y_size=0 x_size=0 "
        "x_stride=0{} push_next) must leave at most 65535 tokens in load->compute, however fast the units are; "
        "see load->compute."
    )

    def found(instructions: list[Instruction], tokens: tuple[int, int, int, int]) -> list[str]:
        return [str(finding) for finding in verify_stream(TINY, instructions, PagedMemory(), tokens)]

    assert found([push(), Finish()], (65534, 0, 0, 0)) == []
    assert found([push(), Finish()], full) == [overflow.format(0, "")]
    # Compute may be late with its pop, unless load waits for it.
    assert found([pop, push(), Finish()], full) == [overflow.format(1, "")]
    ordered = replace(pop, push_prev=True)
    assert found([ordered, push(pop_next=True), Finish()], full) == []
    assert found([ordered, push(pop_next=True), push(), Finish()], full) == [overflow.format(2, "")]


def test_tokens_that_fetch_holds_back_do_not_overflow() -> None:
    """No token goes from compute to load, but load is at most a queue of compute's instructions ahead."""
    depth = TINY.timing.command_queue_depth
    for pops, kinds in ((depth - 1, [FindingKind.TOKEN_OVERFLOW]), (depth, [])):
        # One more push than the counter holds, behind pops of which all but a queue have started then.
        instructions = [Finish(pop_prev=True), *[Finish()] * pops, push()]
        assert [each.kind for each in verify_stream(TINY, instructions, PagedMemory(), (65535, 0, 0, 0))] == kinds


def test_launches_have_four_counts_of_tokens() -> None:
    for tokens in ((0, 0, 0), (0, 0, 0, -1), (0, 0, 65536, 0), "four"):
        with pytest.raises(ProgramError) as caught:
            verify_stream(TINY, [Finish()], PagedMemory(), tokens)  # type: ignore[arg-type]  # a mistake is wanted
        assert str(caught.value) == (
            f"tokens of a stream must be four counts from 0 to 65535, not {tokens!r}. "
            "Their order is load->compute, compute->load, compute->store, store->compute."
        )


def test_cross_wait_is_a_deadlock_of_both_units() -> None:
    instructions: list[Instruction] = [
        Load(MemoryType.INP, 0, A // 4, 1, 1, 1, pop_next=True, push_next=True),
        Finish(pop_prev=True, push_prev=True),
    ]
    findings = verify(program(instructions))
    assert [(each.kind.name, each.instruction, each.cell) for each in findings] == [
        ("DEADLOCK", 0, "compute->load"),
        ("DEADLOCK", 1, "load->compute"),
    ]
    assert told(instructions, tokens_in=(0, 1, 0, 0)) == []


def test_token_of_an_earlier_launch_orders_nothing() -> None:
    """A token that is there from the start lets an instruction go on without waiting for its producer."""
    assert "race: src of instruction 4" in told(stream(), tokens_in=(1, 0, 0, 0))[0]


def test_raw_stream_is_verified_on_its_memory_image() -> None:
    memory = PagedMemory()
    memory.write(UOPS, UOP_WORDS.view(np.uint8))
    assert verify_stream(TINY, stream(), memory, tokens_after=(0, 0, 0, 0)) == []
    left = with_changes((12, {"pop_next": False}))
    assert verify_stream(TINY, left, memory) == []
    assert [each.kind.name for each in verify_stream(TINY, left, memory, tokens_after=(0, 0, 0, 0))] == ["UNBALANCED"]
    anywhere = with_changes((0, {"dram_base": 9}), (11, {"dram_base": 77}))
    assert verify_stream(TINY, anywhere, memory) == []
    written = with_changes((6, {"dram_base": UOPS // 4}))
    assert "UOP_SOURCE" in [each.kind.name for each in verify_stream(TINY, written, memory)]


def test_blocks_of_rows_without_number_that_no_scratchpad_holds_take_no_memory() -> None:
    tall = Load(MemoryType.INP, 0, 0, 65535, 1, 2)
    tracemalloc.start()
    findings = verify_stream(TINY, [*[tall] * 100, Finish()], PagedMemory())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [finding.instruction for finding in findings] == list(range(100))
    assert peak < 20_000_000, "each of the 6.6 million rows would take 24 bytes"


def test_micro_ops_that_stand_in_the_stream_itself_are_known() -> None:
    """The image may leave the stream out; its bytes are there all the same."""
    at = 0x8000
    # The micro-op is the first word of the FINISH: dst is 3.
    instructions: list[Instruction] = [
        Load(MemoryType.UOP, 0, (at + 48) // 4, 1, 1, 1),
        Load(MemoryType.ACC, 0, B // 16, 1, 4, 4),
        Alu(AluOp.ADD, 0, 1, 1, 2, 0, 253, 0, 0, use_imm=True, imm=1),
        Finish(),
    ]
    (finding,) = verify_stream(TINY, instructions, PagedMemory(), insn_addr=at)
    assert (finding.code, finding.instruction, finding.cell) == (FaultCode.ACC_RANGE, 2, "acc[256]")


def test_stream_that_fetch_cannot_reach_is_refused() -> None:
    assert verify_stream(TINY, [Finish()], PagedMemory(), insn_addr=(1 << TINY.address_bits) - 16) == []
    with pytest.raises(ProgramError) as caught:
        verify_stream(TINY, [Finish()] * 2, PagedMemory(), insn_addr=(1 << TINY.address_bits) - 16)
    assert str(caught.value) == (
        "The instructions of the stream must end below byte 0x2000000000, where the addresses of machine 'tiny' end, "
        "not be 2 from byte 0x1ffffffff0 on. Correct insn_addr."
    )


def test_check_raises_with_all_findings() -> None:
    bad = program(with_changes((5, {"imm": 40}), (12, {"pop_next": False})))
    with pytest.raises(VerificationError) as caught:
        check(bad)
    assert caught.value.findings == tuple(verify(bad))
    first, second = (str(finding) for finding in caught.value.findings)
    assert str(caught.value) == f"The program must be free of mistakes, and has 2. {first} {second}"


def test_long_list_of_findings_is_cut_in_the_message_only() -> None:
    bad = program(
        with_changes(*((index, {"imm": 40, "alu_opcode": AluOp.SHR}) for index in (5, 7)), (2, {"x_size": 0}))
    )
    with pytest.raises(VerificationError) as caught:
        check(bad)
    count = len(caught.value.findings)
    assert count > 3
    assert str(caught.value).endswith(f"({count - 3} more findings)")


def test_a_value_that_its_field_does_not_hold_is_found() -> None:
    instructions = stream()
    instructions[0] = replace(instructions[0], x_stride=100_018)
    assert [str(finding) for finding in verify(program(instructions))] == [
        "value too wide: x_stride of instruction 0 in load "
        f"(load inp sram_base=0 dram_base={A // 4:#x} y_size=1 x_size=4 x_stride=100018) must be from 0 to 65535, "
        "not 100018."
    ]


def test_padding_that_the_machine_has_no_field_for_is_found() -> None:
    instructions = stream()
    instructions[0] = replace(instructions[0], pad_value=-128)
    assert [str(finding) for finding in verify(program(instructions))] == [
        "value too wide: pad_value of instruction 0 in load "
        f"(load inp sram_base=0 dram_base={A // 4:#x} y_size=1 x_size=4 x_stride=4 pad_value=-128) must be "
        "0 on machine 'tiny', where the extension 'pad_value' is off, not -128."
    ]
