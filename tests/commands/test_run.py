"""`lathe run`: the digits network and users' scripts."""

import json
import os
import sys

import numpy as np
import pytest
from error_checks import check_mentions
from invoked import lathe

import lathe as lt
from lathe.cycle_attribution import UNITS, cycles_by_label
from lathe.networks.digits import job as job_module
from lathe.networks.digits.job import run_digits


def run(*words):
    return lathe("run", *words)


@pytest.fixture(scope="module")
def small():
    """Three images in launches of two, so that the last launch is not full."""
    return run_digits(lt.load_config("vta"), images=3, batch=2)


def test_every_output_equals_numpy_also_in_a_launch_that_is_not_full(small):
    assert small.launches == 2
    assert small.outputs.shape == (3, 10)
    assert small.wrong_outputs == 0
    assert small.correct == int((small.expected.argmax(axis=1) == small.labels).sum())


def test_the_cycles_of_labels_and_waiting_are_those_of_the_units(small):
    result = small.first
    costs = cycles_by_label(result)
    activities = {"load": ("load",), "compute": ("gemm", "alu", "transfer"), "store": ("store",)}
    trace = result.trace
    for unit in UNITS:
        counters = result.counters.units[unit]
        busy = sum(cost.busy[activity] for cost in costs for activity in activities[unit])
        assert busy == counters.busy
        waiting = sum(cost.waiting[unit] for cost in costs)
        part = trace.of_unit(unit)
        assert waiting == int((part.stalled + part.waited).sum())
        assert 0 <= result.cycles - busy - waiting <= result.cycles - int(part.start[-1])
    assert sum(cost.instructions for cost in costs) == len(result.program.instructions)
    assert all(cycles >= 0 for cost in costs for cycles in cost.busy.values())


def test_attribution_needs_a_trace(small):
    untraced = lt.simulate(small.first.program, timing_only=True, trace=False)
    with pytest.raises(lt.TraceError):
        cycles_by_label(untraced)


def test_json_has_the_figures_and_the_trace_has_a_track_for_each_unit(tmp_path):
    result = run("--images", 2, "--batch", 2, "--json", "-o", tmp_path / "t.json")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert figures["wrong_outputs"] == 0
    assert figures["images"] == figures["batch"] == 2
    assert figures["cycles"] == figures["launch"]["cycles"] == 2 * figures["cycles_per_image"]
    assert figures["utilisation"] == figures["launch"]["gemm_operations"] / figures["cycles"]
    assert 0 < figures["efficiency"] < figures["utilisation"]  # the first convolution uses 1 of 16 lanes
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks == {"fetch", "load", "compute", "store"}
    labels = {event["args"]["label"] for event in events if event["ph"] == "X"}
    assert labels == {layer["label"] for layer in figures["layers"] if layer["instructions"]}


def test_tables_name_accuracy_equality_layers_and_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run("--images", 2, "--batch", 2).stdout
    assert (tmp_path / "lathe-run.trace.json").exists()
    for expected in (
        "Digits network on vta",
        "accuracy",
        "all equal  (20 outputs)",
        "cycles per image",
        "utilisation",
        "efficiency",
        "conv1",
        "weights (wgt)",
        "Trace of the first launch: lathe-run.trace.json",
    ):
        assert expected in text


def test_a_batch_that_is_not_given_is_no_larger_than_the_number_of_images(tmp_path):
    figures = json.loads(run("--images", 2, "--json", "-o", tmp_path / "t.json").stdout)
    assert (figures["batch"], figures["launches"]) == (2, 1)


