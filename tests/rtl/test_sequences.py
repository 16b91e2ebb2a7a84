"""The decoder and the sequencer, compared with the definitions of the instruction set."""

import random

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, FaultCode, Gemm, decode, encode, unit_of
from lathe.isa.errors import InvalidInstructionError
from lathe.isa.table import (
    QUEUE_OF,
    TOKEN_FIELDS,
    MemoryType,
    Opcode,
    Unit,
    alu_operations,
    instructions_of,
    memories_of,
)
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.instruction import Decoder
from lathe.rtl.sequencer import OPERANDS, Sequencer
from lathe.rtl.stall import CommandPort


def refusal(cfg, word):
    """The fault code for a word that fetch refuses, or else NONE and its unit."""
    try:
        (instruction,) = decode(cfg, np.frombuffer(word, np.uint8).reshape(1, 16))
    except InvalidInstructionError as error:
        return error.code, None
    if instruction.opcode not in instructions_of(cfg):
        return FaultCode.OPCODE, None
    if getattr(instruction, "memory_type", MemoryType.OUT) not in [memory.type for memory in memories_of(cfg)]:
        return FaultCode.MEMORY_TYPE, None
    if isinstance(instruction, Alu) and instruction.alu_opcode not in alu_operations(cfg):
        return FaultCode.ALU_OPCODE, None
    moves = getattr(instruction, "x_size", 0) > 0
    if moves and instruction.opcode == Opcode.LOAD and instruction.memory_type == MemoryType.OUT:
        return FaultCode.MEMORY_TYPE, None
    if moves and instruction.opcode == Opcode.STORE:
        if instruction.memory_type != MemoryType.OUT:
            return FaultCode.MEMORY_TYPE, None
        if any(getattr(instruction, pad) for pad in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")):
            return FaultCode.STORE_PADDING, None
    unit = unit_of(instruction)
    if any(getattr(instruction, name) and (unit, name) not in QUEUE_OF for name in TOKEN_FIELDS):
        return FaultCode.NO_NEIGHBOUR, None
    return FaultCode.NONE, unit


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["tiny", "vta", "batch4", "lathe16"])
def test_the_decoder_sends_words_to_their_units_and_refuses_the_others(bench, name):
    cfg, rng = load_config(name), random.Random(name)
    decoder = Decoder(cfg)
    seen = set()

    async def steps(ctx):
        for _ in range(1500):
            word = rng.getrandbits(128)
            # Clear pads and tokens in some words, since nearly all random words have them.
            word &= ~(rng.choice([0, 0b1111 << 3]) | rng.choice([0, 0xFFFF << 112]) | rng.choice([0, 0xFFFF << 80]))
            content = word.to_bytes(16, "little")
            ctx.set(decoder.word, word)
            code, unit = refusal(cfg, content)
            seen.add(code)
            assert ctx.get(decoder.fault) == code
            if unit is not None:
                assert ctx.get(decoder.unit) == unit

    bench(decoder, steps, clocked=False)
    assert seen == {
        *(FaultCode.NONE, FaultCode.OPCODE, FaultCode.MEMORY_TYPE, FaultCode.ALU_OPCODE),
        *(FaultCode.STORE_PADDING, FaultCode.NO_NEIGHBOUR),
    }


def random_loops(rng):
    begin = rng.randrange(250)
    return {
        "uop_bgn": begin,
        "uop_end": begin + rng.choice([0, 1, 1, 2, 3]),
        "iter_out": rng.choice([0, 1, 1, 2, 3]),
        "iter_in": rng.choice([1, 1, 2, 4]),
    } | {
        f"{operand}_factor_{loop}": rng.choice([0, 0, 1, 5, 100, 127]) for operand in ("dst", "src")
        for loop in ("out", "in")
    }  # fmt: skip


def random_instruction(rng):
    loops = random_loops(rng)
    if rng.random() < 0.5:
        return Gemm(**loops, wgt_factor_out=rng.choice([0, 3, 60]), wgt_factor_in=rng.choice([0, 1, 60]))
    return Alu(alu_opcode=rng.choice([AluOp.ADD, AluOp.MUL]), **loops, use_imm=rng.random() < 0.5, imm=7)


