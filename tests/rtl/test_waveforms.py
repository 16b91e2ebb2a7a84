"""The signals that a waveform contains, and those that it omits."""

import re

import numpy as np
import pytest

import lathe as lt
from lathe.rtl.engines.waveform import LANES, ShownChanges, widest, without_lanes
from lathe.rtl.verilog import verilog

VTA = lt.load_config("vta")


def parsed(text):
    """Signals of a VCD as (scope, name) to (width, key), and the keys that change."""
    scopes, signals = [], {}
    header, body = text.split("$enddefinitions $end", 1)
    for line in header.splitlines():
        words = line.split()
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            signals[tuple(scopes), words[4]] = int(words[2]), words[3]
    changes = re.findall(r"^(?:[brs]\S+ |[01xz])(\S+)$", body, re.MULTILINE)
    return signals, changes


def simulated(tmp_path, engine):
    """The waveform of a small program on vta, parsed."""
    A = lt.placeholder((1, 16), "int8", name="A")
    B = lt.relu(A, name="B")
    program = lt.build(B, [A, B], VTA)
    wave = tmp_path / "w.vcd"
    lt.simulate(program, {"A": np.ones((1, 16), np.int8)}, engine=engine, wave=wave)
    return parsed(wave.read_text())


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pysim", pytest.param("verilator", marks=pytest.mark.slow)])
def test_control_is_shown_and_wide_words_and_lanes_are_not(engine, tmp_path):
    signals, changes = simulated(tmp_path, engine)
    names = {name for _, name in signals}
    shown = {"m_axi_araddr", "m_axi_wdata", "trace_compute_start", "src_index", "r_valid"}
    assert shown <= {re.split(r"[$\[]", name)[0] for name in names}
    assert max(width for width, _ in signals.values()) <= widest(VTA) == 128
    assert not [name for name in names if "memory[" in name]
    assert not [scope for scope, _ in signals if set(scope) & set(LANES)]
    assert set(changes) <= {key for _, key in signals.values()}
    assert changes


VCD = """$comment made by hand $end
$scope module top $end
$var wire 129 a wide $end
$var wire 128 b narrow $end
$var wire 8 c \\memory[3] $end
$var wire 1 d twice $end
$scope module core $end
$var wire 8 e lane $end
$var wire 1 d twice $end
$upscope $end
$var wire 8 f after $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
b0 a
b0 b
b0 c
0d
b0 e
sword f
$end
#5
1d
b101 e
b11 a
b111 f
"""


def test_a_file_is_filtered_whatever_the_size_of_its_pieces(tmp_path):
    for size in (1, 7, 10_000):
        file = ShownChanges(tmp_path / "w.vcd", VTA)
        for start in range(0, len(VCD), size):
            file.write(VCD[start : start + size])
        file.close()
        text = (tmp_path / "w.vcd").read_text()
        signals, changes = parsed(text)
        assert list(signals) == [(("top",), "narrow"), (("top",), "twice"), (("top",), "after")]
        assert changes == ["b", "d", "f", "d", "f"]
        assert text.endswith("sword f\n$end\n#5\n1d\nb111 f\n")


def test_a_wide_bus_is_shown():
    assert widest(VTA.with_(**{"memory.bus_bits": 512})) == 512


@pytest.mark.slow
def test_both_lane_modules_are_left_out_of_verilators_waveforms():
    text = without_lanes(verilog(lt.load_config("tiny")))
    module = r"/\*verilator tracing_off\*/\nmodule (\S+) .*?\nendmodule\n/\*verilator tracing_on\*/"
    parts = re.findall(module, text, re.DOTALL)
    assert [part.rpartition(".")[2] for part in parts] == list(LANES)
    assert text.count("tracing_off") == text.count("tracing_on") == 2
