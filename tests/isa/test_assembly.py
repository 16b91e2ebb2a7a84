"""Assembly text of instructions: assembler, disassembler, and refusals of wrong text."""

import numpy as np
import pytest
from error_checks import raises
from extended_machines import with_extensions
from hypothesis import given, settings
from hypothesis import strategies as st

from lathe.configs import load_config, shipped_configs
from lathe.isa import (
    Alu,
    AluOp,
    AssemblyError,
    EncodingError,
    Finish,
    Gemm,
    Load,
    MemoryType,
    Opcode,
    Rescale,
    Store,
    assemble,
    decode,
    disassemble,
    encode,
    instruction_text,
)

VTA = load_config("vta")


def test_text_has_required_fields_and_those_that_are_set() -> None:
    load = Load(MemoryType.INP, 3, 256, 8, 9, 14, x_pad_1=1, pop_next=True)
    assert instruction_text(load) == (
        "load inp sram_base=3 dram_base=0x100 y_size=8 x_size=9 x_stride=14 x_pad_1=1 pop_next"
    )
    alu = Alu(AluOp.SHR, 0, 1, 1, 64, 0, 1, 0, 0, use_imm=True, imm=-8, push_next=True)
    assert instruction_text(alu) == (
        "alu shr uop_bgn=0 uop_end=1 iter_out=1 iter_in=64 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 "
        "src_factor_in=0 use_imm imm=-8 push_next"
    )
    assert instruction_text(Finish()) == "finish"


LOAD = "load acc8 sram_base=0 dram_base=0x0 y_size=1 x_size=1 x_stride=1 y_pad_0=1"


def test_text_of_padding_on_a_machine_that_has_it() -> None:
    lathe16 = load_config("lathe16")
    load = Load(MemoryType.ACC8, 0, 0, 1, 1, 1, 1, pad_value=-128, pad_limit=True)
    assert instruction_text(load) == f"{LOAD} pad_value=-128 pad_limit"
    assert assemble(lathe16, instruction_text(load)).instructions == [load]
    with pytest.raises(AssemblyError) as caught:
        assemble(lathe16, f"{LOAD} pad_value=128")
    assert str(caught.value) == (
        "pad_value of LOAD of the text, line 1, must be an integer from -128 to 127, not '128'. "
        "Correct the number or the machine."
    )


@pytest.mark.parametrize("field", ["pad_value=-128", "pad_limit"])
def test_text_of_padding_on_a_machine_without_it(field: str) -> None:
    name = field.partition("=")[0]
    mentions = (f"{name} of LOAD", "line 1", "extension 'pad_value", "vta")
    raises(AssemblyError, assemble, VTA, f"{LOAD} {field}", mentions=mentions)


def test_text_of_a_gemm_that_begins() -> None:
    gemm = Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, begin=True, push_prev=True)
    text = instruction_text(gemm)
    assert text.endswith("wgt_factor_in=0 begin push_prev")
    assert assemble(load_config("lathe16"), text).instructions == [gemm]
    raises(AssemblyError, assemble, VTA, text, mentions=("begin of GEMM", "line 1", "extension 'gemm_begin", "vta"))


RESCALE = (
    "rescale uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 dst_factor_in=0 wgt_factor_out=0 wgt_factor_in=0"
)


@pytest.mark.parametrize("field", ["lookup", "lookup_unsigned", "table=0"])
def test_text_of_a_look_up_on_a_machine_without_tables(field: str) -> None:
    tiny = with_extensions(load_config("tiny"), ("rescale",))
    mentions = (f"{field.partition('=')[0]} of RESCALE", "line 1", "extension 'lookup", "tiny")
    raises(AssemblyError, assemble, tiny, f"{RESCALE} {field}", mentions=mentions)