def phases_of(instruction):
    """The phases of each micro-op: read the operand, wait for a multi-cycle operation, write."""
    if not isinstance(instruction, Alu):
        return ["writes"]
    return ["reads"] * (not instruction.use_imm) + ["computes"] * instruction.alu_opcode.waits + ["writes"]


def expected_steps(instruction, depth):
    """The issue cycles of an instruction: (micro-op, offsets of its operands, phase); [None] without iterations."""
    found = [
        (
            uop,
            tuple(
                min(
                    depth[name],
                    outer * getattr(instruction, f"{name}_factor_out", 0)
                    + inner * getattr(instruction, f"{name}_factor_in", 0),
                )
                for name in OPERANDS
            ),
            phase,
        )
        for outer in range(instruction.iter_out)
        for inner in range(instruction.iter_in)
        for uop in range(instruction.uop_bgn, instruction.uop_end)
        for phase in phases_of(instruction)
    ]
    return found or [None]


async def decoded(ctx, cfg, port, instruction):
    """Move a command from the last decode stage to the port."""
    word = int.from_bytes(encode(cfg, [instruction]).tobytes(), "little")
    ctx.set(port.words[-2], word)
    ctx.set(port.advance, 1 << len(port.advance) - 1)
    await ctx.tick()
    ctx.set(port.advance, 0)
    ctx.set(port.words[-2], 0)
    ctx.set(port.word, word)


@pytest.mark.parametrize("seed", range(3))
def test_the_sequencer_iterates_the_loops_and_pauses_without_go(bench, seed):
    cfg, rng = load_config("tiny"), random.Random(seed)
    port = CommandPort(Unit.COMPUTE)
    sequencer = Sequencer(Geometry(cfg), port)

    async def steps(ctx):
        for _ in range(60):
            instruction = random_instruction(rng)
            expected = expected_steps(instruction, sequencer.depth)
            await decoded(ctx, cfg, port, instruction)
            assert ctx.get(sequencer.single) == (len(expected) == 1)
            ctx.set(sequencer.start, 1)
            ctx.set(sequencer.go, 1)
            await ctx.tick()
            ctx.set(sequencer.start, 0)
            ctx.set(port.word, 0)
            found = []
            while ctx.get(sequencer.active):
                go = rng.random() < 0.7
                ctx.set(sequencer.go, go)
                if go:
                    if ctx.get(sequencer.valid):
                        offsets = tuple(ctx.get(sequencer.offsets[name]) for name in OPERANDS)
                        first, writes = ctx.get(sequencer.first), ctx.get(sequencer.writes)
                        assert not (first and writes)
                        phase = "reads" if first else "writes" if writes else "computes"
                        found.append((ctx.get(sequencer.uop), offsets, phase))
                    else:
                        found.append(None)
                    assert ctx.get(sequencer.last) == (len(found) == len(expected))
                    assert ctx.get(sequencer.last_next) == (len(found) == len(expected) - 1)
                await ctx.tick()
            if isinstance(instruction, Alu):  # the bits of GEMM's wgt factors are undefined
                found = [step and (step[0], step[1][:2], step[2]) for step in found]
                expected = [step and (step[0], step[1][:2], step[2]) for step in expected]
            assert found == expected

    bench(sequencer, steps)


def test_a_micro_op_range_past_the_end_is_detected_unless_there_are_no_iterations(bench):
    cfg = load_config("tiny")
    port = CommandPort(Unit.COMPUTE)
    sequencer = Sequencer(Geometry(cfg), port)

    async def steps(ctx):
        for begin, end, outer, overruns in ((0, 256, 1, 0), (0, 257, 1, 1), (0, 257, 0, 0), (255, 255, 1, 0)):
            await decoded(ctx, cfg, port, Gemm(begin, end, outer, 1, 0, 0, 0, 0, 0, 0))
            assert ctx.get(sequencer.uop_overrun) == overruns

    bench(sequencer, steps)
