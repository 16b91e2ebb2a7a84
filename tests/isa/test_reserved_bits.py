"""Reserved bits that are set: the field that they encode on other machines is reported; they have no other effect."""

import json

import numpy as np
import pytest
from error_checks import check_mentions
from invoked import lathe as run

import lathe as lt
from lathe.isa import Alu, AluOp, Finish, Gemm, Load, MemoryType, PagedMemory, Rescale, Store, decode, encode
from lathe.isa import verify_stream as verify
from lathe.isa.reserved_bits import set_reserved_bits

VTA, LATHE16 = lt.load_config("vta"), lt.load_config("lathe16")
PLAIN = [
    Load(MemoryType.INP, 0, 0, 1, 1, 1),
    Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0),
    Alu(AluOp.MAX, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=True, imm=-1),
    Store(sram_base=0, dram_base=0, y_size=1, x_size=1, x_stride=1),
    Finish(),
]
GREATEST = [Load(MemoryType.INP, 0, (1 << 29) - 1, 1, 1, 1, pad_value=-128, pad_limit=True), *PLAIN[1:]]


def reported(config, instructions, made_for=LATHE16):
    return [
        (each.instruction, each.field, each.contract)
        for each in set_reserved_bits(config, encode(made_for, instructions))
    ]


def off(extension, value, machine="vta"):
    return f"be 0 on machine {machine!r}, where the extension {extension!r} is off, not {value}"


def test_streams_of_the_machine_itself_have_none():
    assert reported(VTA, PLAIN, VTA) == reported(VTA, PLAIN) == reported(LATHE16, GREATEST) == []
    everything = Rescale(0, 1, 1, 1, 0, 0, 1, 1, zero_point=-1, add=True, relu=True, lookup=True, table=1)
    assert reported(LATHE16, [everything, Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, begin=True)]) == []


def test_fields_of_extensions_are_named():
    assert reported(VTA, [Gemm(0, 1, 1, 1, 0, 0, 0, 0, 0, 0, begin=True)]) == [(0, "begin", off("gemm_begin", 1))]
    assert reported(VTA, [Finish(), Load(MemoryType.ACC, 0, 0, 1, 1, 1, pad_value=-3, pad_limit=True)]) == [
        (1, "pad_value", off("pad_value", -3)),
        (1, "pad_limit", off("pad_value", 1)),
    ]
    without = LATHE16.with_(name="rescaling", extensions=("rescale",), lut_buffer_bytes=0)
    assert reported(without, [Rescale(0, 1, 1, 1, 0, 0, 0, 0, lookup=True)]) == [
        (0, "lookup", off("lookup", 1, "rescaling"))
    ]


def test_an_instruction_that_the_machine_lacks_is_refused_as_a_whole():
    assert reported(VTA, [Rescale(0, 1, 1, 1, 0, 0, 0, 0, lookup=True)]) == []


@pytest.mark.parametrize("config", [VTA, LATHE16])
def test_bits_of_no_field_are_reported_together(config):
    encoded = encode(config, [Finish()])
    encoded[0, 15] = 0x50
    (found,) = set_reserved_bits(config, encoded)
    assert (found.field, found.contract) == (
        "bits", f"be 0 where machine {config.name!r} has no field, not 0x5 from bit 124 on"
    )  # fmt: skip
    assert decode(config, encoded) == [Finish()]


def test_the_verifier_finds_them_in_bytes():
    encoded = encode(LATHE16, [Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, begin=True), Finish()])
    instructions = decode(VTA, encoded)
    assert verify(VTA, instructions, PagedMemory()) == []
    (finding,) = verify(VTA, instructions, PagedMemory(), encoded=encoded)
    assert str(finding) == (
        f"unused bits: begin of instruction 0 in compute ({finding.text}) must be 0 on machine 'vta', where the "
        "extension 'gemm_begin' is off, not 1."
    )
    assert verify(LATHE16, decode(LATHE16, encoded), PagedMemory(), encoded=encoded) == []


@pytest.fixture
def stream(tmp_path):
    """A stream for `lathe16` that ends immediately."""
    encoded = encode(LATHE16, [Gemm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, begin=True), Finish()])
    np.savez(
        tmp_path / "stream.npz", insns=encoded, insn_addr=np.uint64(0), page_addrs=np.zeros(0, np.uint64),
        pages=np.zeros((0, 4096), np.uint8), tokens=np.zeros(4, np.int64),
    )  # fmt: skip
    return tmp_path / "stream.npz"


def test_commands_report_a_stream_of_another_machine(stream):
    found = run("verify", stream, "--json")
    assert (found.exit_code, [each["kind"] for each in json.loads(found.stdout)["findings"]]) == (1, ["unused bits"])
    found = run("replay", stream, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["cycles"] > 0
    check_mentions(found.stderr, "WARNING: begin of instruction 0", "vta", "gemm_begin", "not 1", "lathe verify", "-c")
    assert run("verify", stream, "-c", "lathe16").exit_code == 0
    assert run("replay", stream, "-c", "lathe16").stderr == ""


def test_a_program_that_was_built_for_another_machine_is_refused(tmp_path):
    a, b = lt.placeholder((16, 16), "int8", name="A"), lt.placeholder((16, 16), "int8", name="B")
    c = lt.requantise(lt.matmul(a, b, transpose_b=True, name="sums"), 8, name="C")
    machine = VTA.with_(extensions=("gemm_begin",))
    lt.build(c, [a, b, c], machine).save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    header["config"]["extensions"] = []
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "bad.npz", **arrays)
    assert lt.verify(lt.Program.load(tmp_path / "good.npz")) == []
    with pytest.raises(lt.ProgramError, match=r"\. begin of instruction \d+ must be 0 on machine 'vta', where the ext"):
        lt.Program.load(tmp_path / "bad.npz")
