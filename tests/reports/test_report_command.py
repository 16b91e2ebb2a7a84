"""`lathe report`: its inputs, and errors, which write nothing."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from drawn_runs import SCRIPT, program_of_script
from error_checks import check_mentions

import lathe as lt
from lathe.command_line import main
from lathe.configs.archives import read_arrays
from lathe.networks.program import NetworkProgram
from lathe.reports.result_file import FORM, read_result, write_result


@pytest.fixture(scope="module")
def program():
    return program_of_script()


def refused(tmp_path, *words):
    before = sorted(each.name for each in tmp_path.iterdir())
    done = CliRunner().invoke(main, ["report", *map(str, words), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("Error: ").removesuffix("\n")


def written(tmp_path, *words):
    page = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["report", *map(str, words), "-o", str(page)])
    assert (done.exit_code, done.stdout) == (0, "")
    return page.read_text()


def data(text, name):
    begin = text.index(f'id="data-{name}">') + len(f'id="data-{name}">')
    return json.loads(text[begin : text.index("</script>", begin)])


def test_a_saved_program_and_the_result_of_its_run_make_the_same_page(tmp_path, program):
    (tmp_path / "one").mkdir()
    path, kept = tmp_path / "x.npz", tmp_path / "one" / "x.npz"
    program.save(path)
    done = CliRunner().invoke(main, ["simulate", str(path), "--timing-only", "--result", str(kept)])
    assert done.exit_code == 0
    assert written(tmp_path, path) == written(tmp_path, kept)


@pytest.mark.parametrize("name", ["x.npz", "page.txt", "page"])
def test_files_that_are_no_pages_are_not_overwritten(tmp_path, program, name):
    program.save(tmp_path / "x.npz")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    done = CliRunner().invoke(main, ["report", str(tmp_path / "x.npz"), "-o", str(tmp_path / name)])
    assert (done.exit_code, done.stdout) == (2, "")
    check_mentions(done.stderr, "Error: The page of a report", ".html, .htm", f"not {str(tmp_path / name)!r}", "-o")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_result_is_read_unchanged(tmp_path, program):
    result = lt.simulate(program, timing_only=True)
    write_result(tmp_path / "r.npz", program, [result])
    ran, (found,) = read_result(tmp_path / "r.npz")
    assert ran.instructions == program.instructions
    assert (found.cycles, found.tokens, found.counters) == (result.cycles, result.tokens, result.counters)
    assert lt.cycles_by_label(found) == lt.cycles_by_label(result)
    for name in ("unit", "instruction", "start", "end", "cause", "stalled", "waited"):
        assert getattr(found.trace, name).tolist() == getattr(result.trace, name).tolist()


def test_a_script_a_run_of_it_and_its_result(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(SCRIPT + "\ndef main(cfg):\n    return lt.simulate(build(cfg), timing_only=True)\n")
    text = written(tmp_path, script, "-c", "wide")
    assert [each["name"] for each in data(text, "levels")["launches"][0]["levels"]][-1] == "instructions"
    done = CliRunner().invoke(main, ["run", str(script), "--result", str(tmp_path / "r.npz")])
    assert done.exit_code == 0
    ran, (result,) = read_result(tmp_path / "r.npz")
    assert data(written(tmp_path, tmp_path / "r.npz"), "run")["cycles"] == result.cycles
    assert ran.config.name == "vta"


def test_all_builds_of_a_script_for_one_machine_are_shown(tmp_path):
    script = tmp_path / "s.py"
    more = 'for name in ("wide", "vta", "vta"):\n    made(lt.load_config(name))\n'
    script.write_text(SCRIPT.replace("def build", "def made") + more)
    run = data(written(tmp_path, script), "run")
    assert [each["name"] for each in run["layers"]] == ["0: D", "1: D"]
    told = refused(tmp_path, script, "-c", "lathe16")
    assert told.startswith(f"The machine of the script {str(script)!r} must be the one of -c, 'lathe16', not ")


def test_a_script_may_end_with_an_exit(tmp_path):
    script = tmp_path / "s.py"
    ending = 'import sys\nif __name__ == "__main__":\n    made(lt.load_config(sys.argv[1]))\n    sys.exit({})\n'
    text = SCRIPT.replace("def build", "def made") + ending
    for code in ("", "0"):
        script.write_text(text.format(code))
        assert [each["name"] for each in data(written(tmp_path, script), "run")["layers"]] == ["D"]
        (tmp_path / "page.html").unlink()
    script.write_text("import sys\nsys.exit()\n")
    assert refused(tmp_path, script).startswith(f"The script {str(script)!r} must build a program with lt.build")
    script.write_text(text.format(3))
    done = CliRunner().invoke(main, ["report", str(script), "-o", str(tmp_path / "page.html")])
    assert (done.exit_code, (tmp_path / "page.html").exists()) == (3, False)


@pytest.mark.slow
def test_a_model_has_its_layers_and_nodes_of_the_host_and_its_schedules(tmp_path, digits_onnx):
    text = written(tmp_path, digits_onnx, "-c", "lathe16")
    layers = data(text, "run")["layers"]
    assert [each["where"] for each in layers] == ["host", *["npu"] * 5, "host"]
    assert sum(each["cycles"] for each in layers) == data(text, "run")["cycles"]
    assert len(data(text, "levels")["launches"]) == 1
    network = lt.from_onnx(digits_onnx).build(lt.load_config("lathe16"), cache=False)
    rows = lt.simulate(network, timing_only=True).layers
    assert [(each["name"], each["cycles"], each["bound"], each["bytes"]) for each in layers] == [
        (row.name, row.cycles, row.bound, row.bytes) for row in rows
    ]
    network.save(tmp_path / "n.npz")
    assert data(written(tmp_path, tmp_path / "n.npz"), "run")["layers"] == layers
    kept = ["simulate", str(tmp_path / "n.npz"), "--timing-only", "--result", str(tmp_path / "r.npz")]
    assert CliRunner().invoke(main, kept).exit_code == 0
    assert isinstance(read_result(tmp_path / "r.npz")[0], NetworkProgram)
    assert data(written(tmp_path, tmp_path / "r.npz"), "run")["layers"] == layers


def test_foreign_and_missing_files_are_refused(tmp_path):
    (tmp_path / "x.txt").write_text("nothing")
    check_mentions(refused(tmp_path, tmp_path / "x.txt"), repr(str(tmp_path / "x.txt")), "none of these")
    check_mentions(refused(tmp_path, tmp_path / "no.npz"), repr(str(tmp_path / "no.npz")), "No such file or directory")
    (tmp_path / "empty.py").write_text("x = 1\n")
    mentions = (repr(str(tmp_path / "empty.py")), "lt.build", "schedule", "lt.simulate")
    check_mentions(refused(tmp_path, tmp_path / "empty.py"), *mentions)
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    assert "must be a program saved by Lathe" in refused(tmp_path, tmp_path / "other.npz")


def test_the_error_of_a_trace_suggests_a_result(tmp_path, program):
    lt.simulate(program, timing_only=True).write_chrome_trace(tmp_path / "t.json")
    message = refused(tmp_path, tmp_path / "t.json")
    check_mentions(message, repr(str(tmp_path / "t.json")), "a trace for Perfetto", "--result", "`lathe simulate`")


def test_a_machine_is_only_for_files_that_are_compiled(tmp_path, program):
    program.save(tmp_path / "p.npz")
    message = refused(tmp_path, tmp_path / "p.npz", "-c", "tiny")
    check_mentions(message, "-c", repr(str(tmp_path / "p.npz")), "not 'tiny'", "it includes its machine")


def test_damaged_and_later_results_are_refused(tmp_path, program):
    path = tmp_path / "r.npz"
    write_result(path, program, [lt.simulate(program, timing_only=True)])
    arrays = read_arrays(path)
    damaged = (repr(str(path)), "must be a result", "`lathe simulate --result`", "damaged")
    header = json.loads(arrays[FORM.key].tobytes())
    changes = [
        {"start0": arrays["start0"][1:]},
        {"instruction0": arrays["instruction0"] * 0},
        {"program": arrays["program"][:200]},
        {FORM.key: np.frombuffer(b"{}", np.uint8)},
        {FORM.key: np.frombuffer(b"[" * 100_000, np.uint8)},
        {FORM.key: np.frombuffer(json.dumps({**header, "launches": []}).encode(), np.uint8)},
    ]
    for change in changes:
        np.savez(path, **{**arrays, **change})
        check_mentions(refused(tmp_path, path), *damaged)
    np.savez(path, **{**arrays, FORM.key: np.frombuffer(json.dumps({**header, "version": 2}).encode(), np.uint8)})
    assert refused(tmp_path, path) == (
        f"The version of result file {str(path)!r} must be 1, not 2. Write it again with this version of Lathe."
    )


def test_every_truncation_of_a_result_is_refused_in_one_line(tmp_path, program):
    path = tmp_path / "r.npz"
    write_result(path, program, [lt.simulate(program, timing_only=True)])
    content = path.read_bytes()
    for size in range(2, len(content), len(content) // 12):
        path.write_bytes(content[:size])
        refused(tmp_path, path)


def test_a_schedule_that_a_script_returns_is_built(tmp_path):
    script = tmp_path / "s.py"
    returned = SCRIPT.replace("return lt.build(s, [A, B, D], cfg)", "return s")
    script.write_text(returned.replace("def build", "def schedule"))
    found = data(written(tmp_path, script, "-c", "wide"), "levels")
    assert [each["name"] for each in found["stages"]] == ["A", "B", "C", "D", "A.inp", "B.wgt", "D.acc"]


def test_the_streams_of_a_network_that_a_script_runs_are_shown(tmp_path, digits_onnx):
    script = tmp_path / "s.py"
    script.write_text(
        "import lathe as lt\n"
        "def main(cfg):\n"
        f"    return lt.simulate(lt.from_onnx({str(digits_onnx)!r}).build(cfg), timing_only=True)\n"
    )
    text = written(tmp_path, script, "-c", "lathe16")
    assert len(data(text, "levels")["launches"]) == len(data(text, "run")["streams"]) > 0
    assert data(text, "run")["cycles"] == sum(each["cycles"] for each in data(text, "run")["layers"])
