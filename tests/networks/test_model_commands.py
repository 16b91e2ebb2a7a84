"""`lathe compile`, `simulate`, `explain`, `verify` and `disasm` of models and of networks in files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from error_checks import check_mentions
from invoked import lathe
from networks_checking import LATHE16, random_inputs
from qdq_models import QdqModel

import lathe as lt
from lathe.configs.extensions import PURPOSES
from lathe.isa import Gemm


def good(*words):
    result = lathe(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words):
    result = lathe(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split()).removeprefix("Error: ")


def two_streams():
    graph = QdqModel(seed=1)
    first = graph.conv(graph.input(1, 3, 8, 8), 12, relu=True, name="first", pads=[1, 1, 1, 1])
    between = graph.quantised(graph.node("Softmax", first, name="between", axis=1), 1 / 128, 0)
    graph.shapes[between] = graph.shapes[first]
    return graph.model(graph.node("Softmax", graph.conv(between, 4, name="second"), name="last", axis=1))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    path.write_bytes(two_streams().SerializeToString())
    return path


@pytest.fixture(scope="module")
def saved(model):
    path = model.with_suffix(".npz")
    good("compile", model, "-c", "lathe16", "-o", path)
    return path


def test_compile_writes_the_network(model, saved, tmp_path):
    inputs = random_inputs(two_streams())
    again = lt.simulate(lt.NetworkProgram.load(saved), inputs)
    made = lt.simulate(lt.from_onnx(model).build(LATHE16), inputs)
    assert again.cycles == made.cycles
    text = good("compile", model, "-c", "lathe16", "-o", tmp_path / "n.npz", "--check")
    for word in ("first", "stream 1", "second", "stream 2", "Softmax is computed in float", "8 load"):
        assert word in text
    told = json.loads(good("compile", model, "-c", "lathe16", "-o", tmp_path / "n.npz", "--json"))
    assert [each["stream"] for each in told["layers"] if each["where"] == "npu"] == [1, 2]
    gemms = [sum(isinstance(each, Gemm) for each in part.instructions) for part in lt.NetworkProgram.load(saved).parts]
    assert [each["instructions"]["gemm"] for each in told["streams"]] == gemms
    assert told["streams"][0]["bytes"]["input"] == 8 * 8 * 16


def test_simulate_a_file_and_a_model(model, saved, tmp_path):
    inputs = random_inputs(two_streams(), seed=4)
    np.savez(tmp_path / "in.npz", **inputs)
    output, trace = tmp_path / "out.npz", tmp_path / "trace.json"
    text = good("simulate", saved, tmp_path / "in.npz", "-o", output, "--trace", trace)
    result = lt.simulate(lt.NetworkProgram.load(saved), inputs)
    for word in (
        "model.npz on lathe16",
        "first",
        "between",
        "Softmax",
        "GEMM operations",
        "bus beats",
    ):
        assert word in text
    with np.load(output) as found:
        assert {*found} == {*result.outputs}
        assert all(np.array_equal(found[name], values) for name, values in result.outputs.items())
    told = json.loads(good("simulate", model, "-c", "lathe16", "--random", 4, "--json"))
    assert told["cycles"] == result.cycles == sum(each["cycles"] for each in told["streams"])
    assert told["layers"] == [vars(row) for row in result.layers]
    timed = json.loads(good("simulate", saved, "--timing-only", "--json"))
    assert timed["cycles"] == result.cycles


def test_the_trace_has_the_streams_in_sequence(saved, tmp_path):
    good("simulate", saved, "--random", 0, "--trace", tmp_path / "t.json")
    events = [each for each in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if each["ph"] == "X"]
    result = lt.simulate(lt.NetworkProgram.load(saved), random_inputs(two_streams()))
    first, second = result.results
    assert {each["args"]["label"] for each in events} == {"first", "second"}
    assert len(events) == len(first.trace) + len(second.trace)
    ends = {name: [each["args"] for each in events if each["args"]["label"] == name] for name in ("first", "second")}
    assert max(each["end"] for each in ends["first"]) < first.cycles <= min(each["start"] for each in ends["second"])
    assert max(each["end"] for each in ends["second"]) < result.cycles
    assert min(each["instruction"] for each in ends["second"]) == len(first.program.instructions)


def test_counters_of_several_launches(saved):
    result = lt.simulate(lt.NetworkProgram.load(saved), timing_only=True)
    first, second = (each.counters for each in result.results)
    both = result.counters
    assert both.cycles == result.cycles
    assert both.gemm_operations == first.gemm_operations + second.gemm_operations
    assert both.bytes_read["wgt"] == first.bytes_read["wgt"] + second.bytes_read["wgt"]
    for unit, each in both.units.items():
        assert each.busy + sum(each.stalls.values()) == both.cycles
        assert each.instructions == first.units[unit].instructions + second.units[unit].instructions


@pytest.mark.slow
def test_engines_are_compared(saved):
    text = good("simulate", saved, "--timing-only", "--engine", "sim,pysim")
    assert "sim and pysim agree in 2 streams: start and end of " in text
    told = json.loads(good("simulate", saved, "--random", 1, "--engine", "sim,pysim", "--json"))
    assert told["agree"] is True
    assert told["differences"] == []
    assert {each["cycles"] for each in told["engines"].values()} == {told["cycles"]}


def test_engines_that_differ(saved, monkeypatch):
    import lathe.networks.cosimulation as cosimulation

    def differing(program, inputs, *, engines):
        result = lt.simulate(program, inputs)  # all engines: building the RTL of lathe16 takes long
        return lt.Cosimulation(dict.fromkeys(engines, result), ("They differ.",))

    monkeypatch.setattr(cosimulation, "cosimulate", differing)
    result = lathe("simulate", saved, "--timing-only", "--engine", "sim,pysim")
    assert result.exit_code == 1
    assert result.stdout.endswith("The engines DIFFER.\nStream 1: They differ.\nStream 2: They differ.\n")


def test_explain_tells_of_each_layer(model):
    text = good("explain", model, "-c", "lathe16")
    lines = text.splitlines()
    assert lines[0] == "model.onnx on lathe16: 2 layers on the NPU in 2 streams, 6 nodes on the host"
    assert "between: on the host; Softmax is computed in float" in lines
    rows = {row.name: row for row in lt.simulate(lt.from_onnx(model).build(LATHE16), timing_only=True).layers}
    first = lines.index(f"first: stream 1; at least {rows['first'].bound} cycles, bound by memory")
    second = next(n for n, line in enumerate(lines) if line.startswith("stream 2: maps; "))
    assert any("gemm, " in line for line in lines[first:second])
    told = json.loads(good("explain", model, "-c", "lathe16", "--json"))
    assert told["maps"] is True
    layers = {each["name"]: each for each in told["layers"]}
    assert all(layers[name]["bound"] == row.bound and layers[name]["why"] == row.why for name, row in rows.items())
    assert layers["second"]["limit"] == "memory"
    for number, stream in enumerate(told["streams"], 1):
        stages = [stage for each in told["layers"] if each["stream"] == number for stage in each["stages"]]
        assert sorted(stages) == sorted({each["stage"] for each in stream["classes"]})


def test_explain_tells_why_layers_make_use_of_extensions(model):
    lines = good("explain", model, "-c", "lathe16").splitlines()
    assert f"rescale in first, second: {PURPOSES['rescale']}" in lines
    assert f"gemm_begin in first, second: {PURPOSES['gemm_begin']}" in lines
    assert not any(line.startswith("lookup in ") for line in lines)


def test_a_machine_without_the_extensions_leaves_all_to_the_host(model):
    text = good("explain", model, "-c", "tiny")
    assert "first: on the host; machine 'tiny' has no extension 'rescale'" in text
    assert "nothing on the NPU" in good("simulate", model, "-c", "tiny", "--random", 0)


def test_verify_and_disasm(saved, tmp_path):
    count = sum(len(part.instructions) for part in lt.NetworkProgram.load(saved).parts)
    assert good("verify", saved) == f"no findings in {count} instructions of 2 streams\n"
    assert json.loads(good("verify", saved, "--json")) == {"instructions": count, "streams": 2, "findings": []}
    text = good("disasm", saved, "-c", "lathe16")
    for line in (
        "; network 'model.onnx' for machine 'lathe16'",
        "; input x: float32 [1, 3, 8, 8]",
        "; stream 2: second",
        "; on the host: between; Softmax is computed in float",
    ):
        assert line in text.splitlines()
    part = lt.NetworkProgram.load(saved).parts[1]
    assert good("disasm", saved, "--stream", 2) == lt.isa.disassemble_program(part)
    (tmp_path / "second.asm").write_text(good("disasm", saved, "--stream", 2))
    part.save(tmp_path / "second.npz")
    good("asm", tmp_path / "second.asm", "--into", tmp_path / "second.npz", "-o", tmp_path / "again.npz")
    assert np.array_equal(lt.Program.load(tmp_path / "again.npz").encoded, part.encoded)


def test_verify_tells_in_which_stream(saved, tmp_path):
    network = lt.NetworkProgram.load(saved)
    steps = list(network.steps)
    (at,) = (n for n, step in enumerate(steps) if getattr(step, "program", None) is network.parts[1])
    part = network.parts[1]
    without = [each for each in part.instructions if not isinstance(each, lt.Store)]
    labels = part.label_of[[not isinstance(each, lt.Store) for each in part.instructions]]
    broken = replace(part, instructions=tuple(without), label_of=labels)
    steps[at] = replace(steps[at], program=broken)
    replace(network, steps=tuple(steps)).save(tmp_path / "broken.npz")
    result = lathe("verify", tmp_path / "broken.npz")
    assert result.exit_code == 1
    assert result.stdout.startswith("stream 2: ")


def test_invalid_options(model, saved, tmp_path):
    (tmp_path / "script.py").write_text("")
    script, output = tmp_path / "script.py", tmp_path / "o.npz"
    no_model = ("must be left out", "MODEL.onnx")
    mentions = {
        ("compile", script, "--shape", "x=1", "-o", output): ("--shape", *no_model, "not ('x=1',)"),
        ("compile", model, "--batch", 3, "-o", output): ("--batch", str(model), "not 3", "digits network"),
        ("compile", model, "--shape", "z=1", "-o", output): ("'model.onnx'", "inputs (x)", "'z'"),
        ("explain", script, "--shape", "x=1"): ("--shape", *no_model, "not ('x=1',)"),
        ("explain", model, "--shape", "x"): ("--shape", "x=1,3,48,192", "not 'x'"),
        ("simulate", saved, "-c", "lathe16", "--random", 1): ("-c", *no_model, "not 'lathe16'"),
        ("simulate", saved, "--shape", "x=1", "--random", 1): ("--shape", *no_model, "not ('x=1',)"),
        ("simulate", saved): ("'model.onnx' (x)", "INPUTS.npz", "--random", "--timing-only"),
        ("simulate", saved, "--random", 1, "--engine", "pysim", "--wave", tmp_path / "w.vcd"): (
            "--wave", "network", f"not {str(tmp_path / 'w.vcd')!r}", "program.parts",
        ),
        ("verify", saved, "-c", "vta"): (str(saved), "'lathe16'", "not 'vta'", "Leave out -c"),
        ("disasm", saved, "--stream", 3): ("--stream", "from 1 to 2", "'model.onnx'", "not 3"),
        ("disasm", model, "--stream", 1): ("--stream", "network", str(model), "not 1"),
    }  # fmt: skip
    for words, expected in mentions.items():
        check_mentions(refused(*words), *expected)
    assert not output.exists()


def test_compile_does_not_write_over_what_it_reads(model, tmp_path):
    path, link = tmp_path / "own.onnx", tmp_path / "link.npz"
    path.write_bytes(model.read_bytes())
    link.symlink_to(path)
    for output in (path, link):
        message = refused("compile", path, "-c", "lathe16", "-o", output)
        check_mentions(message, "output of `lathe compile`", "input file", str(path))
    assert path.read_bytes() == model.read_bytes()
