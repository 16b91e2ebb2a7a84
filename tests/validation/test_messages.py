"""What validation says, word for word."""

from dataclasses import replace

import pytest

import lathe as lt
from lathe.isa import Alu, Gemm, Load, MemoryType, Store
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation import validate
from lathe.validation.stream_validator import validate_stream

END = " Numbers are those of random samples (seed 0). The emission rule, or what comes before it, is wrong."


def elementwise() -> Compiled:
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.compute((4, 16), lambda i, j: lt.max(A[i, j].astype("int32") * 3, 5).astype("int8"), name="B")
    return build_compiled(B, [A, B], lt.load_config("vta"))


def product() -> Compiled:
    A, B = lt.placeholder((4, 16), "int8", name="A"), lt.placeholder((16, 16), "int8", name="B")
    C = lt.matmul(A, B, transpose_b=True, name="C")
    return build_compiled(C, [A, B, C], lt.load_config("vta"))


def with_instruction(made, kind, which=0, **fields) -> Compiled:
    """The program with the fields of an instruction changed, by its number among those of its kind."""
    stream = list(made.program.instructions)
    number = [n for n, each in enumerate(stream) if isinstance(each, kind)][which]
    stream[number] = replace(stream[number], **fields)
    return replace(made, program=replace(made.program, instructions=tuple(stream)))


def said(made: Compiled) -> str:
    with pytest.raises(lt.ValidationError) as caught:
        validate_stream(made)
    return str(caught.value)


def test_a_wrong_constant_names_who_wrote_the_cell_last_the_chunk_the_cell_and_both_values():
    assert (
        said(with_instruction(elementwise(), Alu, imm=4))
        == (
            "Instruction 3 (alu max uop_bgn=0 uop_end=1 iter_out=1 iter_in=4 dst_factor_out=0 dst_factor_in=1 "
            "src_factor_out=0 src_factor_in=0 use_imm imm=5 push_next) of chunk B.acc.map(i in 0..4, j in 0..16) "
            "at io=0, jo=0 must leave B.acc[0, 0] = -94 | 54 | -106 in acc[0] lane 0, not 216 | 72 | 200, which "
            "is no element of any tensor."
        )
        + END
    )


def test_a_wrong_address_names_the_byte_and_the_element_that_is_there():
    assert (
        said(with_instruction(elementwise(), Store, sram_base=1))
        == (
            "Instruction 4 (store out sram_base=1 dram_base=0x200 y_size=1 x_size=4 x_stride=4 pop_prev) of "
            "chunk B.map(ii in 0..4, ji in 0..16) at io=0, jo=0 must leave B[0, 0] = 1 | -100 | -93 in byte "
            "0x2000 of dram, not B.acc[1, 0] = -1 | 60 | -90."
        )
        + END
    )


def test_an_operand_that_is_another_element_is_not_what_the_chunk_must_load():
    made = elementwise()
    load = next(
        each for each in made.program.instructions if isinstance(each, Load) and each.memory_type == MemoryType.ACC8
    )
    number = made.program.instructions.index(load)
    which = sum(isinstance(each, Load) for each in made.program.instructions[:number])
    assert (
        said(with_instruction(made, Load, which, dram_base=load.dram_base + 1))
        == (
            "Instruction 1 (load acc8 sram_base=0 dram_base=0x101 y_size=1 x_size=4 x_stride=4) of chunk "
            "A.acc.map(i0 in 0..4, i1 in 0..16) at io=0, jo=0 must leave A.acc[0, 0] = -1 | -49 | -128 in acc[3] "
            "lane 0, not -34 | 29 | 17, which is no element of any tensor."
        )
        + END
    )


def test_what_is_not_added_to_still_has_its_start():
    assert (
        said(with_instruction(product(), Gemm, 1, iter_in=3))
        == (
            "Instruction 3 (gemm uop_bgn=0 uop_end=1 iter_out=1 iter_in=4 dst_factor_out=0 dst_factor_in=1 "
            "src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0 reset) of chunk C.acc.update(i in "
            "0..4, j in 0..16, k in 0..16) at io=0, jo=0 must leave C.acc[3, 0] = 16384 | -22013 | 207872 in "
            "acc[3] lane 0, not the constant 0."
        )
        + END
    )


def test_a_chunk_that_writes_nothing_has_its_elements_nowhere():
    assert (
        said(with_instruction(product(), Load, 1, x_size=0))
        == (
            "Instruction 1 (load inp sram_base=0 dram_base=0x100 y_size=1 x_size=0 x_stride=4) of chunk "
            "A.inp.map(i0 in 0..4, i1 in 0..16) at io=0, jo=0 must leave A.inp[0, 0] = -1 in one of the lanes of "
            "inp that it writes, and leaves it nowhere."
        )
        + END
    )


def test_what_the_verifier_finds_comes_first():
    made = with_instruction(elementwise(), Store, pop_prev=False)
    with pytest.raises(lt.ValidationError) as caught:
        validate(made, made.schedule.program)
    assert str(caught.value) == (
        "Program must be one that the verifier finds nothing in. unbalanced tokens: push_next of instruction "
        "3 in compute (alu max uop_bgn=0 uop_end=1 iter_out=1 iter_in=4 dst_factor_out=0 dst_factor_in=1 "
        "src_factor_out=0 src_factor_in=0 use_imm imm=5 push_next) must be balanced by the other side of "
        "compute->store, for the launch leaves 1 token too many; see compute->store. (2 findings in all)"
    )


def test_a_pass_that_changes_the_meaning_shows_in_the_outputs():
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.compute((4, 16), lambda i, j: A[i, j] + A[i, j], name="B")
    other = lt.compute((4, 16), lambda i, j: A[i, j] - A[i, j], name="B")
    made = build_compiled(B, [A, B], lt.load_config("vta"))
    with pytest.raises(lt.ValidationError) as caught:
        validate(made, [other])
    assert str(caught.value) == (
        "B[0, 0] of the program must be 0 on full-range inputs (seed 0), as in NumPy, not -66; 63 elements "
        "differ. Each stage that was compiled is right, so a pass has changed what they mean; build(..., "
        'check="passes") names it.'
    )
