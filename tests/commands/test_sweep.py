"""`lathe sweep`: rows of a grid, also of invalid points."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import sweep_measuring
from click.testing import CliRunner
from error_checks import check_mentions

import lathe.sweeps.execution as execution_module
import lathe.sweeps.measurement as measurement_module
from lathe.command_line import main
from lathe.configs import load_config
from lathe.sweeps.execution import run_sweep
from lathe.sweeps.parse_sweep import read_sweep, shipped_sweeps
from lathe.sweeps.specification import Point
from lathe.sweeps.workloads import WORKLOADS, known_workloads

SWEEP = """
machine:
  memory.latency: [0, 64]
  block_in: [16, 24]
workloads:
  - matmul: {m: [16, 20], n: 32, k: 32}
  - conv2d: {height: 4, width: 4, channels: 16, filters: 16, kernel: [1, 5]}
"""


def sweep(tmp_path, text, *words):
    (tmp_path / "sweep.yaml").write_text(text)
    return CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml"), *(str(word) for word in words)])


@pytest.mark.slow
def test_every_point_is_a_row_and_invalid_ones_have_a_reason(tmp_path):
    result = sweep(tmp_path, SWEEP, "-o", tmp_path / "out.csv", "--jobs", 1, "--check")
    assert result.exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 4
    for row in rows:
        if row["block_in"] == "24":
            assert row["status"] == "invalid machine"
            assert row["reason"] == (
                "block_in of machine 'vta' must be a power of two, not 24. Write an integer such as 1, 2, 4, 8 or 16."
            )
            assert row["cycles"] == ""
        elif row["kernel"] == "5":
            assert row["status"] == "unmappable"
            check_mentions(row["reason"], "height of conv2d 'conv2d'", "padding", "at least 5", "not 4")
        elif row["kernel"]:
            assert row["status"] == "ok"
        else:
            assert row["status"] == "ok"
            assert row["reason"] == ""
            assert int(row["gemm_operations"]) == int(row["m"]) * 2 * 2
            assert float(row["utilisation"]) == round(int(row["gemm_operations"]) / int(row["cycles"]), 6)
            assert 0 < float(row["efficiency"]) <= float(row["utilisation"])
            for unit in ("load", "compute", "store"):
                waits = sum(int(value) for key, value in row.items() if key.startswith(f"{unit}_waits_"))
                assert int(row[f"{unit}_busy"]) + waits == int(row["cycles"])
            assert int(row["bytes_read"]) == sum(int(row[f"read_{name}"]) for name in READ)
    cycles = {(row["m"], row["memory.latency"]): int(row["cycles"]) for row in rows if row["cycles"]}
    assert cycles["16", "64"] > cycles["16", "0"]
    assert "6 ok" in result.stdout
    assert "8 invalid machine" in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workloads: [relu: {height: 0, width: 1, channels: 1}]", "Parameter height of relu of "),
        ("workloads: [conv2d: {height: 1, width: 1, channels: 1, filters: 1}]", "Workload conv2d of "),
        ("machine: {batch: 3}\nworkloads: [digits: ]", "machine of "),
    ],
)
def test_errors_of_the_whole_sweep_are_reported_and_nothing_is_written(tmp_path, text, message):
    result = sweep(tmp_path, text, "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


READ = ("instructions", "uop", "wgt", "inp", "acc", "acc8", "par", "lut")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
def test_a_full_disk_is_an_error_of_the_table(tmp_path):
    text = "workloads:\n  - matmul: {m: [4, 8], n: 4, k: 4}\n"
    result = sweep(tmp_path, text, "-o", "/dev/full", "--jobs", 1)
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, "Error", "output file '/dev/full", "No space left on device")


@pytest.mark.slow
def test_several_processes_give_the_same_rows_as_one(tmp_path):
    first = sweep(tmp_path, SWEEP, "-o", tmp_path / "one.csv", "--jobs", 1)
    second = sweep(tmp_path, SWEEP, "-o", tmp_path / "two.csv", "--jobs", 2)
    assert first.exit_code == second.exit_code == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()


@pytest.mark.slow
def test_json_has_the_rows(tmp_path):
    result = sweep(tmp_path, "workloads: [relu: {height: 4, width: 4, channels: 16}]", "--json")
    (row,) = json.loads(result.stdout)
    assert row["status"] == "ok"
    assert row["channels"] == 16
    assert row["alu_operations"] > 0


@pytest.mark.slow
def test_outputs_that_differ_from_numpy_are_a_row_and_status_1(tmp_path, monkeypatch):
    monkeypatch.setattr(execution_module, "measure_content", sweep_measuring.with_flipped_reference)
    text = "workloads: [relu: {height: 4, width: 4, channels: 16}]"
    result = sweep(tmp_path, text, "--check", "--jobs", 1, "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)
    assert (row["status"], row["reason"]) == ("outputs differ", "256 of 256 outputs")


@pytest.mark.slow
def test_a_fault_of_lathe_is_a_row_and_does_not_end_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(execution_module, "measure_content", sweep_measuring.with_faulty_build)
    text = "workloads: [relu: {height: [4, 8], width: 4, channels: 16}]"
    result = sweep(tmp_path, text, "--jobs", 1, "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)
    assert [row["status"] for row in rows] == ["internal error"] * 2
    assert rows[0]["reason"].endswith("AssertionError: a chunk without extent")


WAITS = """
import os, time
import lathe as lt

