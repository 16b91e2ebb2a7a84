"""The RTL on the command line: engines of simulate, replay and run, waveforms, Verilog and statistics."""

import json
import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from click.testing import CliRunner
from error_checks import check_mentions
from invoked import lathe as run

import lathe as lt
from lathe import engines
from lathe.command_line import main
from lathe.networks.digits import job as job_module
from lathe.networks.digits.job import run_digits
from lathe.rtl import statistics
from lathe.sim import replay as replay_stream
from lathe.sim import simulate_program


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a program for tiny, p.npz, its inputs in.npz, and the same as a raw stream, s.npz."""
    folder = tmp_path_factory.mktemp("files")
    A, B = lt.placeholder((5, 12), "int8", name="A"), lt.placeholder((9, 12), "int8", name="B")
    D = lt.relu(lt.matmul(A, B, transpose_b=True, name="C"), name="D")
    program = lt.build(D, [A, B, D], lt.load_config("tiny"))
    program.save(folder / "p.npz")
    rng = np.random.default_rng(3)
    np.savez(
        folder / "in.npz",
        A=rng.integers(-128, 128, (5, 12), np.int8),
        B=rng.integers(-128, 128, (9, 12), np.int8),
    )
    np.savez(
        folder / "s.npz",
        insns=program.encoded,
        insn_addr=program.insn_addr,
        page_addrs=np.zeros(0, np.uint64),
        pages=np.zeros((0, 4096), np.uint8),
        tokens=np.zeros(4, np.int64),
    )
    return folder


@pytest.fixture(autouse=True)
def in_the_folder(files, monkeypatch):
    monkeypatch.chdir(files)


def refused(*words):
    """The error message of a failing command."""
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.removeprefix("Error: ").removesuffix("\n")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pysim", "verilator"])
def test_a_program_on_the_rtl_prints_and_writes_what_the_simulator_does(engine, tmp_path):
    told = {}
    for name in ("sim", engine):
        result = run("simulate", "p.npz", "in.npz", "--engine", name, "-o", tmp_path / f"{name}.npz", "--json")
        assert result.exit_code == 0
        told[name] = json.loads(result.stdout)
    assert told[engine] == told["sim"]
    with np.load(tmp_path / "sim.npz") as expected, np.load(tmp_path / f"{engine}.npz") as found:
        assert np.array_equal(found["D"], expected["D"])


def test_all_engines_agree_on_a_program():
    result = run("simulate", "p.npz", "in.npz", "--engine", "all")
    cycles = lt.simulate(lt.Program.load("p.npz"), timing_only=True).cycles
    assert result.exit_code == 0
    count = 2 * len(lt.Program.load("p.npz").instructions)
    assert result.stdout.splitlines()[-1] == (
        f"sim and verilator agree: start and end of {count} events, {cycles} cycles, memory, tokens and counters."
    )


@pytest.mark.slow
def test_engines_with_commas_are_compared_also_without_inputs():
    told = json.loads(run("simulate", "p.npz", "--timing-only", "--engine", "sim,pysim,verilator", "--json").stdout)
    assert list(told["engines"]) == ["sim", "pysim", "verilator"]
    assert (told["agree"], told["differences"]) == (True, [])
    assert {each["cycles"] for each in told["engines"].values()} == {told["cycles"]}


def test_a_raw_stream_on_the_rtl_and_on_all_engines(tmp_path):
    told = {}
    for name in ("sim", "verilator", "pysim"):
        path = tmp_path / f"{name}.npz"
        told[name] = json.loads(run("replay", "s.npz", "-c", "tiny", "--engine", name, "-o", path, "--json").stdout)
    assert told["verilator"] == told["pysim"] == told["sim"]
    with np.load(tmp_path / "sim.npz") as expected, np.load(tmp_path / "verilator.npz") as found:
        assert all(np.array_equal(found[name], expected[name]) for name in expected.files)
    result = run("replay", "s.npz", "-c", "tiny", "--engine", "all")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("sim and verilator agree: start and end of ")


def wrong_replay(config, stream, **options):
    result = replay_stream(config, stream, **options)
    return replace(result, tokens=(1, 0, 0, 0))


@pytest.mark.parametrize("words", [("simulate", "p.npz", "in.npz"), ("replay", "s.npz", "-c", "tiny")])
def test_a_difference_is_shown_with_status_1(words, monkeypatch):
    bent = engines.Engine("a bent simulator", None, wrong_replay)
    monkeypatch.setattr(engines, "ENGINES", {**engines.ENGINES, "bent": bent})
    difference = "Tokens afterwards are (0, 0, 0, 0) in sim and (1, 0, 0, 0) in bent."
    result = run(*words, "--engine", "sim,bent")
    assert result.exit_code == 1
    assert result.stdout.endswith(f"The engines DIFFER.\n{difference}\n")
    result = run(*words, "--engine", "sim,bent", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["agree"] is False
    assert json.loads(result.stdout)["differences"] == [difference]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("simulate", "p.npz", "in.npz"), ("replay", "s.npz", "-c", "tiny")])
def test_a_waveform_is_written(words, tmp_path):
    assert run(*words, "--engine", "pysim", "--wave", tmp_path / "w.vcd").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["w.vcd"]
    assert "m_axi_araddr" in (tmp_path / "w.vcd").read_text()


@pytest.mark.parametrize("words", [("simulate", "p.npz", "in.npz"), ("replay", "s.npz", "-c", "tiny")])
def test_a_waveform_of_the_cycle_model_is_refused(words):
    check_mentions(refused(*words, "--wave", "w.vcd"), "engine 'sim'", "'w.vcd'", "'pysim' or 'verilator'")


def test_the_digits_network_runs_on_the_rtl_like_on_the_simulator(monkeypatch):
    """With a mock engine: tests the output of the comparison, not the RTL."""
    monkeypatch.setitem(dict_of_engines(monkeypatch), "pysim", engines.Engine("a stand-in", simulate_program, None))
    result = run("run", "--images", 2, "--batch", 2, "--engine", "pysim", "-o", "t.json")
    assert result.exit_code == 0
    cycles = run_digits(lt.load_config("vta"), images=2, batch=2).first.cycles
    grouped = f"{cycles:,}".replace(",", " ")
    assert f"compared with sim    all equal  (20 outputs, {grouped} cycles, each instruction)" in result.stdout
    assert "(a stand-in)" in result.stdout
    told = json.loads(run("run", "--images", 2, "--batch", 2, "--engine", "pysim", "-o", "t.json", "--json").stdout)
    assert (told["engine"], told["equals_sim"], told["differences"]) == ("pysim", True, [])


def dict_of_engines(monkeypatch):
    """The engines, in a copy that may be changed."""
    copy = dict(engines.ENGINES)
    monkeypatch.setattr(engines, "ENGINES", copy)
    return copy


def test_the_digits_network_prints_differences_with_status_1(monkeypatch):
    def wrong(program, inputs, **options):
        result = simulate_program(program, inputs, **options)
        return replace(result, tokens=(0, 2, 0, 0))

    monkeypatch.setitem(dict_of_engines(monkeypatch), "pysim", engines.Engine("a stand-in", wrong, None))
    result = run("run", "--images", 1, "--batch", 1, "--engine", "pysim", "-o", "t.json")
    assert result.exit_code == 1
    assert "compared with sim    DIFFERENT, see below  (10 outputs" in result.stdout
    assert "\nTokens afterwards are (0, 0, 0, 0) in sim and (0, 2, 0, 0) in pysim.\n" in result.stdout


@pytest.mark.slow
def test_the_digits_network_on_the_verilated_machine():
    job = job_module.run_digits(lt.load_config("vta"), engine="verilator")
    assert job.differences == ()
    assert job.wrong_outputs == 0
    assert job.correct == 356


def test_an_engine_for_a_script_is_refused():
    message = refused("run", "script.py", "--engine", "verilator")
    check_mentions(message, "--engine", "script 'script.py'", "not 'verilator'", "lt.simulate")


def test_an_unknown_engine_among_several():
    assert refused("simulate", "p.npz", "in.npz", "--engine", "sim,verilog") == (
        "The engine must be one of sim, pysim, verilator, all, not 'verilog'. Did you mean 'verilator'?"
    )
    assert refused("run", "--engine", "all") == (
        "The engine must be one of sim, pysim, verilator, not 'all'. Choose one of these."
    )


@pytest.mark.slow
def test_verilog_of_a_machine_has_its_top_module_and_its_ports(tmp_path):
    path = tmp_path / "tiny.v"
    result = run("rtl", "verilog", "-c", "tiny", "-o", path)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{path}: module lathe for tiny, ")
    (header,) = re.findall(r"^module lathe\((.*?)\);", path.read_text(), re.DOTALL | re.MULTILINE)
    ports = [port.strip() for port in header.split(",")]
    assert {"clk", "rst", "interrupt", "m_axi_araddr", "m_axi_wdata", "s_axi_awaddr", "s_axi_rdata"} <= set(ports)


@pytest.fixture(scope="module", autouse=True)
def one_analysis():
    """Yosys analyses a machine once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "statistics", lru_cache(statistics.statistics))
        yield


