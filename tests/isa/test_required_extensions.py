"""The extensions that an instruction and its fields require."""

import pytest

from lathe.configs import load_config
from lathe.isa import Alu, AluOp, Gemm, Load, MemoryType, Rescale
from lathe.isa.required_extensions import extensions_of

LOOPS = (0, 1, 1, 1, 0, 0, 0, 0)
GEMM = Gemm(*LOOPS, 0, 0)
CASES = {
    "nothing of a plain one": (GEMM, ()),
    "the flag of a sum that begins": (Gemm(*LOOPS, 0, 0, begin=True), ("gemm_begin",)),
    "an operation": (Alu(AluOp.SUB, *LOOPS), ("alu_sub",)),
    "a value of padding": (Load(MemoryType.INP, 0, 8, 1, 1, 1, x_pad_0=1, pad_value=3), ("pad_value",)),
    "an address is as good without": (Load(MemoryType.INP, 0, 8, 1, 1, 1), ()),
    "a memory": (Load(MemoryType.LUT, 0, 0, 1, 1, 1), ("lookup",)),
    "an instruction": (Rescale(*LOOPS), ("rescale",)),
    "an instruction and its fields": (
        Rescale(*LOOPS, add=True, lookup=True, table=1),
        ("lookup", "rescale", "rescale_add"),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["vta", "lathe16"])
def test_extensions_are_those_of_the_instruction_and_its_fields(case, name):
    instruction, expected = CASES[case]
    assert extensions_of(load_config(name), instruction) == expected
