"""The rules of legal instructions: they agree on single instructions and on columns of a stream, and have a text."""

import random
from dataclasses import fields, replace

import numpy as np
import pytest
from error_checks import raises

from lathe.configs import load_config
from lathe.configs.field_expressions import FieldValue, Named, Number
from lathe.isa import AluOp, Columns, FaultCode, Instruction, MachineFault, MemoryType, Opcode, decode, encode
from lathe.isa.constraints import DECODING, RULES, STARTING, first_broken, require_legal
from lathe.isa.errors import InvalidInstructionError
from lathe.isa.fault import FAULT_DESCRIPTIONS
from lathe.isa.instructions import CLASS_OF
from lathe.isa.launch_checks import LAUNCH_RULES
from lathe.isa.operands import EXTRA_LATENCIES, OPERANDS
from lathe.isa.table import placements

TINY = load_config("tiny")


def any_instruction(rng: random.Random) -> Instruction:
    """An instruction with each field at an end of its range, next to one, or anywhere in between."""
    opcode = rng.choice(list(Opcode))
    values = {}
    for name, place in placements(TINY, opcode).items():
        ends = [place.lowest, place.highest, min(1, place.highest), max(place.highest - 1, place.lowest)]
        values[name] = rng.choice([*ends, 0, 0, 0, rng.randint(place.lowest, place.highest)])
    if "memory_type" in values:
        values["memory_type"] = rng.choice(list(MemoryType))
    if "alu_opcode" in values:
        values["alu_opcode"] = rng.choice(list(AluOp))
    given = {field.name: values[field.name] for field in fields(CLASS_OF[opcode]) if field.name in values}
    return decode(TINY, encode(TINY, [CLASS_OF[opcode](**given)]))[0]


@pytest.mark.slow
def test_rules_mean_the_same_for_an_instruction_and_for_a_stream() -> None:
    rng = random.Random(1)
    stream = [any_instruction(rng) for _ in range(4000)]
    columns = Columns.of(stream)
    for rule in (*DECODING, *STARTING):
        broken = rule.broken_in(TINY, columns)
        assert broken.any()
        assert not broken.all()
        assert [rule.breaks(TINY, each) for each in stream] == broken.tolist()


@pytest.mark.slow
def test_the_first_of_several_broken_rules_is_reported() -> None:
    rng = random.Random(2)
    reported = set()
    for _ in range(2000):
        instruction = any_instruction(rng)
        found = first_broken(TINY, Columns.of([instruction]), (*DECODING, *STARTING))
        if found is None:
            require_legal(TINY, instruction, "it", (*DECODING, *STARTING))
            continue
        with pytest.raises(MachineFault) as caught:
            require_legal(TINY, instruction, "it", (*DECODING, *STARTING))
        assert caught.value.code == found[1].code
        assert str(caught.value).startswith(f"{found[1].field} of it must ")
        reported.add(caught.value.code)
    assert reported == {rule.code for rule in (*DECODING, *STARTING)}


@pytest.mark.parametrize(
    ("byte", "bits", "code", "mentions"),
    [
        (0, 6, FaultCode.OPCODE, ("opcode of instruction 1", "0 LOAD, 1 STORE, 2 GEMM, 3 FINISH, 4 ALU")),
        (11, 0x07, FaultCode.ALU_OPCODE, ("alu_opcode of instruction 1", "0 MIN, 1 MAX, 2 ADD, 3 SHR")),
    ],
)
def test_bits_that_are_not_an_instruction_are_refused_by_the_same_rules(
    byte: int, bits: int, code: FaultCode, mentions: tuple[str, str]
) -> None:
    content = np.zeros((2, 16), np.uint8)
    content[1, 0] = Opcode.ALU
    content[1, byte] = bits
    error = raises(InvalidInstructionError, decode, TINY, content, mentions=(*mentions, "tiny"))
    assert (error.code, error.instruction) == (code, 1)


def test_every_fault_of_a_stream_has_a_rule() -> None:
    of_the_bus = {FaultCode.NONE, FaultCode.READ_ERROR, FaultCode.WRITE_ERROR}
    ruled = {rule.code for rule in (*RULES, *OPERANDS, *LAUNCH_RULES)}
    assert list(EXTRA_LATENCIES) == [Opcode.RESCALE]  # checked for read-after-write hazards (ACC_REUSE)
    assert ruled | {FaultCode.ACC_REUSE} == set(FAULT_DESCRIPTIONS) - of_the_bus


def test_the_text_of_an_expression_has_the_parentheses_that_it_needs() -> None:
    a, b = FieldValue("a"), FieldValue("b")
    both = Named("both", a + b)
    assert ((a + b) * 2 > b).text() == "(a + b) * 2 > b"
    assert (both * 2 >= b * a + 1).text() == "both * 2 >= b * a + 1"
    assert (a.equals(1) & (b.differs(0) | (a > b))).text() == "a == 1 and (b != 0 or a > b)"
    assert replace(Number(3), value=4).text() == "4"