@pytest.fixture(scope="module")
def tiny_statistics():
    return json.loads(run("rtl", "stats", "-c", "tiny", "--json").stdout)


@pytest.mark.slow
def test_statistics_hold_the_matrix_core_and_the_scratchpads(tiny_statistics):
    tiny = lt.load_config("tiny")
    modules = {module["path"]: module for module in tiny_statistics["modules"]}
    assert tiny_statistics["machine"] == "tiny"
    factors = f"{tiny.inp_bits}x{tiny.wgt_bits}"
    assert tiny_statistics["multipliers_of"][factors] == tiny.batch * tiny.block_in * tiny.block_out
    assert modules["lathe.inp"]["memory_bits"] == 8 * tiny.inp_buffer_bytes
    assert modules["lathe.wgt"]["memory_bits"] == 8 * tiny.wgt_buffer_bytes
    out_bytes = tiny.acc_buffer_bytes * tiny.out_bits // tiny.acc_bits
    assert modules["lathe.compute.acc"]["memory_bits"] == 8 * (tiny.acc_buffer_bytes + out_bytes)


@pytest.mark.slow
def test_statistics_of_a_module_are_its_own_and_those_of_all_within(tiny_statistics):
    modules = {module["path"]: module for module in tiny_statistics["modules"]}
    for number in ("cells", "flip_flops", "memory_bits", "multipliers"):
        assert tiny_statistics[number] == sum(module["own"][number] for module in modules.values()) > 0
        children = [module for path, module in modules.items() if path.rpartition(".")[0] == "lathe.compute"]
        own = modules["lathe.compute"]["own"][number]
        assert modules["lathe.compute"][number] == own + sum(child[number] for child in children)


