"""The README, and the pages with its former content, are correct."""

import re

import numpy as np
import yaml
from blocks import DOCS, ROOT, blocks_of

from lathe.command_line import main
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.workloads import known_workloads

README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (DOCS / "getting-started.md").read_text(encoding="utf-8")
SWEEPS = (DOCS / "design-space-exploration.md").read_text(encoding="utf-8")


def run_python(page):
    names = {}
    for block in blocks_of(page):
        if block.kind == "python":
            exec(compile(block.text, "page", "exec"), names)
    return names


def test_the_readme_is_one_screen():
    assert len(README.splitlines()) <= 60
    assert len(blocks_of(README)) == 3  # two commands, one program


def test_the_program_of_the_readme_runs_and_agrees(capsys):
    names = run_python(README)
    assert capsys.readouterr().out == f"{names['result'].cycles} cycles, {60 * 6 * 4} GEMM operations\n"


def test_the_first_program_and_its_schedule_run_and_agree(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run_python(START)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{names['result'].cycles} cycles, {60 * 6 * 4} GEMM operations\n")
    assert (tmp_path / "first.trace.json").exists()
    assert np.array_equal(names["by_hand"].outputs["D"], names["result"].outputs["D"])


def test_the_two_commands_of_the_readme_are_those_of_ci():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "    pip install . && lathe run\n" in README
    assert "    pip install -e '.[test]' && pytest\n" in README
    assert "pip install -q -e '.[test]'" in ci


def test_the_first_sweep_is_one(tmp_path):
    text = next(block.text for block in blocks_of(SWEEPS) if block.options.get("file") == "first.yaml")
    assert set(yaml.safe_load(text)) == {"base", "machine", "workloads"}
    (tmp_path / "sweep.yaml").write_text(text)
    assert len(read_sweep(tmp_path / "sweep.yaml", known_workloads()).points()) == 3 * 2 * 2


def test_the_sweep_with_all_there_is_can_be_read(tmp_path):
    text = next(block.text for block in blocks_of(SWEEPS) if block.options.get("file") == "everything.yaml")
    (tmp_path / "sweep.yaml").write_text(text)
    (tmp_path / "mine_energy.yaml").write_text((ROOT / "lathe" / "sweeps" / "energy.yaml").read_text())
    layers = "".join(f"Conv{number}, 27, 27, 3, 3, 16, 16, 1,\n" for number in (1, 2))
    header = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
    (tmp_path / "alexnet.csv").write_text(header + layers)
    assert 50 < len(read_sweep(tmp_path / "sweep.yaml", known_workloads()).points()) <= 100  # some machines are omitted


def test_every_command_has_its_row():
    table = (DOCS / "command-line.md").read_text(encoding="utf-8").split("`lathe COMMAND --help`")[0]
    assert set(re.findall(r"`lathe (\w+)", table)) == set(main.commands)


def test_every_room_and_file_that_is_named_exists():
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/.]+/(?:[\w.]+\.(?:py|md|yaml))?)`", text))
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), path
    linked = set(re.findall(r"\]\(([^)#:]+)\)", README))
    assert len(linked) > 9
    for path in linked:
        assert (ROOT / path).exists(), path
