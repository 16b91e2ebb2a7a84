"""Searches by Optuna: no point is measured twice, and a resumed search starts from the known rows."""

import json

import pytest
import sweep_files
from click.testing import CliRunner
from error_checks import check_mentions, raises

import lathe as lt
import lathe.sweeps.search as search_module
from lathe.command_line import main
from lathe.sweeps.errors import SweepError
from lathe.sweeps.search import Study
from lathe.sweeps.store import reading_store

TEXT = """
machine:
  memory.latency: {from: 0, to: 63}
  memory.bus_bits: [64, 128]
constraints: memory.latency != 5
search: {objectives: [OBJECTIVES], points: 8, seed: 1}
workloads:
  - matmul: {m: [16, 32], n: 16, k: 16}
  - relu: {height: 2, width: 2, channels: 16}
"""


def read(tmp_path, objectives="cycles", text=TEXT):
    return sweep_files.read(tmp_path, text.replace("OBJECTIVES", objectives))


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("objectives", ["cycles", "cycles, -efficiency", "energy_pj, cycles"])
def test_a_search_measures_its_number_of_points_without_repetition(tmp_path, objectives):
    read(tmp_path, objectives)
    rows = lt.sweep(tmp_path / "sweep.yaml", jobs=1)
    assert len(rows) == 8
    named = {json.dumps({key: row.get(key) for key in ("workload", "m", "memory.latency", "memory.bus_bits")})
             for row in rows}  # fmt: skip
    assert len(named) == 8
    assert all(row["memory.latency"] != 5 for row in rows)


@pytest.mark.slow
def test_a_resumed_search_does_not_repeat_points(tmp_path):
    read(tmp_path)
    store = tmp_path / "r.db"
    first = lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)
    assert lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1) == first
    read(tmp_path, text=TEXT.replace("points: 8", "points: 12"))
    more = lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)
    assert len(more) == 12
    assert [row for row in more if row in first] == first


EDITS = {
    "a value before others": ("machine:\n", "machine:\n  block_in: [32, 16]\n"),
    "a longer range": ("{from: 0, to: 63}", "{from: -3, to: 90, step: 1}"),
    "another order": ("bus_bits: [64, 128]", "bus_bits: [256, 128, 64]"),
    "another workload before others": ("workloads:\n", "workloads:\n  - relu: {height: 3, width: 2, channels: 16}\n"),
    "another base": ("machine:\n", "base: [tiny, vta]\nmachine:\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("edit", EDITS)
def test_a_search_is_resumed_from_all_rows_of_an_edited_grid(tmp_path, edit):
    read(tmp_path)
    store = tmp_path / "r.db"
    first = lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)
    read(tmp_path, text=TEXT.replace(*EDITS[edit]).replace("points: 8", "points: 10"))
    more = lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)
    assert len(more) == 10

    def named(row):
        return [row.get(key) for key in ("workload", "height", "m", "memory.latency", "memory.bus_bits")]

    # Rows were not measured again: their times are unchanged.
    timed = [(named(row), row["run_seconds"]) for row in more]
    assert sum((named(row), row["run_seconds"]) in timed for row in first) == 8
    assert len(store_rows(store)) == 10


@pytest.mark.slow
def test_a_search_ignores_rows_outside_its_grid(tmp_path):
    read(tmp_path)
    store = tmp_path / "r.db"
    first = lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)
    gone = {row["memory.bus_bits"] for row in first} - {64}
    assert gone
    read(tmp_path, text=TEXT.replace("[64, 128]", "[64]"))
    more = lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)
    assert len(more) == 8
    assert {row["memory.bus_bits"] for row in more} == {64}
    reused = [row for row in first if row["memory.bus_bits"] == 64]
    assert len(store_rows(store)) == 8 + 8 - len(reused)


@pytest.mark.slow
def test_a_search_matches_files_by_content(tmp_path):
    script = "import lathe as lt\ndef build(cfg, n):\n    return lt.relu(lt.placeholder((n, 16), 'int8', name='A'))\n"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    text = "workloads:\n  - python: {path: PATH, n: {from: 1, to: 9}}\nsearch: {objectives: [cycles], points: 4}\n"
    for name in ("one", "two"):
        (tmp_path / name / "s.py").write_text(script)
        read(tmp_path / name, text=text.replace("PATH", "s.py"))
    first = lt.sweep(tmp_path / "one" / "sweep.yaml", output=tmp_path / "r.db", jobs=1)
    again = lt.sweep(tmp_path / "two" / "sweep.yaml", output=tmp_path / "r.db", jobs=1)
    assert [(row["n"], row["run_seconds"]) for row in again] == [(row["n"], row["run_seconds"]) for row in first]


def store_rows(path):
    with reading_store(path) as store:
        return store.rows()


@pytest.mark.slow
def test_a_search_on_one_process_is_determined_by_its_seed(tmp_path):
    def searched(seed):
        read(tmp_path, "cycles, energy_pj", TEXT.replace("seed: 1", f"seed: {seed}"))
        rows = lt.sweep(tmp_path / "sweep.yaml", jobs=1)
        return [{key: value for key, value in row.items() if key != "run_seconds"} for row in rows]

    assert searched(1) == searched(1)
    assert searched(1) != searched(2)


def test_a_search_of_a_small_grid_measures_all_of_it(tmp_path):
    text = TEXT.replace("{from: 0, to: 63}", "[0, 5, 9]").replace("points: 8", "points: 100")
    read(tmp_path, text=text)
    assert len(lt.sweep(tmp_path / "sweep.yaml", jobs=1)) == 2 * 2 * 3


@pytest.mark.slow
def test_a_search_on_processes_tells_what_it_learns(tmp_path):
    read(tmp_path)
    result = CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml"), "--jobs", "2", "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == 8


def test_a_search_prints_the_pareto_front(tmp_path):
    read(tmp_path, "cycles, -efficiency")
    said = CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml"), "--jobs", "1"])
    assert said.exit_code == 0
    check_mentions(said.stdout, "8 rows: 8 ok", "cycles, -efficiency", "each workload")


def test_grid_indices_and_steps_of_trials_are_inverse(tmp_path):
    sweep = read(tmp_path)
    known = {index: {"cycles": float(index)} for index in range(0, sweep.count, 37)}
    study = Study(sweep, sweep.search, known)
    trials = study.study.get_trials()
    assert [study._index(_Fixed(trial.params)) for trial in trials] == list(known)


class _Fixed:
    """A trial that suggests given values."""

    def __init__(self, params):
        self.params = params

    def suggest_int(self, name, _low, _high):
        return self.params[name]


def test_without_optuna_the_error_names_what_to_install(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    read(tmp_path)
    monkeypatch.setattr(search_module, "import_module", missing)
    mentions = ("package 'optuna'", "No module named 'optuna'", "pip install 'lathe-npu[sweep]'")
    raises(SweepError, lt.sweep, tmp_path / "sweep.yaml", output=tmp_path / "r.db", mentions=mentions)
    assert not (tmp_path / "r.db").exists()