@pytest.mark.slow
def test_statistics_as_a_table():
    lines = run("rtl", "stats", "-c", "tiny").stdout.splitlines()
    assert lines[0].strip() == "Hardware of tiny"
    assert lines[1].split() == ["module", "factors", "cells", "flip-flops", "memory", "bits", "multipliers"]
    assert {"lathe", "fetch", "load", "compute", "store", "control", "inp", "wgt"} <= {
        line.split()[0] for line in lines[2:] if not line.startswith(" ")
    }


@pytest.mark.parametrize("words", [("verilog", "-o", "odd.v"), ("stats",), ("stats", "--json")])
def test_a_machine_that_cannot_be_built_is_refused_with_the_reason(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = lt.load_config("tiny").to_dict()
    odd["name"], odd["timing"]["response_latency"] = "odd", 0
    (tmp_path / "odd.yaml").write_text(json.dumps(odd))
    message = refused("rtl", *words, "-c", "odd.yaml")
    check_mentions(message, "timing.response_latency", "'odd'", "at least 1", "not 0")
    assert [path.name for path in tmp_path.iterdir()] == ["odd.yaml"]


@pytest.mark.parametrize("words", [("verilog", "-o", "short.v"), ("stats",)])
def test_a_machine_whose_pipeline_is_too_short_is_refused_with_the_reason(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = lt.load_config("tiny").to_dict()
    short["name"], short["timing"]["gemm_pipeline"], short["timing"]["alu_pipeline"] = "short", 2, 1
    (tmp_path / "short.yaml").write_text(json.dumps(short))
    message = refused("rtl", *words, "-c", "short.yaml")
    check_mentions(message, "timing.gemm_pipeline", "timing.alu_pipeline", "'short'", "at least 3", "not 2")
    assert [path.name for path in tmp_path.iterdir()] == ["short.yaml"]


def test_unwritable_verilog_file():
    check_mentions(refused("rtl", "verilog", "-c", "tiny", "-o", "missing/t.v"), "output file 'missing/t.v")


@pytest.mark.parametrize(
    ("words", "task"),
    [(["rtl", "verilog", "-o", "machine.v"], "as Verilog"), (["rtl", "stats"], "count the hardware")],
)
def test_without_yosys_the_commands_say_what_to_install(words, task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "javascript")  # which there is none of
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, task, "Yosys", "pip install 'lathe-npu[rtl]'")
    assert list(tmp_path.iterdir()) == []
