"""Messages of validation errors: they name instruction, chunk, element, cell, expected and actual values."""

from dataclasses import replace

from error_checks import raises

import lathe as lt
from lathe.isa import Alu, Gemm, Load, MemoryType, Store
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.validation import validate
from lathe.validation.stream_validator import validate_stream


def elementwise() -> Compiled:
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.compute((4, 16), lambda i, j: lt.max(A[i, j].astype("int32") * 3, 5).astype("int8"), name="B")
    return build_compiled(B, [A, B], lt.load_config("vta"))


def product() -> Compiled:
    A, B = lt.placeholder((4, 16), "int8", name="A"), lt.placeholder((16, 16), "int8", name="B")
    C = lt.matmul(A, B, transpose_b=True, name="C")
    return build_compiled(C, [A, B, C], lt.load_config("vta"))


def with_instruction(compiled, kind, which=0, **fields) -> Compiled:
    """The program with the fields of an instruction changed, by its number among those of its kind."""
    stream = list(compiled.program.instructions)
    number = [n for n, each in enumerate(stream) if isinstance(each, kind)][which]
    stream[number] = replace(stream[number], **fields)
    return replace(compiled, program=replace(compiled.program, instructions=tuple(stream)))


def check_refused(compiled: Compiled, instruction: str, chunk: str, *mentions: str) -> None:
    """Check what the validator's error says of a program."""
    raises(
        lt.ValidationError, validate_stream, compiled, mentions=(instruction, f"of chunk {chunk}", *mentions, "seed 0")
    )


def test_a_wrong_constant_names_the_last_writer_of_the_cell_the_chunk_the_cell_and_both_values():
    check_refused(
        with_instruction(elementwise(), Alu, imm=4),
        "Instruction 3 (alu max uop_bgn=0 uop_end=1 iter_out=1 iter_in=4 dst_factor_out=0 dst_factor_in=1 "
        "src_factor_out=0 src_factor_in=0 use_imm imm=5 push_next)",
        "B.acc.map(i in 0..4, j in 0..16) at io=0, jo=0",
        "must leave B.acc[0, 0] = -94 | 54 | -106 in acc[0] lane 0, not 216 | 72 | 200, which is no element",
    )


def test_a_wrong_address_names_the_byte_and_the_element_that_is_there():
    check_refused(
        with_instruction(elementwise(), Store, sram_base=1),
        "Instruction 4 (store out sram_base=1 dram_base=0x200 y_size=1 x_size=4 x_stride=4 pop_prev)",
        "B.map(ii in 0..4, ji in 0..16) at io=0, jo=0",
        "must leave B[0, 0] = 1 | -100 | -93 in byte 0x2000 of dram, not B.acc[1, 0] = -1 | 60 | -90",
    )


def test_an_operand_that_is_another_element_is_not_what_the_chunk_must_load():
    compiled = elementwise()
    load = next(
        each for each in compiled.program.instructions if isinstance(each, Load) and each.memory_type == MemoryType.ACC8
    )
    number = compiled.program.instructions.index(load)
    which = sum(isinstance(each, Load) for each in compiled.program.instructions[:number])
    check_refused(
        with_instruction(compiled, Load, which, dram_base=load.dram_base + 1),
        "Instruction 1 (load acc8 sram_base=0 dram_base=0x101 y_size=1 x_size=4 x_stride=4)",
        "A.acc.map(i0 in 0..4, i1 in 0..16) at io=0, jo=0",
        "must leave A.acc[0, 0] = -1 | -49 | -128 in acc[3] lane 0, not -34 | 29 | 17, which is no element",
    )


def test_an_element_that_is_not_accumulated_has_its_initial_value():
    check_refused(
        with_instruction(product(), Gemm, 1, iter_in=3),
        "Instruction 3 (gemm uop_bgn=0 uop_end=1 iter_out=1 iter_in=4 dst_factor_out=0 dst_factor_in=1 "
        "src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0 reset)",
        "C.acc.update(i in 0..4, j in 0..16, k in 0..16) at io=0, jo=0",
        "must leave C.acc[3, 0] = 16384 | -22013 | 207872 in acc[3] lane 0, not the constant 0",
    )


def test_a_chunk_that_writes_nothing_does_not_compute_its_elements():
    check_refused(
        with_instruction(product(), Load, 1, x_size=0),
        "Instruction 1 (load inp sram_base=0 dram_base=0x100 y_size=1 x_size=0 x_stride=4)",
        "A.inp.map(i0 in 0..4, i1 in 0..16) at io=0, jo=0",
        "must leave A.inp[0, 0] = -1 in one of the lanes of inp",
    )


def test_findings_of_the_verifier_come_first():
    compiled = with_instruction(elementwise(), Store, pop_prev=False)
    mentions = ("unbalanced tokens", "instruction 3", "alu max", "compute->store", "2 findings in all")
    raises(lt.ValidationError, validate, compiled, compiled.schedule.program, mentions=mentions)


def test_a_pass_that_changes_the_meaning_shows_in_the_outputs():
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.compute((4, 16), lambda i, j: A[i, j] + A[i, j], name="B")
    other = lt.compute((4, 16), lambda i, j: A[i, j] - A[i, j], name="B")
    compiled = build_compiled(B, [A, B], lt.load_config("vta"))
    mentions = ("B[0, 0]", "must be 0", "full-range", "seed 0", "not -66", "63 elements", 'build(..., check="passes")')
    raises(lt.ValidationError, validate, compiled, [other], mentions=mentions)