def build(machine, wait):
    if wait == 1:
        os.kill(os.getpid(), 9)
    time.sleep(wait)
    return lt.relu(lt.placeholder((2, 16), "int8", name="A"), name="B")
"""


@pytest.mark.slow
def test_a_dry_run_measures_where_it_can_be_ended(tmp_path):
    (tmp_path / "waits.py").write_text(WAITS)
    text = "machine: {{memory.latency: [0, 8]}}\nworkloads:\n  - python: {{path: waits.py, wait: {0}}}\n".format
    late = json.loads(sweep(tmp_path, text(600), "--dry-run", "--timeout", 1.5, "--jobs", 1, "--json").stdout)
    assert (late["estimated_seconds"], late["without_estimate"]) == (2 * 1.5, [])
    both = text(1) + "  - relu: {height: 1, width: 1, channels: 16}\n"
    lost = sweep(tmp_path, both, "--dry-run", "--retries", 1, "--jobs", 1)
    assert lost.exit_code == 0
    assert "estimated from 1 points measured now.\n" in lost.stdout
    check_mentions(lost.stdout.splitlines()[-1], "Not in the estimate", "python", "2 times", "SIGKILL", "--jobs")


def test_a_bad_file_is_an_error_and_writes_nothing(tmp_path):
    result = sweep(tmp_path, "workloads: [matmul: {m: 1, n: 1}]", "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: Workload matmul of {tmp_path / 'sweep.yaml'}, line 1, must be complete, not without k. "
        "matmul needs m, n, k.\n",
    )
    assert not (tmp_path / "out.csv").exists()


def test_workloads_are_listed_with_their_parameters():
    result = CliRunner().invoke(main, ["sweep", "--workloads"])
    assert result.exit_code == 0
    for name in WORKLOADS:
        assert f"{name}(" in result.stdout
    assert "matmul(m, n, k, epilogue=cut)\n    A (m, k) times B (n, k), transposed." in result.stdout


SMALL = {
    "matmul": {"m": 3, "n": 20, "k": 18},
    "dense": {"inputs": 20, "outputs": 10, "batch": 2},
    "conv2d": {"height": 5, "width": 6, "channels": 4, "filters": 8, "padding": 1},
    "max_pool2d": {"height": 4, "width": 6, "channels": 16},
    "avg_pool2d": {"height": 4, "width": 6, "channels": 16},
    "relu": {"height": 3, "width": 2, "channels": 16},
    "add": {"height": 3, "width": 2, "channels": 16},
    "digits": {"batch": 1},
}


@pytest.mark.parametrize("name", SMALL)
def test_every_workload_is_built_simulated_and_equal_to_numpy(name):
    row = measurement_module.measure(Point("vta", {}, name, SMALL[name]), check=True)
    assert (row.status, row.reason) == ("ok", "")


def test_shipped_sweeps_can_be_read():
    assert shipped_sweeps() == ("conv_buffers", "matmul_blocks")
    for name in shipped_sweeps():
        points = read_sweep(name, known_workloads()).points()
        assert len(points) > 1
        assert len({repr(point) for point in points}) == len(points)


def test_random_inputs_repeat_and_take_the_whole_range():
    point = Point("vta", {}, "matmul", {"m": 64, "n": 64, "k": 64})
    work = WORKLOADS["matmul"](**point.parameters)
    program = work.compiled(load_config("vta"))
    first = work.inputs(program, measurement_module.seed_of(point))
    again = work.inputs(program, measurement_module.seed_of(point))
    assert all(np.array_equal(first[name], again[name]) for name in ("A", "B"))
    assert (first["A"].min(), first["A"].max()) == (-128, 127)


@pytest.mark.slow
def test_rows_come_with_their_places(tmp_path):
    (tmp_path / "s.yaml").write_text("workloads: [relu: {height: [1, 2], width: 4, channels: 16}]")
    found = read_sweep(tmp_path / "s.yaml", known_workloads())
    rows = dict(run_sweep(found, jobs=1))
    assert [rows[place].point.parameters["height"] for place in range(2)] == [1, 2]