def test_text_of_a_look_up_on_a_machine_with_one_table() -> None:
    one = with_extensions(load_config("tiny"), ("rescale", "lookup")).with_(lut_buffer_bytes=1024)
    assert assemble(one, f"{RESCALE} lookup table=0").instructions == [Rescale(0, 1, 1, 1, 0, 0, 0, 0, lookup=True)]
    with pytest.raises(AssemblyError) as caught:
        assemble(one, f"{RESCALE} lookup table=1")
    assert str(caught.value) == (
        "table of RESCALE of the text, line 1, must be an integer from 0 to 0, not '1'. Correct the number or the "
        "machine."
    )
    with pytest.raises(EncodingError) as refused:
        encode(one, [Rescale(0, 1, 1, 1, 0, 0, 0, 0, lookup=True, table=1)])
    assert str(refused.value) == (
        "table of instruction 0 (RESCALE) must be from 0 to 0, not 1. Its field has 0 bits on machine 'tiny'."
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", shipped_configs())
@given(st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_text_of_any_bytes_assembles_to_the_same_bytes(name: str, seed: int) -> None:
    config = load_config(name)
    encoded = np.random.default_rng(seed).integers(0, 256, (20, 16), np.uint8)
    uops = np.random.default_rng(seed).integers(0, 1 << 32, 10, np.uint32)
    assembly = assemble(config, disassemble(config, encoded, {"a table": uops}))
    assert assembly.encoded.tolist() == encoded.tolist()
    assert assembly.uops["a table"].tolist() == uops.tolist()


@pytest.mark.parametrize("opcode", Opcode)
def test_every_instruction_has_a_text_of_its_own(opcode: Opcode) -> None:
    machine = load_config("lathe16")  # has all instructions, and VTA's fields at VTA's positions
    random = np.random.default_rng(opcode)
    encoded = random.integers(0, 256, (200, 16), np.uint8)
    encoded[:, 0] = encoded[:, 0] & 0xF8 | opcode
    encoded[:, 0] &= 0x7F  # memory types 0 to 3 for LOAD and STORE
    encoded[:, 1] &= 0xFC
    if opcode == Opcode.ALU:
        encoded[:, 13] &= 0x8F | 0x20  # ALU operations 0 and 2
    stream = decode(machine, encode(machine, decode(machine, encoded)))
    text = disassemble(machine, stream)
    assert ".insn" not in text
    assert assemble(machine, text).instructions == stream


def test_store_with_pads_and_another_memory_type_can_be_written() -> None:
    store = Store(memory_type=MemoryType.WGT, sram_base=0, dram_base=0, y_size=0, x_size=0, x_stride=0, y_pad_1=3)
    assert instruction_text(store) == "store wgt sram_base=0 dram_base=0x0 y_size=0 x_size=0 x_stride=0 y_pad_1=3"
    assert assemble(VTA, instruction_text(store)).instructions == [store]


def test_reserved_bits_are_preserved_as_raw_bits() -> None:
    encoded = encode(VTA, [Finish()])
    encoded[0, 15] = 0x80
    text = disassemble(VTA, encoded)
    assert ".insn 0x80000000000000000000000000000003  ; 0 compute, with reserved bits set: finish" in text
    assert assemble(VTA, text).encoded.tolist() == encoded.tolist()


def test_comments_blank_lines_and_hexadecimal_are_read() -> None:
    text = "; a comment\n\n  finish pop_prev=1 push_next=0 ; another\n"
    text += "load acc sram_base=0x10 dram_base=1 y_size=1 x_size=1 x_stride=1"
    assert assemble(VTA, text).instructions == [Finish(pop_prev=True), Load(MemoryType.ACC, 16, 1, 1, 1, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lode inp",
            "The instruction of k.s, line 2, must be one of load, store, gemm, finish, alu, rescale, not 'lode'. Did "
            "you mean 'load'?"),
        ("load inq",
            "memory_type of LOAD of k.s, line 2, must be one of uop, wgt, inp, acc, out, acc8, par, lut, not 'inq'. "
            "Did you mean 'inp'?"),
        ("alu",
            "alu_opcode of ALU of k.s, line 2, must be one of min, max, add, shr, mul, sub, not 'nothing'. Correct the "
            "word."),
        ("finish popprev",
            "A field of FINISH of k.s, line 2, must be one of pop_prev, pop_next, push_prev, push_next, not "
            "'popprev'. Did you mean 'pop_prev'?"),
        ("load inp sram_base=65536",
            "sram_base of LOAD of k.s, line 2, must be an integer from 0 to 65535, not '65536'. Correct the number "
            "or the machine."),
        ("load inp sram_base=1 sram_base=1",
            "sram_base of LOAD of k.s, line 2, must be given once, not twice. Remove one of the two."),
        ("load inp sram_base",
            "sram_base of LOAD of k.s, line 2, must be followed by = and a number, not alone. Write sram_base=0 or "
            "its value."),
        ("load inp sram_base=1",
            "LOAD of k.s, line 2, must be given dram_base, not left without it. Add dram_base=0 or its value."),
        ("finish push_prev=2",
            "push_prev of FINISH of k.s, line 2, must be 0 or 1, not '2'. The bare name of a flag sets it."),
        (".codes",
            "The directive of k.s, line 2, must be one of .code, .uops, .insn, .word, not '.codes'. Did you mean "
            "'.code'?"),
        (".uops", "Directive .uops of k.s, line 2, must be followed by 1 word, not 0. Correct the line."),
        (".word 0",
            "Directive .word of k.s, line 2, must be in .uops, not in .code. Write .uops and a name before it."),
        (".uops a\ndst=2048",
            "dst of the micro-op of k.s, line 3, must be an integer from 0 to 2047, not '2048'. Correct the number "
            "or the machine."),
    ],
)  # fmt: skip
def test_wrong_text_is_refused_by_line_and_field(text: str, message: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(VTA, f"finish\n{text}", "k.s")
    assert str(caught.value) == message
    assert caught.value.line == 2 + text.count("\n")


BEYOND_VTA = {
    RESCALE: ("opcode of RESCALE", "LOAD, STORE, GEMM, FINISH, ALU", "not RESCALE", "extension 'rescale'."),
    "alu sub uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 dst_factor_in=0 src_factor_out=0 "
    "src_factor_in=0": ("alu_opcode of ALU", "min, max, add, shr, mul", "not sub", "extension 'alu_sub'."),
    "load lut sram_base=0 dram_base=0x0 y_size=1 x_size=1 x_stride=1": (
        *("memory_type of LOAD", "uop, wgt, inp, acc, out, acc8", "not lut", "extension 'lookup'."),
    ),
}


@pytest.mark.parametrize("text", BEYOND_VTA)
def test_text_that_needs_an_extension_is_refused_on_a_machine_without_it(text: str) -> None:
    raises(AssemblyError, assemble, VTA, text, mentions=("line 1", "vta", *BEYOND_VTA[text]))
    # Instructions of a machine that has the extension are disassembled to `.insn`, and assembled again.
    instructions = assemble(load_config("lathe16"), text).instructions
    listing = disassemble(VTA, instructions)
    assert f"requires an extension that the machine lacks: {text.split()[0]} " in listing
    assert assemble(VTA, listing).encoded.tolist() == encode(VTA, instructions).tolist()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (RESCALE.replace("wgt_factor_in=0", "wgt_factor_in=3"), BEYOND_VTA[RESCALE]),
        ("rescale", BEYOND_VTA[RESCALE]),
        ("rescale lookup", BEYOND_VTA[RESCALE]),
        ("load lut sram_base=0x10000", BEYOND_VTA["load lut sram_base=0 dram_base=0x0 y_size=1 x_size=1 x_stride=1"]),
        ("load par pad_value=3",
            ("memory_type of LOAD", "uop, wgt, inp, acc, out, acc8", "not par", "extension 'rescale'.")),
    ],
)  # fmt: skip
def test_a_missing_extension_is_reported_before_fields_without_bits(text: str, mentions: tuple[str, ...]) -> None:
    raises(AssemblyError, assemble, VTA, text, mentions=("line 1", "vta", *mentions))
