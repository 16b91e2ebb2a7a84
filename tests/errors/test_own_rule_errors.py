"""User-defined emission rules must not return unsupported instructions, tokens, or FINISH."""

from dataclasses import replace

import numpy as np
import pytest
from error_checks import check_mentions
from extended_machines import with_extensions

import lathe as lt

TINY, VTA = lt.load_config("tiny"), lt.load_config("vta")
RESCALES = with_extensions(TINY, ("rescale",)).with_(name="rescales")
NO_TOKENS = dict.fromkeys(("pop_prev", "pop_next", "push_prev", "push_next"), False)
LOOPS = (0, 1, 1, 1, 0, 0, 0, 0)
CHUNK = "of rule 'own' for chunk B.acc.map(i in 0..8)"


A = lt.placeholder((8,), "int32", name="A")
B = lt.compute((8,), lambda i: A[i] + 1, name="B")


def scheduled(make, rule="own"):
    """B in acc, computed by the emission rule ``make``."""
    lt.emit_rule(rule)(make)
    s = lt.create_schedule(B)
    s[s.cache_write(B, "acc")].emit_insn("i", rule)
    return s


def refusal(config, make, rule="own"):
    with pytest.raises(lt.EmitError) as refused:
        lt.build(scheduled(make, rule), [A, B], config)
    return refused.value


NO_RESCALE = (
    f"opcode of RESCALE {CHUNK} must be one of LOAD, STORE, GEMM, FINISH, ALU, not RESCALE. Machine {{!r}} lacks "
    "the extension 'rescale'."
)
BEYOND = [
    (TINY, lt.Rescale(*LOOPS), NO_RESCALE.format("tiny")),
    (VTA, lt.Rescale(*LOOPS), NO_RESCALE.format("vta")),
    (TINY, lt.Rescale(0, 0, 1, 1, 0, 0, 0, 0), NO_RESCALE.format("tiny")),
    (TINY, lt.Rescale(0, 1, 1, 1, 0, 0, 0, 3), NO_RESCALE.format("tiny")),
    (RESCALES, lt.Rescale(*LOOPS, add=True),
        f"add of RESCALE {CHUNK} must be 0, not 1. Machine 'rescales' lacks the extension 'rescale_add'."),
    (RESCALES, lt.Rescale(*LOOPS, lookup=True),
        f"lookup of RESCALE {CHUNK} must be 0, not 1. The extension 'lookup' is off on machine 'rescales'."),
    (TINY, lt.Alu(lt.AluOp.SUB, *LOOPS),
        f"alu_opcode of ALU {CHUNK} must be one of min, max, add, shr, mul, not sub. Machine 'tiny' lacks the "
        "extension 'alu_sub'."),
    (TINY, lt.Gemm(*LOOPS, 0, 0, begin=True),
        f"begin of GEMM {CHUNK} must be 0, not 1. The extension 'gemm_begin' is off on machine 'tiny'."),
    (TINY, lt.Load(lt.MemoryType.PAR, 0, 0, 1, 1, 1),
        f"memory_type of LOAD {CHUNK} must be one of uop, wgt, inp, acc, out, acc8, not par. Machine 'tiny' lacks "
        "the extension 'rescale'."),
    (TINY, lt.Store(sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1, memory_type=lt.MemoryType.PAR),
        f"memory_type of STORE {CHUNK} must be one of uop, wgt, inp, acc, out, acc8, not par. Machine 'tiny' "
        "lacks the extension 'rescale'."),
    (TINY, lt.Load(lt.MemoryType.ACC, 0, 0, 1, 1, 1, x_pad_0=1, pad_value=3),
        f"pad_value of LOAD {CHUNK} must be 0, not 3. The extension 'pad_value' is off on machine 'tiny'."),
]  # fmt: skip


@pytest.mark.parametrize(("config", "instruction", "message"), BEYOND, ids=str)
def test_an_instruction_of_an_extension_that_the_machine_is_without(config, instruction, message):
    refused = refusal(config, lambda _: [instruction])
    assert str(refused) == message
    assert (refused.rule, refused.chunk, refused.kind) == ("own", "B.acc.map(i in 0..8)", "machine")


