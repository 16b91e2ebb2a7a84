"""`lathe results`, stores written by `lathe sweep`, plans, and the rows that `lt.sweep` returns."""

import csv
import io
import json
import pty
import shutil
import subprocess
import sys

import pyarrow.parquet
import pytest
from error_checks import check_mentions, raises
from invoked import lathe as run

import lathe as lt
from lathe.sweeps.pareto import pareto_front

SWEEP = """
machine:
  memory.latency: [0, 64]
  block_in: [16, 24]
workloads:
  - matmul: {m: [16, 20], n: 32, k: 32}
  - relu: {height: 4, width: 4, channels: 16}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder with the sweep and its store, which tests copy."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", folder / "sweep.yaml", "-o", folder / "r.db", "--jobs", 1)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def store(swept, tmp_path):
    for path in swept.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path / "r.db"


def test_json_is_a_list_of_flat_rows(store):
    rows = json.loads(run("results", store, "--json").stdout)
    assert len(rows) == 12
    assert len({tuple(row) for row in rows}) == 1  # the same keys
    assert all(isinstance(value, str | int | float | None) for row in rows for value in row.values())
    assert [key for key in rows[0] if "second" in key] == ["run_seconds"]
    assert {row["status"] for row in rows} == {"ok", "invalid machine"}


def test_csv_and_parquet_have_the_same_rows(store, tmp_path):
    rows = json.loads(run("results", store, "--json").stdout)
    text = list(csv.DictReader(io.StringIO(run("results", store, "--csv").stdout)))
    assert [{key: str(value) if value is not None else "" for key, value in row.items()} for row in rows] == text
    assert run("results", store, "--parquet", "-o", tmp_path / "r.parquet").exit_code == 0
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").to_pylist() == rows
    assert run("results", store, "--json", "-o", tmp_path / "r.json").exit_code == 0
    assert json.loads((tmp_path / "r.json").read_text()) == rows


def test_a_sweep_resumes_without_repetition(store, tmp_path):
    before = json.loads(run("results", store, "--json").stdout)
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("[0, 64]", "[0, 32, 64]"))
    assert run("sweep", tmp_path / "sweep.yaml", "-o", store, "--jobs", 1).exit_code == 0
    after = json.loads(run("results", store, "--json").stdout)
    assert len(after) == 18
    assert [row for row in after if row in before] == before  # with equal times: they were not measured again


OVERLAPPING = """
workloads:
  - matmul: {m: [16, 20], n: 16, k: 16}
  - matmul: {m: [20, 24], n: 16, k: 16}
