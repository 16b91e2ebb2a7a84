"""What the README shows does what it says."""

import re
from pathlib import Path

import numpy as np
import yaml
from click.testing import CliRunner

import lathe
from lathe.command_line import main
from lathe.sweeps.reading import read_sweep
from lathe.sweeps.workloads import known_workloads

ROOT = Path(lathe.__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_first_program_and_its_schedule_run_and_agree(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{names['result'].cycles} cycles, {60 * 6 * 4} GEMM operations\n")
    assert (tmp_path / "first.trace.json").exists()
    assert np.array_equal(names["by_hand"].outputs["D"], names["result"].outputs["D"])


def test_the_sweep_is_one(tmp_path):
    (text,) = blocks("yaml")
    assert set(yaml.safe_load(text)) == {"base", "machine", "workloads"}
    (tmp_path / "sweep.yaml").write_text(text)
    assert len(read_sweep(tmp_path / "sweep.yaml", known_workloads()).points()) == 3 * 2 * 2


def test_every_command_has_its_row():
    table = README.split("## The command line")[1].split("`lathe COMMAND --help`")[0]
    assert set(re.findall(r"`lathe (\w+)", table)) == set(main.commands)


def test_every_room_and_file_that_is_named_exists():
    named = set(re.findall(r"`([\w/.]+/(?:[\w.]+\.(?:py|md|yaml))?)`", README))
    assert len(named) > 15
    for path in named:
        assert (ROOT / path).exists(), path


def words_of(line):
    """A line without its numbers, which change whenever the compiler gets better."""
    return " ".join(re.sub(r"[\d.]+", "", line).split())


def test_the_main_job_prints_what_is_shown(tmp_path):
    printed = CliRunner(env={"COLUMNS": "160"}).invoke(main, ["run", "-o", str(tmp_path / "t.json")]).stdout
    shown = README.split("    Digits network on vta\n")[1].split("\n\nand writes a trace")[0]
    lines = [words_of(line) for line in shown.splitlines() if line.strip() != "..."]
    told = {words_of(line) for line in printed.splitlines()}
    assert [line for line in lines if line not in told] == []
