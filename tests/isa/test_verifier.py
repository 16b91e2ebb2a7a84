"""The static verifier: for each kind of mistake, a program with it, and a similar one without it."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from error_checks import check_mentions, raises

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

TINY = load_config("tiny")  # inp 256 vectors of 4 bytes, wgt 128 of 16, acc 256 of 16 (out 4), 256 micro-ops

CODE, UOPS, A, W, B, T, C = (0x1000 * page for page in range(1, 8))

# Micro-op 0 has zero offsets; 1 reads inp 4 and acc 4; 2 reads acc 255; 3 reads the last weight.
UOP_WORDS = encode_uops(TINY, dst=[0, 0, 0, 0], src=[0, 4, 255, 0], wgt=[0, 0, 0, 127])


def stream() -> list[Instruction]:
    """T = (A · Wᵀ + B) >> 4, reloaded and multiplied by Wᵀ into C, with a relu of the accumulators; no mistakes."""
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


def texts_of(instructions: list[Instruction], **changes: Any) -> list[str]:
    return [str(finding) for finding in verify(program(instructions, **changes))]


def test_program_without_mistakes_has_no_findings() -> None:
    assert texts_of(stream()) == []
    check(program(stream()))


# A good and a bad change; then the finding: kind, instruction, field, mentions ("{3}" is instruction 3's name).
# fmt: off
MISTAKES: dict[str, tuple[list[Any], list[Any], tuple[Any, ...]]] = {
    "shift amount": ([(5, {"imm": -31})], [(5, {"imm": -32})], ("SHIFT_AMOUNT", 5, "imm", "from -31 to 31", "not -32")),
    "shift amount is only that of a shift": ([(7, {"imm": 32})], [(7, {"alu_opcode": AluOp.SHR, "imm": 32})],
        ("SHIFT_AMOUNT", 7, "imm", "from -31 to 31", "not 32")),
    "LOAD beyond the scratchpad": ([(0, {"sram_base": 0, "y_pad_1": 3})],
        [(0, {"sram_base": 0, "y_pad_1": 15, "x_pad_0": 13})],
        ("SRAM_RANGE", 0, "sram_base", 272, 256, 271, "inp[256] and 15 more")),
    "empty LOAD beyond the scratchpad": ([(3, {"sram_base": 0})], [(3, {"sram_base": 257, "y_size": 0})],
        ("SRAM_RANGE", 3, "sram_base", "at most 256", "not 257", "empty", "acc[257]")),
    "empty STORE beyond the scratchpad": ([(11, {"sram_base": 0})], [(11, {"sram_base": 300, "y_size": 0})],
        ("SRAM_RANGE", 11, "sram_base", "at most 256", "not 300", "empty", "out[300]")),
    "accumulator index beyond the scratchpad": ([(4, {"dst_factor_out": 2})], [(4, {"dst_factor_out": 255})],
        ("SRAM_RANGE", 4, "dst", "256 vectors of acc", "not reach 256", "acc[256]")),
    "micro-op never loaded": ([(2, {"y_size": 1})], [(2, {"x_size": 0})], ("UOP_UNLOADED", 4, "uop_bgn", "uop[0]")),
    "some of the micro-ops never loaded": ([(10, {"uop_end": 1})], [(10, {"uop_end": 6})],
        ("UOP_UNLOADED", 10, "uop_bgn", "uop[4] and 1 more")),
    "input that nothing has loaded": ([(4, {"src_factor_out": 2})], [(4, {"src_factor_out": 3})],
        ("UNINITIALISED", 4, "src", "written before", "inp[4]")),
    "accumulator that nothing has written": ([(3, {"x_size": 4})], [(3, {"x_size": 3, "x_stride": 3})],
        ("UNINITIALISED", 4, "dst", "written before", "acc[3]")),
    "ALU operand that nothing has written": ([(7, {"use_imm": False})],
        [(7, {"use_imm": False, "uop_bgn": 1, "uop_end": 2})], ("UNINITIALISED", 7, "src", "acc[4]")),
    "stored vector that nothing has written": ([(11, {"sram_base": 0})], [(11, {"sram_base": 2})],
        ("UNINITIALISED", 11, "sram_base", "acc[4] and 1 more")),
    "read outside every segment": ([(0, {"dram_base": A // 4 + 4})], [(0, {"dram_base": A // 4 + 5})],
        ("DRAM_RANGE", 0, "dram_base", "a segment", "unmapped memory", "DRAM 0x3020")),
    "second row stored outside every segment": ([(11, {"x_stride": 8})], [(11, {"x_stride": 9})],
        ("DRAM_RANGE", 11, "dram_base", "output or temporary segment", "unmapped memory", "DRAM 0x7028")),
    "store into a constant": ([(11, {"dram_base": C // 4})], [(11, {"dram_base": B // 4})],
        ("DRAM_RANGE", 11, "dram_base", "output or temporary segment", "constant segment 'B'", "DRAM 0x5000")),
    "store into an input": ([(11, {"dram_base": C // 4})], [(11, {"dram_base": A // 4, "x_stride": 2})],
        ("DRAM_RANGE", 11, "dram_base", "output or temporary segment", "input segment 'A'", "DRAM 0x3000")),
    "temporary that nothing has stored": ([(6, {"x_size": 4})], [(6, {"x_size": 3})],
        ("UNINITIALISED_DRAM", 8, "dram_base", "STORE", "DRAM 0x600c and 3 more")),
    "micro-ops from elsewhere": ([(2, {"x_size": 4})], [(2, {"dram_base": W // 4})],
        ("UOP_SOURCE", 2, "dram_base", "known before the run", "constant segment 'W'", "DRAM 0x4000")),
    "STORE with padding": ([(11, {"memory_type": MemoryType.OUT})],
        [(11, {"memory_type": MemoryType.OUT, "x_pad_1": 1})], ("ILLEGAL", 11, "x_pad_1", 0, "not 1")),
    "LOAD of the out view": ([(3, {"memory_type": MemoryType.ACC})],
        [(3, {"memory_type": MemoryType.OUT, "dram_base": B // 4})],
        ("ILLEGAL", 3, "memory_type", "uop, wgt, inp, acc or acc8", "not out")),
    "token to no neighbour": ([(0, {"push_prev": False})], [(0, {"push_prev": True})],
        ("ILLEGAL", 0, "push_prev", 0, "not 1", "load has no prev neighbour")),
    "token that stays": ([(12, {"pop_next": True})], [(12, {"pop_next": False})],
        ("UNBALANCED", 11, "push_prev", "store->compute", "1 token too many")),
    "token that never comes": ([(1, {"push_next": True})], [(1, {"push_next": False})],
        ("DEADLOCK", 4, "pop_prev", "load->compute", "waits forever")),
    "GEMM that does not wait for its input": ([(4, {"pop_prev": True})],
        [(4, {"pop_prev": False}), (1, {"push_next": False})],
        ("RACE", 4, "src", "{0}, which writes the same", "inp[0] and 3 more")),
    "LOAD that overwrites an input still in use": ([(8, {"pop_next": True})],
        [(8, {"pop_next": False}), (7, {"push_prev": False})],
        ("RACE", 8, "sram_base", "{4}, which reads the same", "inp[0] and 3 more")),
    "LOAD that does not wait for the STORE of its data": ([(8, {"pop_next": True})],
        [(8, {"pop_next": False}), (7, {"push_prev": False})],
        ("RACE", 8, "dram_base", "{6}, which writes the same", "DRAM 0x6000 and 15 more")),
    "STORE that does not wait for its result": ([(6, {"pop_prev": True})],
        [(6, {"pop_prev": False}), (5, {"push_next": False})],
        ("RACE", 6, "sram_base", "{5}, which writes the same", "acc[0] and 3 more")),
    "ALU that overwrites what STORE reads": ([(7, {"pop_next": True})],
        [(7, {"pop_next": False}), (6, {"push_prev": False})],
        ("RACE", 7, "dst", "{6}, which reads the same", "acc[0] and 3 more")),
}
# fmt: on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_found_and_its_twin_passes(mistake: str) -> None:
    good, bad, (kind, index, field, *mentions) = MISTAKES[mistake]
    assert texts_of(with_changes(*good)) == []
    instructions = with_changes(*bad)
    named = [
        f"instruction {index} in {unit_of(each).name.lower()} ({instruction_text(each)})"
        for index, each in enumerate(instructions)
    ]
    findings = verify(program(instructions))
    (finding,) = (each for each in findings if (each.kind.name, each.instruction, each.field) == (kind, index, field))
    check_mentions(
        finding, finding.kind, f"{field} of {named[index]}", *(str(each).format(*named) for each in mentions)
    )


def test_micro_op_index_beyond_the_last_weight_is_found() -> None:
    last = with_changes((4, {"uop_bgn": 3, "uop_end": 4}))
    assert [text for text in texts_of(last) if "out of range" in text] == []
    beyond = with_changes((4, {"uop_bgn": 3, "uop_end": 4, "wgt_factor_in": 1}))
    (text,) = (text for text in texts_of(beyond) if "out of range" in text)
    check_mentions(text, "128 vectors of wgt", "not reach 128", "wgt[128]")


def test_the_largest_block_of_micro_ops_is_reported_and_not_followed() -> None:
    most = {"y_size": 65535, "x_size": 65535, "x_stride": 65535, "y_pad_0": 15, "x_pad_1": 15}
    (text,) = (text for text in texts_of(with_changes((2, most))) if "out of range: sram_base" in text)
    check_mentions(text, 4296802500, "below 256", 4296802499, "uop[256] and 4296802243 more")


def test_uop_range_beyond_the_scratchpad_is_found() -> None:
    findings = [
        text for text in texts_of(with_changes((10, {"uop_bgn": 255, "uop_end": 257}))) if "out of range" in text
    ]
    assert [text.split("must")[1] for text in findings] == [" be at most 256, not 257; see uop[256]."]


def test_loops_without_iterations_access_nothing() -> None:
    for idle in ({"iter_out": 0}, {"iter_in": 0}, {"uop_bgn": 200, "uop_end": 200}, {"uop_bgn": 9, "uop_end": 3}):
        instructions = stream()
        instructions.insert(12, Gemm(**{**_gemm(), **idle}))
        assert texts_of(instructions) == []


def _gemm() -> dict[str, int]:
    names = ("uop_bgn", "uop_end", "iter_out", "iter_in", "dst_factor_out", "dst_factor_in")
    names += ("src_factor_out", "src_factor_in", "wgt_factor_out", "wgt_factor_in")
    return dict.fromkeys(names, 100)


def test_empty_transfers_access_nothing_whatever_their_fields_hold() -> None:
    instructions = stream()
    instructions.insert(12, Load(MemoryType.OUT, 65535, 9, 3, 0, 0, y_pad_0=3))
    instructions.insert(12, Store(memory_type=MemoryType.UOP, sram_base=9, dram_base=9, y_size=1, x_size=0, x_stride=0))
    assert texts_of(instructions) == []


def test_padding_counts_as_written() -> None:
    load = {"x_size": 3, "x_stride": 3, "x_pad_1": 1}
    assert texts_of(with_changes((0, load))) == []
    assert texts_of(with_changes((0, load | {"x_pad_1": 0}))) != []


def test_stream_without_finish_is_a_deadlock() -> None:
    findings = texts_of([*stream()[:-1], Load(MemoryType.UOP, 0, 0, 0, 0, 0, pop_next=True)])
    (text,) = findings
    check_mentions(text, "deadlock: opcode of instruction 12 in compute", "FINISH", "the end of the stream")


def test_empty_stream_is_a_deadlock() -> None:
    (finding,) = verify(program([]))
    assert (finding.instruction, finding.code) == (0, FaultCode.NO_FINISH)
    check_mentions(finding, "deadlock", "FINISH", "the end of the stream")


def pops_before_pushes(count: int) -> list[Instruction]:
    """GEMMs without iterations, followed by the loads that push the tokens that they pop."""
    nothing = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    return [*[nothing] * count, *[push()] * count, Finish()]


def test_full_command_queue_is_a_deadlock() -> None:
    depth = TINY.timing.command_queue_depth
    assert verify_stream(TINY, pops_before_pushes(depth), PagedMemory()) == []
    findings = verify_stream(TINY, pops_before_pushes(depth + 1), PagedMemory())
    pop, fetch = findings
    check_mentions(pop, "deadlock: pop_prev of instruction 0 in compute", "load->compute", "waits forever")
    check_mentions(fetch, f"deadlock: opcode of instruction {depth} in compute", f"compute queue of {depth}", "fetch")
    assert {finding.code for finding in findings} == {FaultCode.DEADLOCK}
    deeper = TINY.with_(**{"timing.command_queue_depth": depth + 1})
    assert verify_stream(deeper, pops_before_pushes(depth + 1), PagedMemory()) == []


def push(*, pop_next: bool = False) -> Load:
    return Load(MemoryType.INP, 0, 0, 0, 0, 0, pop_next=pop_next, push_next=True)


def test_token_that_a_counter_may_not_hold_is_found() -> None:
    pop = Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pop_prev=True)
    full = (65535, 0, 0, 0)

    def found(instructions: list[Instruction], tokens: tuple[int, int, int, int]) -> list[int]:
        findings = verify_stream(TINY, instructions, PagedMemory(), tokens)
        for each in findings:
            check_mentions(each, f"token overflow: push_next of instruction {each.instruction}", 65535, "load->compute")
        return [each.instruction for each in findings]

    assert found([push(), Finish()], (65534, 0, 0, 0)) == []
    assert found([push(), Finish()], full) == [0]
    # Compute may pop after the push, unless load waits for the pop.
    assert found([pop, push(), Finish()], full) == [1]
    ordered = replace(pop, push_prev=True)
    assert found([ordered, push(pop_next=True), Finish()], full) == []
    assert found([ordered, push(pop_next=True), push(), Finish()], full) == [2]


def test_tokens_that_fetch_holds_back_do_not_overflow() -> None:
    """No token orders compute before load, but load runs at most a full command queue ahead of compute."""
    depth = TINY.timing.command_queue_depth
    for pops, kinds in ((depth - 1, [FindingKind.TOKEN_OVERFLOW]), (depth, [])):
        # A push to a full counter; when it is dispatched, all compute instructions but a queue's depth have started.
        instructions = [Finish(pop_prev=True), *[Finish()] * pops, push()]
        assert [each.kind for each in verify_stream(TINY, instructions, PagedMemory(), (65535, 0, 0, 0))] == kinds


def test_launches_have_four_counts_of_tokens() -> None:
    for tokens in ((0, 0, 0), (0, 0, 0, -1), (0, 0, 65536, 0), "four"):
        with pytest.raises(ProgramError) as caught:
            verify_stream(TINY, [Finish()], PagedMemory(), tokens)  # type: ignore[arg-type]  # a deliberate mistake
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
    assert texts_of(instructions, tokens_in=(0, 1, 0, 0)) == []


def test_token_of_an_earlier_launch_orders_nothing() -> None:
    """An initial token lets an instruction start without waiting for its producer."""
    assert "race: src of instruction 4" in texts_of(stream(), tokens_in=(1, 0, 0, 0))[0]


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


def test_blocks_with_too_many_rows_for_a_scratchpad_take_no_memory() -> None:
    tall = Load(MemoryType.INP, 0, 0, 65535, 1, 2)
    tracemalloc.start()
    findings = verify_stream(TINY, [*[tall] * 100, Finish()], PagedMemory())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [finding.instruction for finding in findings] == list(range(100))
    assert peak < 20_000_000, "each of the 6.6 million rows would take 24 bytes"


def test_micro_ops_inside_the_stream_itself_are_known() -> None:
    """The stream's bytes are known even if the image does not contain them."""
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
    mentions = ("0x2000000000", "tiny", 2, "0x1ffffffff0", "insn_addr")
    address = (1 << TINY.address_bits) - 16
    raises(ProgramError, verify_stream, TINY, [Finish()] * 2, PagedMemory(), insn_addr=address, mentions=mentions)


def test_check_raises_with_all_findings() -> None:
    bad = program(with_changes((5, {"imm": 40}), (12, {"pop_next": False})))
    with pytest.raises(VerificationError) as caught:
        check(bad)
    assert caught.value.findings == tuple(verify(bad))
    first, second = (str(finding) for finding in caught.value.findings)
    check_mentions(caught.value, 2, first[:-1], second[:-1])


def test_a_long_list_of_findings_is_truncated_in_the_message_only() -> None:
    bad = program(
        with_changes(*((index, {"imm": 40, "alu_opcode": AluOp.SHR}) for index in (5, 7)), (2, {"x_size": 0}))
    )
    with pytest.raises(VerificationError) as caught:
        check(bad)
    count = len(caught.value.findings)
    assert count > 3
    assert str(caught.value).endswith(f"({count - 3} more findings)")


def test_a_value_that_does_not_fit_its_field_is_found() -> None:
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