"""


def test_a_point_of_two_workloads_is_one_row_at_its_first_position(tmp_path):
    (tmp_path / "sweep.yaml").write_text(OVERLAPPING)
    store = tmp_path / "r.db"
    for _ in range(2):
        assert len(lt.sweep(tmp_path / "sweep.yaml", output=store, jobs=1)) == 4
        rows = json.loads(run("results", store, "--json").stdout)
        assert [row["m"] for row in rows] == [16, 20, 24]


def test_rows_are_in_the_order_of_the_last_sweep(store, tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("[16, 20]", "[20, 16]").replace("[0, 64]", "[64, 0]"))
    assert run("sweep", tmp_path / "sweep.yaml", "-o", store, "--jobs", 1).exit_code == 0
    rows = json.loads(run("results", store, "--json").stdout)
    assert [(row["m"], row["memory.latency"]) for row in rows if row["workload"] == "matmul"] == [
        (20, 64), (20, 64), (20, 0), (20, 0), (16, 64), (16, 64), (16, 0), (16, 0),
    ]  # fmt: skip


def test_parameters_of_workload_and_machine_with_the_same_name(tmp_path):
    (tmp_path / "sweep.yaml").write_text(
        "machine:\n  batch: [1, 2]\nworkloads:\n  - dense: {inputs: 16, outputs: 16, batch: [1, 4]}\n"
    )
    words = ["sweep", tmp_path / "sweep.yaml", "--jobs", 1]
    assert run(*words, "-o", tmp_path / "r.csv").exit_code == 0
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["workload.batch"], row["batch"]) for row in rows] == [("1", "1"), ("1", "2"), ("4", "1"), ("4", "2")]
    plan = json.loads(run(*words, "--dry-run", "--json").stdout)
    assert [(row["workload.batch"], row["batch"]) for row in plan["rows"]] == [(1, 1), (1, 2), (4, 1), (4, 2)]


def test_the_rows_of_another_version_are_measured_again(store, tmp_path, monkeypatch):
    before = json.loads(run("results", store, "--json").stdout)
    monkeypatch.setattr("lathe.sweeps.run_sweep.measuring_sources", lambda _: "other sources")
    assert run("sweep", tmp_path / "sweep.yaml", "-o", store, "--jobs", 1).exit_code == 0
    after = json.loads(run("results", store, "--json").stdout)
    assert len(after) == 12
    assert after != before
    strip = [{key: value for key, value in row.items() if key != "run_seconds"} for row in (*before, *after)]
    assert strip[:12] == strip[12:]


def test_pareto_front(store):
    rows = json.loads(run("results", store, "--pareto", "cycles,energy_pj", "--json").stdout)
    everything = [row for row in json.loads(run("results", store, "--json").stdout) if row["status"] == "ok"]
    assert rows
    for row in everything:
        beaten = any(
            other["cycles"] <= row["cycles"] and other["energy_pj"] <= row["energy_pj"]
            and (other["cycles"], other["energy_pj"]) != (row["cycles"], row["energy_pj"])
            for other in everything
            if all(other[name] == row[name] for name in ("workload", "m", "n", "k", "height", "width", "channels"))
        )  # fmt: skip
        assert (row in rows) is not beaten
    assert {(row["workload"], row["m"]) for row in rows} == {("matmul", 16), ("matmul", 20), ("relu", None)}
    told = run("results", store, "--pareto", "cycles,energy_pj").stdout
    assert f"{len(rows)} rows of the Pareto front in cycles, energy_pj, separately for each workload: " in told


def test_pareto_front_of_one_workload(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("  - matmul: {m: [16, 20], n: 32, k: 32}\n", ""))
    assert run("sweep", tmp_path / "sweep.yaml", "-o", tmp_path / "r.db", "--jobs", 1).exit_code == 0
    assert "Pareto front in cycles: " in run("results", tmp_path / "r.db", "--pareto", "cycles").stdout


def test_columns_of_workloads_come_before_those_of_machines(store):
    names = list(json.loads(run("results", store, "--json").stdout)[0])
    assert names[:10] == [
        "workload",
        "m",
        "n",
        "k",
        "height",
        "width",
        "channels",
        "base",
        "memory.latency",
        "block_in",
    ]


def test_requested_metrics_of_the_table(store, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    head = run("results", store, "--metrics", "macs,cycles").stdout.splitlines()[1].split()
    assert head[-3:] == ["macs", "cycles", "status"]
    (tmp_path / "sweep.yaml").write_text(SWEEP + "metrics: [macs, energy_pj]\n")
    head = run("sweep", tmp_path / "sweep.yaml", "--jobs", 1).stdout.splitlines()[1].split()
    assert head[-3:] == ["macs", "energy_pj", "status"]


def test_maximised_metrics():
    rows = [{"status": "ok", "a": a, "b": b} for a, b in [(1, 5), (2, 6), (2, 5), (3, 9), (1, 5)]]
    rows += [{"status": "unmappable", "a": 0, "b": 9}, {"status": "ok", "a": None, "b": 9}]
    assert [(row["a"], row["b"]) for row in pareto_front(rows, ("a", "-b"))] == [(1, 5), (1, 5), (2, 6), (3, 9)]
    assert [(row["a"], row["b"]) for row in pareto_front(rows, ("a",))] == [(1, 5), (1, 5)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pareto", "cycels,energy_pj"], "A metric of --pareto must be one of "),
        (["--pareto", "base"], "A metric of --pareto must be one of "),
        (["--metrics", "-cycles"], "A metric of --metrics must be one of "),
        (["--metrics", "cycles", "--csv"], "--metrics must be left out with --csv, --json and --parquet"),
        (["--csv", "--json"], "The format of results must be one of --csv, --json and --parquet, not several."),
        (["-o", "x"], "-o requires one of --csv, --json and --parquet"),
    ],
)
def test_invalid_options(store, words, message):
    result = run("results", store, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {message}")


def test_parquet_is_piped_but_not_written_to_a_terminal(store):
    rows = json.loads(run("results", store, "--json").stdout)
    found = pyarrow.parquet.read_table(io.BytesIO(run("results", store, "--parquet").stdout_bytes))
    assert found.to_pylist() == rows
    _, terminal = pty.openpty()
    command = [sys.executable, "-c", "from lathe.command_line import main; main()", "results", store, "--parquet"]
    result = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    check_mentions(result.stderr, "Error", "--parquet", "terminal", "-o FILE")


def test_other_files_are_refused_by_both_commands(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "r.db").write_text("not a database\n" * 20)
    for words in (["results", tmp_path / "r.db"], ["sweep", tmp_path / "sweep.yaml", "-o", tmp_path / "r.db"]):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        check_mentions(result.stderr, "Error", f"store {str(tmp_path / 'r.db')!r}", "SQLite database", "unchanged")
    assert (tmp_path / "r.db").read_text() == "not a database\n" * 20


def test_chosen_metrics_are_the_columns(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP + "metrics: [cycles, energy_pj]\n")
    assert run("sweep", tmp_path / "sweep.yaml", "-o", tmp_path / "r.csv", "--jobs", 1).exit_code == 0
    head = (tmp_path / "r.csv").read_text().splitlines()[0].split(",")
    assert head == ["workload", "m", "n", "k", "height", "width", "channels", "base", "memory.latency", "block_in",
                    "status", "cycles", "energy_pj", "reason"]  # fmt: skip
    rows = json.loads(run("sweep", tmp_path / "sweep.yaml", "--json", "--jobs", 1).stdout)
    assert list(rows[0]) == ["workload", "m", "n", "k", "base", "memory.latency", "block_in", "status", "cycles",
                             "energy_pj", "reason"]  # fmt: skip


def test_a_dry_run_measures_few_points_and_lists_all(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP + "constraints: memory.latency < 64\n")
    plan = json.loads(run("sweep", tmp_path / "sweep.yaml", "--dry-run", "--json", "--jobs", 1).stdout)
    assert [row["status"] for row in plan["rows"]] == ["ok", "invalid machine", "left out", "invalid machine"] * 3
    check_mentions(plan["rows"][2]["reason"], "constraint 'memory.latency < 64'")
    assert plan["rows"][1]["reason"].startswith("block_in of machine 'vta' must be a power of two, not 24.")
    assert plan["estimated_seconds"] > 0
    told = run("sweep", tmp_path / "sweep.yaml", "--dry-run", "-o", tmp_path / "r.db").stdout
    assert "12 points checked: 3 ok, 6 invalid machine, 3 left out; the grid has 12" in told
    assert "estimated from 2 points measured now." in told
    assert not (tmp_path / "r.db").exists()


def test_python_has_the_rows_of_the_command(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    rows = lt.sweep(tmp_path / "sweep.yaml", jobs=1)
    told = json.loads(run("sweep", tmp_path / "sweep.yaml", "--json", "--jobs", 1).stdout)
    assert [{key: value for key, value in row.items() if key != "run_seconds"} for row in rows] == told


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        ({"source": 3}, ("source of a sweep", "not 3")),
        ({"source": "matmul_blocks", "jobs": 0}, ("jobs of a sweep", "integer", "at least 1", "not 0")),
        ({"source": "matmul_blocks", "retries": -1}, ("retries of a sweep", "integer", "at least 0", "not -1")),
        ({"source": "matmul_blocks", "timeout": "1"}, ("timeout of a sweep", "seconds", "above 0", "not '1'")),
        ({"source": {"workloads": [{"relu": {"height": object()}}]}}, ("dictionary of a sweep", "plain values")),
        ({"source": "matmul_blocks", "jobs": 2, "cluster": "tcp://127.0.0.1:9"}, ("jobs", "cluster", "not 2")),
        ({"source": {"workloads": []}}, ("workloads of sweep, line 1", "list of operators", "not an empty list")),
    ],
)
def test_python_raises_the_same_errors(arguments, mentions):
    raises(lt.SweepError, lt.sweep, **arguments, mentions=mentions)


@pytest.mark.slow
def test_a_timeout_is_a_row_and_is_retried(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\nimport lathe as lt\n\ndef build(cfg, wait):\n    time.sleep(wait)\n"
        "    return lt.relu(lt.placeholder((2, 16), 'int8', name='A'), name='B')\n"
    )
    (tmp_path / "sweep.yaml").write_text("workloads:\n  - python: {path: slow.py, wait: [0, 4]}\n")
    words = ["sweep", tmp_path / "sweep.yaml", "-o", tmp_path / "r.db", "--jobs", 1, "--timeout"]
    assert run(*words, 3).exit_code == 0
    rows = json.loads(run("results", tmp_path / "r.db", "--json").stdout)
    assert [row["status"] for row in rows] == ["ok", "timed out"]
    assert rows[1]["reason"] == "The point took more than 3 seconds. Allow more with --timeout."
    assert run(*words, 600).exit_code == 0
    assert [row["status"] for row in json.loads(run("results", tmp_path / "r.db", "--json").stdout)] == ["ok", "ok"]