def test_outputs_that_differ_are_reported_with_status_1(tmp_path, monkeypatch):
    right = job_module.expected_logits

    def wrong(*arguments):
        logits = right(*arguments).copy()
        logits[0, 0] ^= 1
        return logits

    monkeypatch.setattr(job_module, "expected_logits", wrong)
    result = run("--images", 1, "--batch", 1, "-o", tmp_path / "t.json")
    assert result.exit_code == 1
    assert "1 DIFFER  (10 outputs)" in result.stdout


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("--images", 361), ("number of images", "1 to 360", "not 361")),
        (("--images", 0), ("number of images", "1 to 360", "not 0")),
        (("--batch", 361), ("batch", "number of images, 360", "not 361")),
        (("--batch", 3, "--images", 2), ("batch", "number of images, 2", "not 3")),
        (("--batch", 0), ("batch", "at least 1", "not 0")),
        (("absent.py",), ("'absent.py'", "No such file or directory")),
    ],
)
def test_invalid_numbers_are_refused_and_nothing_is_written(words, mentions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    check_mentions(result.stderr, *mentions)
    assert os.listdir(tmp_path) == []


GOOD = """
import lathe as lt
import numpy as np

def build(cfg):
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.relu(A, name="B")
    return lt.build(B, [A, B], cfg)

def main(cfg):
    a = np.arange(-32, 32, dtype=np.int8).reshape(4, 16)
    result = lt.simulate(build(cfg), {"A": a})
    assert (result.outputs["B"] == np.maximum(a, 0)).all()
    print("on", cfg.name)
    return RETURNED
"""


def script(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(text)
    return path


def test_a_script_gets_the_machine_and_may_return_a_result(tmp_path):
    path = script(tmp_path, GOOD.replace("RETURNED", "result"))
    result = run(path, "-c", "tiny", "-o", tmp_path / "t.json")
    assert result.exit_code == 0
    assert result.stdout.startswith("on tiny\n")
    assert "ALU operations" in result.stdout
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_a_script_may_return_nothing(tmp_path):
    result = run(script(tmp_path, GOOD.replace("RETURNED", "None")))
    assert (result.exit_code, result.stdout) == (0, "on vta\n")


def test_json_is_all_that_a_script_puts_on_standard_output(tmp_path):
    path = script(tmp_path, GOOD.replace("RETURNED", "result"))
    result = run(path, "--json")
    assert json.loads(result.stdout)["machine"] == "vta"
    assert result.stderr == "on vta\n"


def test_a_result_of_a_script_is_shown_as_simulate_shows_it(tmp_path):
    path, program = script(tmp_path, GOOD.replace("RETURNED", "result")), tmp_path / "p.npz"
    lathe("compile", path, "-o", program)
    assert json.loads(run(path, "--json").stdout) == json.loads(
        lathe("simulate", program, "--timing-only", "--json").stdout
    )
    shown = lathe("simulate", program, "--timing-only").stdout
    assert "cycles of a launch by layer" in shown
    assert run(path).stdout == f"on vta\n\n{shown.rstrip()}\n"


def test_a_result_without_a_trace_has_a_note_instead_of_cycles_by_layer(tmp_path):
    path = script(tmp_path, FLAT.replace("timing_only=True", "timing_only=True, trace=False"))
    assert json.loads(run(path, "--json").stdout)["layers"] is None
    shown = run(path).stdout
    assert "Cycles by layer require a trace: simulate with trace=True" in shown
    assert "ALU operations" in shown


def test_json_of_a_script_needs_its_result(tmp_path):
    path = script(tmp_path, "def main(cfg): return 3")
    result = run(path, "--json")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", repr(str(path)), "lt.simulate", "main", "'result'", "--json", "not 3")


FLAT = """
import sys
import lathe as lt

if __name__ == "__main__":
    cfg = lt.load_config(sys.argv[1])
    A = lt.placeholder((4, 16), "int8", name="A")
    B = lt.relu(A, name="B")
    program = lt.build(B, [A, B], cfg)
    result = lt.simulate(program, timing_only=True)
"""


def test_a_script_without_main_runs_as_python_would_run_it(tmp_path):
    before = list(sys.argv)
    result = run(script(tmp_path, FLAT), "-c", "tiny", "--json")
    assert json.loads(result.stdout)["machine"] == "tiny"
    assert sys.argv == before
    assert str(tmp_path) not in sys.path
    compiled = lathe("compile", tmp_path / "script.py", "-c", "wide", "-o", tmp_path / "p.npz", "--json")
    assert json.loads(compiled.stdout)["machine"] == lt.Program.load(tmp_path / "p.npz").config.name == "wide"


def test_an_error_of_lathe_names_the_line_of_the_script(tmp_path):
    path = script(tmp_path, "import lathe as lt\n\ndef main(cfg):\n    lt.placeholder((0, 4))\n")
    result = run(path)
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: extent of dimension 0 of placeholder 'placeholder' must be a positive integer, not 0. "
        f"A tensor has at least one element. This came from {path}, line 4.\n",
    )


def test_an_error_of_the_script_itself_has_its_traceback(tmp_path):
    result = run(script(tmp_path, "def main(cfg):\n    return 1 // 0\n"))
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("given", ["()", "(cfg, more)"])
def test_a_function_that_takes_something_else_than_the_machine_is_refused(given, tmp_path):
    path = script(tmp_path, f"def main{given}:\n    return None\n")
    result = run(path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: Function main of the script {str(path)!r} must take one argument, the machine, not {given}. "
        "Define main(cfg), or give the function another name.\n",
    )


def test_a_script_can_import_modules_of_its_directory(tmp_path):
    (tmp_path / "beside_the_script.py").write_text("VALUE = 7\n")
    text = "import beside_the_script\ndef main(cfg):\n    print(beside_the_script.VALUE)\n"
    assert run(script(tmp_path, text)).stdout == "7\n"


def test_a_compiled_script_is_simulated_disassembled_edited_and_verified(tmp_path):
    path = script(tmp_path, GOOD.replace("RETURNED", "None"))
    program, values, outputs = tmp_path / "p.npz", tmp_path / "in.npz", tmp_path / "out.npz"
    assert "instructions:" in lathe("compile", path, "-o", program).stdout
    a = np.arange(-32, 32, dtype=np.int8).reshape(4, 16)
    np.savez(values, A=a)
    assert lathe("simulate", program, values, "-o", outputs).exit_code == 0
    with np.load(outputs) as found:
        assert np.array_equal(found["B"], np.maximum(a, 0))
    text = tmp_path / "p.asm"
    assert lathe("disasm", program, "-o", text).exit_code == 0
    text.write_text(text.read_text().replace("alu max", "alu min"))
    edited = tmp_path / "edited.npz"
    assert lathe("asm", text, "--into", program, "-o", edited).output == ""
    assert lathe("simulate", edited, values, "-o", outputs).exit_code == 0
    with np.load(outputs) as found:
        assert np.array_equal(found["B"], np.minimum(a, 0))
    assert lathe("verify", edited).exit_code == 0


def test_timing_alone_needs_no_inputs_and_gives_the_same_cycles(tmp_path):
    path = script(tmp_path, GOOD.replace("RETURNED", "None"))
    program = tmp_path / "p.npz"
    lathe("compile", path, "-o", program, "--json")
    timed = json.loads(lathe("simulate", program, "--timing-only", "--json").stdout)
    full = json.loads(lathe("simulate", program, "--random", 1, "--json").stdout)
    assert timed == full


def test_inputs_from_two_sources_are_refused(tmp_path):
    result = lathe("simulate", tmp_path / "p.npz", "--random", 1, "--timing-only")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", "INPUTS", "--random", "--timing-only", "-o", "not several")


def test_a_script_that_builds_no_program_is_an_error(tmp_path):
    path = script(tmp_path, "def build(cfg): return None")
    result = lathe("compile", path, "-o", tmp_path / "p.npz")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", repr(str(path)), "build(cfg)", "'program'", "not None", "lt.build")
    assert not (tmp_path / "p.npz").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", lt.shipped_configs())
def test_the_main_job_is_right_on_every_shipped_machine(name):
    job = run_digits(lt.load_config(name))
    assert job.wrong_outputs == 0
    assert job.correct == 356
