"""`lathe explain`: the digits network, schedules of scripts, and what is none."""

import json

import pytest
from click.testing import CliRunner

import lathe as lt
from lathe.command_line import main

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
    assert result.stderr == (
        "Error: The script 's.py' must return a schedule or tensors from schedule(cfg), or have them in its variable "
        f"'schedule', not {shown}. A schedule is what lt.create_schedule returns.\n"
    )


def test_a_prompt_shows_the_text():
    A = lt.placeholder((16,), "int8", name="A")
    found = lt.explain(lt.relu(A, name="B"))
    assert repr(found) == str(found)
