"""Loads of undefined bytes are reported exactly if these may reach a value of an output."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from extended_machines import with_extensions

from lathe.configs import load_config
from lathe.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Layout,
    Load,
    MemoryType,
    Program,
    Rescale,
    Segment,
    Store,
    encode_uops,
    verify,
)
from lathe.isa.diagnostics import FindingKind

TINY = load_config("tiny")  # 4 lanes; inp 4 bytes per vector, wgt and acc 16, out 4
CODE, UOPS, W, T, C, M, P, L = (0x1000 * page for page in range(1, 9))
WORDS = encode_uops(TINY, dst=[0], src=[0], wgt=[0])
EYE = np.eye(4, dtype=np.uint8)


def program(*work: Instruction, **changes: Any) -> Program:
    """Load vector 0 of acc8 from T, which is uninitialised, run `work` on it, and store vector 0 to C."""
    instructions = [
        Load(MemoryType.UOP, 0, UOPS // 4, 1, 1, 1),
        Load(MemoryType.ACC8, 0, T // 4, 1, 1, 1),
        *work,
        Store(sram_base=0, dram_base=C // 4, y_size=1, x_size=1, x_stride=1, pop_prev=True),
        Finish(),
    ]
    before = len(instructions) - 3
    instructions[before] = replace(instructions[before], push_next=True)
    parts: dict[str, Any] = {
        "config": TINY,
        "instructions": tuple(instructions),
        "segments": (
            Segment("code", "instructions", CODE, 16 * 20),
            Segment("uops", "uop", UOPS, 4),
            Segment("W", "constant", W, 16),
            Segment("T", "temporary", T, 64),
            Segment("C", "output", C, 4),
            Segment("M", "constant", M, 16),
        ),
        "images": {
            "uops": WORDS.view(np.uint8),
            "W": EYE.reshape(-1),
            "M": np.array([1, 0, 1, 0], "<i4").view(np.uint8),
        },
    }
    return Program(**parts | changes)


def alu(op: AluOp, imm: int) -> Alu:
    return Alu(op, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=True, imm=imm)


def reported(program: Program) -> list[int]:
    findings = verify(program)
    assert {each.kind for each in findings} <= {FindingKind.UNINITIALISED_DRAM}, findings
    return [each.instruction for each in findings]


@pytest.mark.parametrize(
    "work",
    [
        [],
        [alu(AluOp.ADD, 3)],
        [alu(AluOp.MUL, 2)],
        [alu(AluOp.SHR, 1)],
        [alu(AluOp.MUL, 2), alu(AluOp.MAX, 0)],
    ],
    ids=["copied", "added to", "multiplied", "shifted", "clipped"],
)
def test_values_from_undefined_bytes_are_undefined(work):
    assert reported(program(*work)) == [1]


@pytest.mark.parametrize(
    "work",
    [
        [alu(AluOp.MUL, 0)],
        [alu(AluOp.MUL, 0), alu(AluOp.ADD, 7)],
        [Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, reset=True)],
    ],
    ids=["times zero", "times zero, and more", "reset"],
)
def test_zeroed_or_overwritten_values_are_defined(work):
    assert reported(program(*work)) == []


def masked(mask: list[int], **changes: Any) -> Program:
    """Multiply T by per-lane constants."""
    images = {
        "uops": encode_uops(TINY, dst=[0], src=[1], wgt=[0]).view(np.uint8),
        "W": EYE.reshape(-1),
        "M": np.array(mask, "<i4").view(np.uint8),
    }
    return program(
        Load(MemoryType.ACC, 1, M // 16, 1, 1, 1), Alu(AluOp.MUL, 0, 1, 1, 1, 0, 0, 0, 0), images=images, **changes
    )


def test_a_mask_clears_the_lanes_with_zeros():
    assert reported(masked([1, 0, 1, 0])) == [1]
    assert reported(masked([0, 0, 0, 0])) == []


def test_padding_of_an_output_may_be_undefined():
    whole = masked([0, 0, 0, 1])
    assert reported(whole) == [1]
    layout = Layout.row_major((3,), "int8")
    segments = tuple(replace(each, layout=layout) if each.name == "C" else each for each in whole.segments)
    assert reported(replace(whole, segments=segments)) == []


@pytest.mark.parametrize(("weights", "expected"), [(EYE, True), (np.zeros((4, 4), np.uint8), False)])
def test_a_matmul_is_undefined_unless_its_other_factors_are_zero(weights, expected):
    """T is an operand of a matmul."""
    work = [
        Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, reset=True),
        Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, pop_prev=True),
    ]
    images = {"uops": WORDS.view(np.uint8), "W": weights.reshape(-1), "M": np.zeros(16, np.uint8)}
    whole = program(*work)
    loads = [
        Load(MemoryType.INP, 0, T // 4, 1, 1, 1),
        Load(MemoryType.WGT, 0, W // 16, 1, 1, 1, push_next=True),
    ]
    instructions = (*loads, whole.instructions[0], *whole.instructions[2:])
    assert reported(program(images=images, instructions=instructions)) == ([0] if expected else [])


@pytest.mark.parametrize(("begin", "expected"), [(True, []), (False, [3])])
def test_a_gemm_with_begin_overwrites_undefined_values(begin, expected):
    """T is in the accumulator that a GEMM of W with itself writes."""
    loads = [
        Load(MemoryType.INP, 0, W // 4, 1, 1, 1),
        Load(MemoryType.WGT, 0, W // 16, 1, 1, 1, push_next=True),
    ]
    whole = program(Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, begin=begin, pop_prev=True))
    config = TINY.with_(extensions=("gemm_begin",))
    assert reported(program(config=config, instructions=(*loads, *whole.instructions))) == expected


def test_of_gemms_that_overwrite_one_accumulator_only_the_last_one_matters():
    """One micro-op reads T and the other W, in either order."""
    images = {"uops": encode_uops(TINY, dst=[0, 0], src=[0, 1], wgt=[0, 0]).view(np.uint8), "W": EYE.reshape(-1)}
    for addresses, expected in (((0, 1), []), ((1, 0), [0])):
        whole = program(Gemm(0, 2, 1, 1, 0, 0, 0, 0, 0, 0, begin=True, pop_prev=True))
        loads = [
            Load(MemoryType.INP, addresses[0], T // 4, 1, 1, 1),
            Load(MemoryType.INP, addresses[1], W // 4, 1, 1, 1),
            Load(MemoryType.WGT, 0, W // 16, 1, 1, 1, push_next=True),
            Load(MemoryType.UOP, 0, UOPS // 4, 1, 2, 2),
        ]
        changes = {
            "config": TINY.with_(extensions=("gemm_begin",)),
            "segments": tuple(replace(each, nbytes=8) if each.name == "uops" else each for each in whole.segments),
            "images": whole.images | images,
            "instructions": (*loads, *whole.instructions[2:]),
        }
        assert reported(program(**changes)) == expected


def test_undefined_bytes_are_tracked_through_memory():
    """T is copied to T + 16 bytes, and from there to C: the first load is reported."""
    first = Store(sram_base=0, dram_base=(T + 16) // 4, y_size=1, x_size=1, x_stride=1, pop_prev=True, push_prev=True)
    again = Load(MemoryType.ACC8, 0, (T + 16) // 4, 1, 1, 1, pop_next=True)
    whole = program(alu(AluOp.ADD, 1), first, again)
    instructions = list(whole.instructions)
    instructions[2] = replace(instructions[2], push_next=True)
    assert reported(replace(whole, instructions=tuple(instructions))) == [1]


@pytest.mark.parametrize(
    ("loads", "flags", "lanes", "expected"),
    [
        ([(MemoryType.PAR, 0, T // 32)], {}, 2, []),  # the parameters of two lanes are defined
        ([(MemoryType.PAR, 0, T // 32)], {}, 3, [2]),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.PAR, 1, T // 32)], {}, 4, []),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.PAR, 1, T // 32)], {"add": True}, 2, []),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.PAR, 1, T // 32)], {"add": True}, 3, [3]),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.LUT, 0, L // 4)], {}, 4, []),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.LUT, 0, L // 4)], {"lookup": True, "table": 1}, 4, []),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.LUT, 0, L // 4)], {"lookup": True}, 2, []),
        ([(MemoryType.PAR, 0, P // 32), (MemoryType.LUT, 0, L // 4)], {"lookup": True}, 3, [3]),
    ],
)
def test_a_lane_is_undefined_if_its_parameters_or_table_entries_may_be(loads, flags, lanes, expected):
    cfg = with_extensions(TINY, ("rescale", "rescale_add", "lookup"))
    if flags.get("table"):
        loads = [*loads, (MemoryType.LUT, 256, (L + 2048) // 4)]
    instructions = [
        Load(MemoryType.UOP, 0, UOPS // 4, 1, 1, 1),
        Load(MemoryType.ACC, 0, M // 16, 1, 1, 1),
        *(
            Load(memory, base, dram, 1, *((256, 256) if memory == MemoryType.LUT else (1, 1)))
            for memory, base, dram in loads
        ),
        Rescale(0, 1, 1, 1, 0, 0, 0, 0, **flags, push_next=True),
        Store(sram_base=0, dram_base=C // 4, y_size=1, x_size=1, x_stride=1, pop_prev=True),
        Finish(),
    ]
    whole = program()
    rows = np.zeros((256, 4), np.uint8)
    segments = (
        *(each for each in whole.segments if each.name not in ("T", "C")),
        Segment("C", "output", C, 4, Layout.row_major((lanes,), "int8")),
        Segment("of two lanes", "constant", T, 16),
        Segment("nobody's", "temporary", T + 16, 16),
        Segment("of all lanes", "constant", P, 32),
        # A table whose last row is undefined for the last two lanes, and a complete one.
        Segment("rows", "constant", L, 1022),
        Segment("rest", "temporary", L + 1022, 2),
        Segment("table", "constant", L + 2048, 1024),
    )
    images = {
        **whole.images,
        "of two lanes": np.zeros(16, np.uint8),
        "of all lanes": np.zeros(32, np.uint8),
        "rows": rows.reshape(-1)[:1022],
        "table": rows.reshape(-1),
    }
    labels = np.zeros(len(instructions), np.int32)
    changed = replace(whole, config=cfg, instructions=instructions, segments=segments, images=images, label_of=labels)
    assert reported(changed) == expected
