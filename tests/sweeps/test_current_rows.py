"""The current rows of a store with rows of earlier files and options."""

import json
from dataclasses import replace

import pytest
import yaml
from error_checks import check_mentions
from invoked import lathe as run

import lathe as lt
from lathe.sweeps.current_rows import current_rows, outdated_text
from lathe.sweeps.energy import OWN
from lathe.sweeps.store import StoredRow

SWEEP = (
    "energy: mine.yaml\nmachine: {clock_mhz: 100, dram: hbm2}\nworkloads:\n  - matmul: {m: 16, n: [16, 32], k: 32}\n"
)


def row(point, run, **columns):
    return StoredRow(point, 0, "s", "ok", 0.5, {"workload": "relu", "base": "vta", "cycles": 3, **columns}, run=run)


def test_of_rows_with_equal_columns_those_are_current_that_the_last_run_used():
    old, new, other = row("a", 1, energy_pj=2.0), row("b", 2, energy_pj=1.0), row("c", 1, height=4)
    assert current_rows([old, other, new]) == [other, new]
    assert current_rows([replace(old, run=3), new]) == [replace(old, run=3)]
    check_mentions(outdated_text([old, other, new], [other, new]), "1", "row")
    assert outdated_text([old, new], [old, new]) == ""


def test_rows_of_an_earlier_version_that_no_run_has_used_since_are_all_current():
    rows = [row("a", 0, energy_pj=2.0), row("b", 0, energy_pj=1.0)]
    assert current_rows(rows) == rows


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "s.yaml").write_text(SWEEP)
    (tmp_path / "mine.yaml").write_bytes(OWN.read_bytes())
    return tmp_path


def dearer(folder):
    """Multiply the energy of a MAC by ten."""
    table = yaml.safe_load((folder / "mine.yaml").read_text())
    table["mac"]["pj"] *= 10
    (folder / "mine.yaml").write_text(yaml.safe_dump(table))


def listed(folder, *options):
    result = run("results", folder / "r.db", "--json", *options)
    assert result.exit_code == 0, result.stderr
    return [(row["n"], row["energy_pj"]) for row in json.loads(result.stdout)]


def swept(folder):
    return [(row["n"], row["energy_pj"]) for row in lt.sweep(folder / "s.yaml", output=folder / "r.db", jobs=1)]


@pytest.mark.slow
def test_fronts_and_lists_have_the_rows_of_the_current_files(folder):
    first = swept(folder)
    cheap = (folder / "mine.yaml").read_bytes()
    dearer(folder)
    second = swept(folder)
    assert all(new > old for (_, new), (_, old) in zip(second, first, strict=True))
    assert listed(folder) == second
    assert listed(folder, "--pareto", "cycles,energy_pj") == second
    assert sorted(listed(folder, "--all")) == sorted(first + second)
    outdated = outdated_text([row("a", 1)] * 4, [row("a", 1)] * 2)
    check_mentions(run("results", folder / "r.db").stdout.splitlines()[-1], outdated, "--all")
    assert outdated not in run("results", folder / "r.db", "--all").stdout
    assert run("report", folder / "r.db", "-o", folder / "r.html").exit_code == 0
    page = (folder / "r.html").read_text()
    assert "2 points of a sweep" in page
    assert outdated in page
    (folder / "mine.yaml").write_bytes(cheap)
    assert swept(folder) == first
    assert listed(folder) == first
