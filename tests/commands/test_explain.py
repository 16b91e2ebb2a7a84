"""`lathe explain`: the digits network, schedules of scripts, and invalid scripts."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from error_checks import check_mentions

import lathe as lt
from lathe.command_line import main

ROOT = Path(lt.__file__).resolve().parents[1]

PRODUCT = """
import lathe as lt

A, W = lt.placeholder((4, 64), "int8", name="A"), lt.placeholder((32, 64), "int8", name="W")
M = lt.matmul(A, W, transpose_b=True, name="M")
"""

CUT = (
    PRODUCT
    + """
schedule = lt.create_schedule(M)
schedule[schedule.cache_write(M, "acc")].split("j", factor=10)
schedule[M].split("j", factor=10)
"""
)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return CliRunner().invoke(main, ["explain", *words])


def test_the_digits_network():
    result = run("-c", "tiny", "--batch", "2")
    assert result.exit_code == 0
    assert result.stdout.startswith("on tiny: maps; ")
    values = json.loads(run("-c", "tiny", "--batch", "2", "--json").stdout)
    assert values["machine"] == "tiny"
    assert values["maps"] is True
    assert {each["asked"] for each in values["classes"]} == {"dma", "gemm", "alu"}


def test_tensors_of_a_script(tmp_path):
    (tmp_path / "s.py").write_text(
        f"{PRODUCT}\ndef schedule(cfg):\n    print('making it for', cfg.name)\n    return M\n"
    )
    result = run("s.py", "-c", "wide")
    assert result.stdout.splitlines()[:2] == ["making it for wide", "on wide: maps; 8 chunks of 5 classes"]
    result = run("s.py", "-c", "wide", "--json")
    assert json.loads(result.stdout)["maps"] is True
    assert result.stderr == "making it for wide\n"


def test_a_schedule_that_does_not_map_has_status_1(tmp_path):
    (tmp_path / "s.py").write_text(CUT.replace('M, "acc")].split("j", factor=10)', 'M, "acc")].emit_insn("i", "dma")'))
    result = run("s.py")
    assert result.exit_code == 1
    assert "REFUSED by 'dma': statement must be a copy, not a reduction by sum" in result.stdout
    assert json.loads(run("s.py", "--json").stdout)["maps"] is False


@pytest.mark.parametrize(("text", "shown"), [("x = 1", "None"), ("schedule = 3", "3"), ("schedule = []", "[]")])
def test_a_script_without_a_schedule(text, shown, tmp_path):
    (tmp_path / "s.py").write_text(text)
    result = run("s.py")
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", "'s.py'", "schedule(cfg)", "'schedule'", "lt.build", f"not have {shown}.")


def test_a_prompt_shows_the_text():
    A = lt.placeholder((16,), "int8", name="A")
    found = lt.explain(lt.relu(A, name="B"))
    assert repr(found) == str(found)


def verdicts(result):
    return re.findall(r"^on (\w+): (maps|does not map)", result.stdout, re.MULTILINE)


def test_the_first_programs_of_the_manual(tmp_path):
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    (tmp_path / "s.py").write_text("".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    result = run("s.py")
    assert result.exit_code == 0
    assert verdicts(result) == [("vta", "maps")] * 2
    values = json.loads(run("s.py", "--json").stdout)
    assert [each["maps"] for each in values] == [True, True]


@pytest.mark.parametrize(("name", "machine"), [("own_rule", "tiny"), ("convolution_by_hand", "vta")])
def test_the_examples(name, machine, tmp_path):
    shutil.copy(ROOT / "examples" / f"{name}.py", tmp_path / "s.py")
    result = run("s.py", "-c", machine)
    assert result.exit_code == 0
    assert verdicts(result) == [(machine, "maps")]


BUILT = """
import lathe as lt

N = lt.parameter("N", minimum=1)
A = lt.placeholder((N, 16), "int8", name="A")
s = lt.create_schedule(lt.compute(A.shape, lambda i, j: A[i, j] // A[i, j], name="B"))
lt.build(s, [A, *s.program], lt.load_config("tiny"), parameters={"N": 4})
"""


def test_a_build_that_is_refused_is_explained(tmp_path):
    (tmp_path / "s.py").write_text(BUILT)
    result = run("s.py")
    assert result.exit_code == 1
    assert verdicts(result) == [("tiny", "does not map")]
    check_mentions(result.stdout, "operation must be one of min, max", "by positive constants", "not floordiv")
    assert result.stderr == ""


@pytest.mark.parametrize("function", ["build", "main"])
def test_functions_of_other_commands_are_called(function, tmp_path):
    indented = BUILT.replace("\n", "\n    ").replace('lt.load_config("tiny")', "cfg")
    (tmp_path / "s.py").write_text(f"def {function}(cfg):\n    {indented.replace('// A[i, j]', '+ 1')}\n")
    result = run("s.py", "-c", "wide")
    assert (result.exit_code, verdicts(result)) == (0, [("wide", "maps")])


def test_other_errors_after_a_build_are_reported(tmp_path):
    (tmp_path / "s.py").write_text(BUILT.replace("// A[i, j]", "+ 1") + "\nlt.load_config('vta2')\n")
    result = run("s.py")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: The configuration must be one of ")


@pytest.mark.parametrize(
    ("command", "function"), [(["explain"], "schedule"), (["run"], "main"), (["compile", "-o", "p.npz"], "build")]
)
def test_a_script_that_names_its_machine_is_refused_for_another(command, function, tmp_path):
    text = BUILT.replace("// A[i, j]", "+ 1").replace("lt.build", "program = lt.build")
    (tmp_path / "s.py").write_text(text)
    result = CliRunner().invoke(main, [*command, "s.py", "-c", "vta"])
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", "script 's.py'", "-c, 'vta', not 'tiny'", "sys.argv[1]", f"{function}(cfg)")
    assert [path.name for path in tmp_path.iterdir()] == ["s.py"]
    for words in (["-c", "tiny"], []):
        assert CliRunner().invoke(main, [*command, "s.py", *words]).exit_code == 0


def test_a_script_may_change_the_machine_that_it_is_given(tmp_path):
    changed = BUILT.replace("// A[i, j]", "+ 1").replace('lt.load_config("tiny")', 'cfg.with_(**{"memory.latency": 0})')
    (tmp_path / "s.py").write_text(changed.replace("\nN =", "\nimport sys\ncfg = lt.load_config(sys.argv[1])\nN ="))
    assert CliRunner().invoke(main, ["run", "s.py", "-c", "wide"]).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["run", "s.py", "--batch", "2"],
        ["run", "s.py", "--images", "2"],
        ["compile", "s.py", "-o", "p.npz", "--batch", "2"],
        ["explain", "s.py", "--batch", "2"],
    ],
)
def test_options_of_the_digits_network_are_refused_for_a_script(words, tmp_path):
    (tmp_path / "s.py").write_text(BUILT)
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, f"Error: {words[-2]}", "script 's.py'", "not 2", "digits network")