ILLEGAL = [
    (lt.Alu(lt.AluOp.ADD, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=True, imm=1 << 15), "machine",
        f"imm of ALU {CHUNK} must be from -32768 to 32767, not 32768. Its field has 16 bits on machine 'vta'."),
    (lt.Alu(9, *LOOPS), "machine",
        f"alu_opcode of ALU {CHUNK} must be from 0 to 7, not 9. Its field has 3 bits on machine 'vta'."),
    (lt.Alu(lt.AluOp.ADD, 0, 1, 3, 1000, 1000, 1, 0, 0), "machine",
        f"acc index dst of ALU {CHUNK} must be below 2048, not 2999. The scratchpad ends there."),
    (lt.Alu(lt.AluOp.ADD, 8191, 8193, 1, 1, 0, 0, 0, 0), "machine",
        f"uop_end of ALU {CHUNK} must be at most 8192, not 8193. The scratchpad ends there."),
    (lt.Load(lt.MemoryType.ACC, 2040, 0, 1, 9, 9), "machine",
        f"sram_base of LOAD {CHUNK} must place its block of 9 vectors below 2048, not up to 2048. The scratchpad ends "
        "there."),
    (lt.Load(lt.MemoryType.OUT, 0, 0, 1, 1, 1), "machine",
        f"memory_type of LOAD {CHUNK} must be uop, wgt, inp, acc or acc8, not out. No unit loads out."),
    (lt.Load(lt.MemoryType.ACC, 0, 0, 1, 1.5, 1), "machine",
        f"x_size of LOAD {CHUNK} must be an integer, not 1.5."),
    (lt.Load("acc", 0, 0, 1, 1, [1]), "machine",
        f"memory_type of LOAD {CHUNK} must be an integer, not 'acc'."),
    (lt.Alu(lt.AluOp.ADD, *LOOPS, push_next=True), "argument",
        ("push_next of ALU", CHUNK, 0, "not 1", "tokens")),
    (lt.Finish(), "argument",
        ("FINISH", CHUNK, "build")),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "kind", "message"), ILLEGAL, ids=str)
@pytest.mark.parametrize("extensions", [(), ("gemm_begin",)], ids=str)
def test_an_instruction_that_no_machine_carries_out(instruction, kind, message, extensions):
    """Also if the initialisation of accumulators is elided."""
    refused = refusal(VTA.with_(extensions=extensions), lambda _: [instruction])
    assert refused.kind == kind
    if isinstance(message, tuple):
        check_mentions(refused, *message)
    else:
        assert str(refused) == message


def micro_op(dst, count):
    """A rule that adds to ``count`` accumulators, beginning with ``dst``."""

    def make(chunk):
        first, end, loads = chunk.emitter.pool.place(np.array([dst]), np.array([0]), np.array([0]))
        return [*loads, lt.Alu(lt.AluOp.ADD, first, end, 1, count, 0, 1, 0, 0)]

    return make


def test_micro_ops_that_do_not_fit_their_fields():
    assert str(refusal(VTA, micro_op(2048, 1))) == (
        f"micro-ops {CHUNK} must fit their fields: dst of micro-op 0 must be from 0 to 2047, not 2048. Its field has "
        "11 bits on machine 'vta'."
    )


def test_micro_ops_that_lead_beyond_the_accumulators():
    assert lt.build(scheduled(micro_op(2046, 2)), [A, B], VTA).instructions
    assert str(refusal(VTA, micro_op(2047, 2))) == (
        f"acc index dst of ALU {CHUNK} must be below 2048, not 2048. The scratchpad ends there."
    )


def test_a_rule_under_the_name_of_one_of_lathes_is_looked_at_as_well():
    assert str(refusal(VTA, lambda _: [lt.Alu(lt.AluOp.SUB, *LOOPS)], "alu")) == (
        "alu_opcode of ALU of rule 'alu' for chunk B.acc.map(i in 0..8) must be one of min, max, add, shr, mul, not "
        "sub. Machine 'vta' lacks the extension 'alu_sub'."
    )


def test_explain_shows_the_refusal():
    (found,) = scheduled(lambda _: [lt.Rescale(*LOOPS)]).explain(TINY).of("B.acc")
    assert found.constraint == NO_RESCALE.format("tiny")


def test_instructions_that_do_nothing_are_built():
    """An empty LOAD is legal for each memory of the machine."""
    nothing = lt.Load(lt.MemoryType.OUT, 0, 0, 1, 0, 1), lt.Alu(lt.AluOp.ADD, 0, 0, 1, 1, 0, 0, 0, 0)
    program = lt.build(scheduled(lambda _: nothing), [A, B], VTA)
    assert all(any(replace(each, **NO_TOKENS) == one for each in program.instructions) for one in nothing)
