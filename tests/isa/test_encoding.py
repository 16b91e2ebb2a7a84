"""Encoding and decoding of instructions and micro-ops, against bit positions written by hand."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from error_checks import raises
from hypothesis import given, settings
from hypothesis import strategies as st

from lathe.configs import ConfigError, HardwareConfig, load_config, shipped_configs
from lathe.isa import (
    Alu,
    AluOp,
    EncodingError,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Opcode,
    Store,
    Unit,
    decode,
    decode_uops,
    encode,
    encode_uops,
    unit_of,
)
from lathe.isa.errors import InvalidInstructionError
from lathe.isa.instructions import CLASS_OF, FIELDS_OF, FLAGS
from lathe.isa.table import placements

VTA = load_config("vta")


def as_number(instruction: Instruction, config: HardwareConfig = VTA) -> int:
    return int.from_bytes(encode(config, [instruction])[0].tobytes(), "little")


def test_load_has_its_fields_where_vta_has_them() -> None:
    load = Load(
        MemoryType.INP, 0x1234, 0x89ABCDEF, 0x1111, 0x2222, 0x3333, 1, 2, 3, 4,
        pop_prev=True, pop_next=False, push_prev=True, push_next=False,
    )  # fmt: skip
    low = 0 | 1 << 3 | 1 << 5 | 2 << 7 | 0x1234 << 10 | 0x89ABCDEF << 26
    high = 0x1111 | 0x2222 << 16 | 0x3333 << 32 | 1 << 48 | 2 << 52 | 3 << 56 | 4 << 60
    assert as_number(load) == high << 64 | low


def test_gemm_has_its_fields_where_vta_has_them() -> None:
    gemm = Gemm(5000, 8192, 16383, 3, 2047, 1, 2, 1025, 1023, 7, reset=True, push_next=True)
    low = 2 | 1 << 6 | 1 << 7 | 5000 << 8 | 8192 << 21 | 16383 << 35 | 3 << 49
    high = 2047 | 1 << 11 | 2 << 22 | 1025 << 33 | 1023 << 44 | 7 << 54
    assert as_number(gemm) == high << 64 | low


def test_alu_has_its_fields_where_vta_has_them() -> None:
    alu = Alu(AluOp.MUL, 1, 2, 3, 4, 5, 6, 7, 8, use_imm=True, imm=-2)
    low = 4 | 1 << 8 | 2 << 21 | 3 << 35 | 4 << 49
    high = 5 | 6 << 11 | 7 << 22 | 8 << 33 | 4 << 44 | 1 << 47 | 0xFFFE << 48
    assert as_number(alu) == high << 64 | low


def test_store_and_finish_have_their_fields_where_vta_has_them() -> None:
    store = Store(sram_base=1, dram_base=2, y_size=3, x_size=4, x_stride=5, pop_prev=True)
    assert as_number(store) == (3 | 4 << 16 | 5 << 32) << 64 | 1 | 1 << 3 | 4 << 7 | 1 << 10 | 2 << 26
    assert as_number(Finish(pop_next=True)) == 3 | 1 << 4


def test_fields_slide_down_on_a_machine_with_small_memories() -> None:
    # tiny: uop 8 bits, so GEMM's word 0 ends its loops at 7+1+8+9+14+14 = 53 and has 11 bits left for dst_factor_out.
    found = {name: (place.lsb, place.width) for name, place in placements(load_config("tiny"), Opcode.GEMM).items()}
    assert found["iter_in"] == (39, 14)
    assert found["dst_factor_out"] == (53, 8)
    assert found["dst_factor_in"] == (64, 8)
    assert found["wgt_factor_in"] == (64 + 8 + 8 + 8 + 7, 7)


def test_field_that_does_not_fit_the_rest_of_a_word_starts_the_next() -> None:
    # 2^14 micro-ops: 7+1+14+15+14 = 51 bits, so iter_in with 14 bits begins word 1.
    config = VTA.with_(uop_buffer_bytes=1 << 16, acc_buffer_bytes=1 << 12, inp_buffer_bytes=1 << 10)
    found = {name: (place.lsb, place.width) for name, place in placements(config, Opcode.GEMM).items()}
    assert found["iter_out"] == (37, 14)
    assert found["iter_in"] == (64, 14)
    assert found["dst_factor_out"] == (78, 6)


def test_memory_of_one_vector_has_fields_without_bits() -> None:
    config = VTA.with_(wgt_buffer_bytes=256)
    gemm = Gemm(0, 1, 1, 1, 1, 1, 1, 1, 0, 0)
    assert placements(config, Opcode.GEMM)["wgt_factor_in"].width == 0
    assert decode(config, encode(config, [gemm])) == [gemm]
    with pytest.raises(EncodingError) as caught:
        encode(config, [Gemm(0, 1, 1, 1, 1, 1, 1, 1, 0, 1)])
    assert str(caught.value) == (
        "wgt_factor_in of instruction 0 (GEMM) must be from 0 to 0, not 1. Its field has 0 bits on machine 'vta'."
    )


@st.composite
def instructions(draw: st.DrawFn, config: HardwareConfig) -> Instruction:
    opcode = draw(st.sampled_from(Opcode))
    values: dict[str, Any] = {}
    for name in FIELDS_OF[opcode]:
        place = placements(config, opcode)[name]
        if name in FLAGS:
            values[name] = draw(st.booleans()) and bool(place.highest)
        elif name == "memory_type":
            values[name] = draw(st.sampled_from(MemoryType))
        elif name == "alu_opcode":
            values[name] = draw(st.sampled_from(AluOp))
        else:
            values[name] = draw(st.integers(place.lowest, place.highest))
    return CLASS_OF[opcode](**values)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", shipped_configs())
@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_instruction_comes_back_from_its_bytes(name: str, data: st.DataObject) -> None:
    config = load_config(name)
    stream = data.draw(st.lists(instructions(config), max_size=6))
    encoded = encode(config, stream)
    assert encoded.shape == (len(stream), 16)
    assert encoded.dtype == np.uint8
    assert decode(config, encoded) == stream


def test_value_that_does_not_fit_is_refused_by_instruction_and_field() -> None:
    with pytest.raises(EncodingError) as caught:
        encode(VTA, [Finish(), Load(MemoryType.ACC, 70000, 0, 1, 1, 1)])
    assert str(caught.value) == (
        "sram_base of instruction 1 (LOAD) must be from 0 to 65535, not 70000. Its field has 16 bits on machine 'vta'."
    )
    with pytest.raises(EncodingError) as caught:
        encode(VTA, [Alu(AluOp.MIN, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=True, imm=40000)])
    assert str(caught.value) == (
        "imm of instruction 0 (ALU) must be from -32768 to 32767, not 40000. Its field has 16 bits on machine 'vta'."
    )


@pytest.mark.parametrize("value", [1.5, "1", None, 1 << 70])
def test_value_that_is_not_an_integer_of_the_machine_is_refused(value: Any) -> None:
    with pytest.raises(EncodingError) as caught:
        encode(VTA, [Load(MemoryType.ACC, value, 0, 1, 1, 1)])
    assert str(caught.value) == (
        f"sram_base of instruction 0 (LOAD) must be an integer of the field's width, not {value!r}. Correct the value."
    )


@pytest.mark.parametrize(
    ("number", "mentions"),
    [
        (6, ("opcode of instruction 0", "0 LOAD, 1 STORE, 2 GEMM, 3 FINISH, 4 ALU, 5 RESCALE", "not 6")),
        (4 | 7 << 108, ("alu_opcode of instruction 0", "0 MIN, 1 MAX, 2 ADD, 3 SHR, 4 MUL, 5 SUB", "not 7")),
    ],
)
def test_bytes_that_are_not_an_instruction_are_refused(number: int, mentions: tuple[str, ...]) -> None:
    encoded = np.frombuffer(number.to_bytes(16, "little"), np.uint8).reshape(1, 16)
    raises(InvalidInstructionError, decode, VTA, encoded, mentions=(*mentions, "vta"))


def test_stream_of_another_shape_or_dtype_is_refused() -> None:
    with pytest.raises(EncodingError) as caught:
        decode(VTA, np.zeros((3, 8), np.int64))
    assert str(caught.value) == (
        "The instruction stream must be an array of shape (N, 16) and dtype uint8, not (3, 8) and int64. "
        "Each instruction has 16 bytes."
    )


def test_units_are_the_documented_ones() -> None:
    loads = {memory: unit_of(Load(memory, 0, 0, 1, 1, 1)) for memory in MemoryType}
    assert {memory for memory, unit in loads.items() if unit is Unit.LOAD} == {MemoryType.INP, MemoryType.WGT}
    assert all(unit is not Unit.STORE for unit in loads.values())
    assert unit_of(Store(sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1)) is Unit.STORE
    assert unit_of(Finish()) is Unit.COMPUTE


def test_micro_op_has_dst_src_wgt_from_the_lowest_bit() -> None:
    words = encode_uops(VTA, dst=[1, 2047], src=[2, 2047], wgt=[3, 1023])
    assert words.tolist() == [1 | 2 << 11 | 3 << 22, 0xFFFFFFFF]
    assert [part.tolist() for part in decode_uops(VTA, words)] == [[1, 2047], [2, 2047], [3, 1023]]


def test_src_of_a_micro_op_is_as_wide_as_the_wider_of_acc_and_inp() -> None:
    config = VTA.with_(inp_buffer_bytes=1 << 13)  # inp 9 bits, acc 11
    assert encode_uops(config, 0, 0, 1).tolist() == [1 << 22]
    config = VTA.with_(acc_buffer_bytes=1 << 15)  # inp 11 bits, acc 9
    assert encode_uops(config, 0, 0, 1).tolist() == [1 << 20]


def test_micro_op_index_beyond_its_field_is_refused() -> None:
    with pytest.raises(EncodingError) as caught:
        encode_uops(VTA, [0, 2048], 0, 0)
    assert (
        str(caught.value)
        == "dst of micro-op 1 must be from 0 to 2047, not 2048. Its field has 11 bits on machine 'vta'."
    )


def test_padding_fields_of_a_load_follow_a_shorter_dram_base_with_the_extension() -> None:
    lathe16 = load_config("lathe16")
    load = Load(
        MemoryType.ACC8, 0x1234, 0x09ABCDEF, 0x1111, 0x2222, 0x3333, 1, 2, 3, 4, pad_value=-128, pad_limit=True
    )  # fmt: skip
    low = 0 | 5 << 7 | 0x1234 << 10 | 0x09ABCDEF << 26 | 0x80 << 55 | 1 << 63
    high = 0x1111 | 0x2222 << 16 | 0x3333 << 32 | 1 << 48 | 2 << 52 | 3 << 56 | 4 << 60
    assert as_number(load, lathe16) == high << 64 | low
    assert decode(lathe16, encode(lathe16, [load])) == [load]


def test_instructions_without_padding_value_have_the_same_bytes_with_the_extension() -> None:
    stream = [
        Load(MemoryType.INP, 3, (1 << 29) - 1, 8, 9, 14, 1, 2, 3, 4, pop_next=True),
        Store(sram_base=1, dram_base=(1 << 32) - 1, y_size=3, x_size=4, x_stride=5),
        Gemm(5000, 8192, 16383, 3, 2047, 1, 2, 1025, 1023, 7),
        Alu(AluOp.MUL, 1, 2, 3, 4, 5, 6, 7, 8, use_imm=True, imm=-2),
        Finish(),
    ]
    assert encode(VTA, stream).tolist() == encode(load_config("lathe16"), stream).tolist()


def test_padding_is_refused_on_a_machine_without_it_and_its_bits_are_ignored() -> None:
    load = Load(MemoryType.ACC8, 0, 0, 1, 1, 1, 1, pad_value=-128)
    with pytest.raises(EncodingError) as caught:
        encode(VTA, [load])
    assert str(caught.value) == (
        "pad_value of instruction 0 (LOAD) must be 0, not -128. The extension 'pad_value' is off on machine 'vta'."
    )
    (decoded,) = decode(VTA, encode(load_config("lathe16"), [replace(load, pad_value=24)]))  # bits 58 and 59
    assert decoded == replace(load, pad_value=0)


def test_begin_of_a_gemm_is_vtas_reserved_bit() -> None:
    lathe16 = load_config("lathe16")
    gemm = Gemm(5000, 8192, 16383, 3, 2047, 1, 2, 1025, 1023, 7)
    assert as_number(replace(gemm, begin=True), lathe16) == as_number(gemm) | 1 << 63
    assert decode(lathe16, encode(lathe16, [replace(gemm, begin=True)])) == [replace(gemm, begin=True)]


def test_begin_is_refused_on_a_machine_without_it_and_its_bit_is_ignored() -> None:
    gemm = Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, begin=True)
    with pytest.raises(EncodingError) as caught:
        encode(VTA, [Finish(), gemm])
    assert str(caught.value) == (
        "begin of instruction 1 (GEMM) must be 0, not 1. The extension 'gemm_begin' is off on machine 'vta'."
    )
    assert decode(VTA, encode(load_config("lathe16"), [gemm])) == [replace(gemm, begin=False)]


def machines_by_depth() -> Iterator[HardwareConfig]:
    """Machines with micro-op and accumulator memories of all sizes that fit an instruction."""
    for uop, acc in product(range(2, 17), range(6, 21, 2)):
        with suppress(ConfigError):
            yield VTA.with_(uop_buffer_bytes=1 << uop, acc_buffer_bytes=1 << acc)


MACHINES_BY_DEPTH = list(machines_by_depth())


def test_most_depths_are_valid() -> None:
    assert len(MACHINES_BY_DEPTH) > 80


@pytest.mark.parametrize("config", MACHINES_BY_DEPTH, ids=lambda each: f"{each.uop_depth}-{each.acc_depth}")
def test_begin_moves_no_other_field_on_any_machine(config: HardwareConfig) -> None:
    plain, extended = (dict(placements(config.with_(extensions=names), Opcode.GEMM)) for names in ((), ("gemm_begin",)))
    begin = extended.pop("begin")
    del plain["begin"]
    assert extended == plain
    assert begin.width == 1
    assert all(not place.lsb <= begin.lsb < place.lsb + place.width for place in plain.values())


def test_values_beyond_a_shorter_dram_base_are_refused() -> None:
    with pytest.raises(EncodingError) as caught:
        encode(load_config("lathe16"), [Load(MemoryType.UOP, 0, 1 << 29, 1, 1, 1)])
    assert str(caught.value) == (
        "dram_base of instruction 0 (LOAD) must be from 0 to 536870911, not 536870912. "
        "Its field has 29 bits on machine 'lathe16'."
    )
