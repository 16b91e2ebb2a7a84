"""Whole machines: configurations that cannot be built, the register map, Verilog."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from error_checks import raises

from lathe.configs import load_config
from lathe.rtl.accelerator import Accelerator
from lathe.rtl.cache import as_built
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.engines import build
from lathe.rtl.manual import register_manual
from lathe.rtl.registers import ADDRESS_BITS, REGISTERS
from lathe.rtl.verilog import TOP, verilog

DOCS = Path(__file__).parents[2] / "docs"


def test_a_pipeline_too_short_is_refused():
    cfg = load_config("tiny").with_(**{"timing.gemm_pipeline": 2, "timing.alu_pipeline": 1})
    mentions = ("timing.gemm_pipeline", "timing.alu_pipeline", "'tiny'", "at least 3", "not 2")
    raises(RtlError, Accelerator, cfg, mentions=mentions)


def test_a_write_response_without_latency_is_refused():
    cfg = load_config("vta").with_(**{"timing.response_latency": 0})
    raises(RtlError, Accelerator, cfg, mentions=("timing.response_latency", "'vta'", "at least 1", "not 0"))


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    mentions = ("'verilator'", "$CXX", "c++", "g++", "clang++", "apt install g++", "xcode-select --install", "'pysim'")
    raises(RtlError, build.cxx, mentions=mentions)


def test_a_compressed_waveform_without_its_libraries_says_what_to_install(monkeypatch, tmp_path):
    compiler = tmp_path / "c++"  # a compiler that finds no header
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    mentions = (".fst", "lz4", "zlib", "apt install liblz4-dev zlib1g-dev", ".vcd")
    raises(RtlError, build.library, load_config("tiny"), ".fst", mentions=mentions)
    assert not list((tmp_path / "cache").glob("*.so"))
    assert not list((tmp_path / "cache").glob("build-*"))


def test_a_waveform_of_another_kind_is_refused():
    raises(RtlError, build.library, load_config("tiny"), ".ghw", mentions=("Verilator", ".fst", ".vcd", "'.ghw'"))


def test_registers_do_not_overlap():
    addresses = [register.address for register in REGISTERS]
    assert len(set(addresses)) == len(addresses)
    assert max(addresses) < 1 << ADDRESS_BITS
    assert all(address % 4 == 0 for address in addresses)


def test_the_page_of_registers_is_up_to_date():
    assert (DOCS / "rtl-registers.md").read_text() == register_manual()


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["tiny", pytest.param("vta", marks=pytest.mark.slow), pytest.param("lathe16", marks=pytest.mark.slow)]
)
def test_the_verilog_has_no_warning_that_is_not_waived_with_a_reason(name, tmp_path):
    file = tmp_path / f"{TOP}.v"
    file.write_text(verilog(load_config(name)))
    root = build.verilator_root()
    done = subprocess.run(
        [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--top-module", TOP, file],
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_exported_memories_are_initialised_with_zeros_by_loops():
    cfg = load_config("tiny")
    text = verilog(cfg)
    declared = re.findall(r"reg \[(\d+):0\] memory \[(\d+):0\];", text)
    loops = re.findall(r"memory_row <= (\d+); memory_row = memory_row \+ 1\) memory\[memory_row\] = (\d+)'h0;", text)
    assert [(last, str(int(top) + 1)) for top, last in declared] == loops
    bits = sum((int(last) + 1) * int(width) for last, width in loops)
    assert bits > 8 * (cfg.uop_buffer_bytes + cfg.inp_buffer_bytes + cfg.wgt_buffer_bytes + cfg.acc_buffer_bytes)
    assert "memory[0] =" not in text


@pytest.mark.slow
def test_the_hardware_does_not_depend_on_the_memory_on_the_bus():
    cfg = load_config("tiny").with_(
        batch=1, block_in=2, block_out=2, inp_buffer_bytes=256, wgt_buffer_bytes=256, acc_buffer_bytes=256
    )
    assert verilog(cfg) == verilog(as_built(cfg))
