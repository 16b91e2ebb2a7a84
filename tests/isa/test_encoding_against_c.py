"""The binary layout against that of a C++ compiler for bit-fields of the documented widths."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extended_machines import with_extensions

from lathe.configs import HardwareConfig, load_config, shipped_configs
from lathe.configs.extensions import EXTENSIONS
from lathe.isa import AluOp, Instruction, MemoryType, Opcode, encode, encode_uops
from lathe.isa.instructions import CLASS_OF, FIELDS_OF, FLAGS
from lathe.isa.table import placements

HEAD = "opcode:3 pop_prev:1 pop_next:1 push_prev:1 push_next:1"
LOOPS = "uop_bgn:UOP uop_end:UOP+1 iter_out:14 iter_in:14 dst_factor_out:ACC dst_factor_in:ACC"
FACTORS = "src_factor_out:INP src_factor_in:INP wgt_factor_out:WGT wgt_factor_in:WGT"
STRUCTS = {
    "Memory": f"{HEAD} memory_type:3 sram_base:16 dram_base:32 y_size:16 x_size:16 x_stride:16 "
    "y_pad_0:4 y_pad_1:4 x_pad_0:4 x_pad_1:4",
    "PaddedLoad": f"{HEAD} memory_type:3 sram_base:16 dram_base:29 pad_value:8 pad_limit:1 "
    "y_size:16 x_size:16 x_stride:16 y_pad_0:4 y_pad_1:4 x_pad_0:4 x_pad_1:4",
    "Gemm": f"{HEAD} reset:1 {LOOPS} {FACTORS}",
    "BeginningGemm": f"{HEAD} reset:1 {LOOPS} {FACTORS}".replace(
        "iter_in:14", "iter_in:14 begin:1"
    ),  # on machines with vta's widths
    "Alu": f"{HEAD} reset:1 {LOOPS} src_factor_out:ACC src_factor_in:ACC alu_opcode:3 use_imm:1 imm:16",
    "Finish": HEAD,
    "Rescale": f"{HEAD} add:1 {LOOPS} wgt_factor_out:PAR wgt_factor_in:PAR zero_point:9 unsigned_:1 relu:1",
    "LookingUp": f"{HEAD} add:1 {LOOPS} wgt_factor_out:PAR wgt_factor_in:PAR zero_point:9 unsigned_:1 relu:1 "
    "lookup:1 lookup_unsigned:1 table:TABLE",
}
STRUCT_OF = {
    Opcode.LOAD: "Memory",
    Opcode.STORE: "Memory",
    Opcode.GEMM: "Gemm",
    Opcode.ALU: "Alu",
    Opcode.FINISH: "Finish",
    Opcode.RESCALE: "Rescale",
}
COMPILER = os.environ.get("CXX") or shutil.which("c++") or "clang++"

MACHINES = {
    **{name: load_config(name) for name in shipped_configs()},
    "many micro-ops": load_config("vta").with_(
        uop_buffer_bytes=1 << 16, acc_buffer_bytes=1 << 12, inp_buffer_bytes=1 << 10
    ),
    "few of all": load_config("tiny").with_(
        uop_buffer_bytes=8, inp_buffer_bytes=8, wgt_buffer_bytes=32, acc_buffer_bytes=32
    ),
    "rescaling": with_extensions(load_config("vta"), ("rescale",)),
    "rescaling on tiny": with_extensions(load_config("tiny"), ("rescale", "rescale_add")),
    "looking up": load_config("lathe16").with_(
        extensions=tuple(EXTENSIONS), par_buffer_bytes=1 << 15, lut_buffer_bytes=1 << 15
    ),
    "wide inp": load_config("vta").with_(acc_buffer_bytes=1 << 14, inp_buffer_bytes=1 << 18),
}


def c_program(config: HardwareConfig, stream: list[Instruction], uops: list[tuple[int, int, int]]) -> str:
    widths = widths_of(config)
    lines = ["#include <cstdint>", "#include <cstdio>", "#include <cstring>"]
    for name, fields in STRUCTS.items():
        # A zero-width field must be unnamed in C.
        present = [field for field in fields.split() if widths.get(field.partition(":")[2]) != 0]
        members = "".join(
            f"{'int64_t' if field.startswith('imm:') else 'uint64_t'} {field.replace(':', ' : ')}; "
            for field in present
        )
        lines.append(f"struct {name} {{ {members}}};")
        lines.append(f'static_assert(sizeof({name}) <= 16, "{name} has more than 128 bits");')
    wider = "INP" if config.inp_index_bits > config.acc_index_bits else "ACC"
    lines.append(f"struct Uop {{ uint32_t dst : ACC; uint32_t src : {wider}; uint32_t wgt : WGT; }};")
    lines.append('static_assert(sizeof(Uop) == 4, "a micro-op has more than 32 bits");')
    lines.append("unsigned char bytes[16];")
    lines.append('void show(int count) { for (int k = 0; k < count; ++k) std::printf("%d ", bytes[k]); }')
    lines.append("int main() {")
    for instruction in stream:
        placed = placements(config, instruction.opcode)
        values = {name: int(getattr(instruction, name)) for name in FIELDS_OF[instruction.opcode] if placed[name].width}
        extended = {"pad_value": "PaddedLoad", "begin": "BeginningGemm", "lookup": "LookingUp"}
        struct = next((extended[name] for name in extended if name in values), STRUCT_OF[instruction.opcode])
        values = {f"{name}_" if name == "unsigned" else name: value for name, value in values.items()}
        assigned = "".join(f"it.{name} = {value}; " for name, value in values.items())
        lines.append(
            f"{{ {struct} it; std::memset(&it, 0, sizeof it); it.opcode = {int(instruction.opcode)}; {assigned}"
            "std::memset(bytes, 0, 16); std::memcpy(bytes, &it, sizeof it); show(16); }"
        )
    for dst, src, wgt in uops:
        assigned = f"it.dst = {dst}; it.src = {src}; it.wgt = {wgt};"
        lines.append(f"{{ Uop it; std::memset(&it, 0, 4); {assigned} std::memcpy(bytes, &it, 4); show(4); }}")
    return "\n".join([*lines, "}"])


def widths_of(config: HardwareConfig) -> dict[str, int]:
    """The widths of fields, by name."""
    memories = ("uop", "inp", "wgt", "acc", "par")
    widths = {memory.upper(): getattr(config, f"{memory}_index_bits") for memory in memories}
    return {**widths, "TABLE": config.table_bits}


def random_instruction(config: HardwareConfig, opcode: Opcode, random: np.random.Generator) -> Instruction:
    values: dict[str, Any] = {}
    for name in FIELDS_OF[opcode]:
        place = placements(config, opcode)[name]
        values[name] = int(random.integers(place.lowest, place.highest, endpoint=True))
        if name in FLAGS:
            values[name] = bool(values[name])
    if "memory_type" in values:
        values["memory_type"] = MemoryType(int(random.integers(0, len(MemoryType))))
    if "alu_opcode" in values:
        values["alu_opcode"] = AluOp(int(random.integers(0, len(AluOp))))
    return CLASS_OF[opcode](**values)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", MACHINES)
def test_bytes_are_those_of_c_bit_fields(name: str, tmp_path: Path) -> None:
    config = MACHINES[name]
    random = np.random.default_rng(0)
    stream = [random_instruction(config, opcode, random) for opcode in Opcode for _ in range(20)]
    widths = [config.acc_index_bits, max(config.acc_index_bits, config.inp_index_bits), config.wgt_index_bits]
    indices = np.array([[random.integers(0, 1 << width) for width in widths] for _ in range(20)])
    source, binary = tmp_path / "layout.cpp", tmp_path / "layout"
    source.write_text(c_program(config, stream, indices.tolist()))
    defines = [f"-D{name}={width}" for name, width in widths_of(config).items()]
    subprocess.run([COMPILER, "-std=c++17", "-w", *defines, "-o", binary, source], check=True)
    printed = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.split()
    expected = np.array(printed, np.uint8)
    words = encode_uops(config, *indices.T)
    assert encode(config, stream).reshape(-1).tolist() == expected[: 16 * len(stream)].tolist()
    assert words.view(np.uint8).tolist() == expected[16 * len(stream) :].tolist()
