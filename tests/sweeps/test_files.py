"""Sweep files: their points, and their errors."""

import pytest
from error_checks import raises

from lathe.configs import config_to_yaml, load_config, shipped_configs
from lathe.sweeps.errors import SweepError
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.specification import Parameter
from lathe.sweeps.workloads import known_workloads, make

SHIPPED = ", ".join(shipped_configs())

SIZE = Parameter(required=True)
KNOWN = {
    "matmul": {"m": SIZE, "n": SIZE, "k": SIZE, "epilogue": Parameter(required=False, words=("cut", "requantise"))},
    "digits": {"batch": Parameter(required=False)},
}


def read(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return read_sweep(path, KNOWN)


def test_points_are_every_machine_with_every_workload(tmp_path):
    sweep = read(
        tmp_path,
        """
base: [vta, wide]
machine:
  memory.latency: [0, 32]
  block_in, block_out: [8, [16, 32]]
workloads:
  - matmul: {m: [1, 2], n: 3, k: 4}
  - digits:
""",
    )
    points = sweep.points()
    assert len(points) == (2 + 1) * 2 * 2 * 2
    assert points[1].base == "vta"
    assert points[1].changes == {"memory.latency": 0, "block_in": 16, "block_out": 32}
    assert points[2].changes == {"memory.latency": 32, "block_in": 8, "block_out": 8}
    assert points[0].parameters == {"m": 1, "n": 3, "k": 4}
    assert points[8].parameters == {"m": 2, "n": 3, "k": 4}
    assert points[-1].workload == "digits"
    assert points[-1].parameters == {}
    assert points[-1].base == "wide"
    assert sweep.parameter_keys == ("m", "n", "k")


def test_defaults_are_the_base_vta_and_no_changes(tmp_path):
    (point,) = read(tmp_path, "workloads: [digits: {batch: 2}]").points()
    assert (point.base, point.changes, point.parameters) == ("vta", {}, {"batch": 2})


def test_the_path_of_a_base_is_relative_to_the_sweep_file(tmp_path):
    (tmp_path / "mine.yaml").write_text(config_to_yaml(load_config("tiny")))
    (point,) = read(tmp_path, "base: mine.yaml\nworkloads: [digits: ]").points()
    assert point.base == str(tmp_path / "mine.yaml")


def test_a_base_machine_must_exist(tmp_path):
    mentions = ("base", f"{tmp_path / 'sweep.yaml'}, line 1", SHIPPED, "not 'vtaa'", "'vta'?")
    error = raises(SweepError, read, tmp_path, "base: vtaa\nworkloads: [digits: ]", mentions=mentions)
    assert (error.line, error.key) == (1, "base")


# fmt: off
MISTAKES = {
    "an unknown key": ("workload:\n  - digits:\n", 1, "A key",
        "base, machine, workloads, constraints, sample, search, schedules, budget, metrics, energy, hardware",
        "not 'workload'", "'workloads'?"),
    "no workloads": ("base: vta\n", None, "must include workloads"),
    "workloads that are no list": ("workloads:\n  digits: {batch: 1}\n", 2,
        "workloads", "list", "not {'digits': {'batch': 1}}"),
    "an unknown workload": ("workloads:\n  - matmull: {m: 1}\n", 2,
        "workload", "matmul, digits", "not 'matmull'", "'matmul'?"),
    "an unknown parameter": ("workloads:\n  - matmul:\n      m: 1\n      n: 1\n      kk: 1\n", 5,
        "parameter of matmul", "m, n, k, epilogue", "not 'kk'", "'k'?"),
    "a missing parameter": ("workloads:\n  - matmul: {m: 1, n: 1}\n", 2,
        "Workload matmul", "not without k", "m, n, k"),
    "a parameter that is no integer": ("workloads:\n  - matmul: {m: 1.5, n: 1, k: 1}\n", 2,
        "Parameter m of matmul", "integer", "at least 1", "not 1.5"),
    "a size of 0": ("workloads:\n  - matmul: {m: [4, 0], n: 1, k: 1}\n", 2,
        "Parameter m of matmul", "at least 1", "not 0"),
    "an unknown word": ("workloads:\n  - matmul: {m: 1, n: 1, k: 1, epilogue: round}\n", 2,
        "Parameter epilogue of matmul", "cut or requantise", "not 'round'"),
    "a number for a word": ("workloads:\n  - matmul: {m: 1, n: 1, k: 1, epilogue: 8}\n", 2,
        "Parameter epilogue of matmul", "cut or requantise", "not 8"),
    "an empty list of values": ("workloads:\n  - matmul: {m: [], n: 1, k: 1}\n", 2, "m", "empty list"),
    "a parameter given twice": ("workloads:\n  - matmul: {m: 1, n: 1, k: 1, m: 2}\n", 2, "Key m", "not twice"),
    "a machine key of two axes": ("machine:\n  block_in: 8\n  block_in, block_out: 16\nworkloads: [digits: ]\n", 3,
        "Parameter block_in", "not twice"),
    "values that do not match their keys": ("machine:\n  block_in, block_out: [[8, 8, 8]]\nworkloads: [digits: ]\n", 2,
        "value of block_in, block_out", "list of 2", "not [8, 8, 8]"),
    "a base that is no name": ("base: 3\nworkloads: [digits: ]\n", 1, "base", "not 3"),
    "text that is not YAML": ("workloads:\n  - matmul: {m: 1\n", 3, "YAML", "expected ',' or '}'"),
    "an empty file": ("# nothing\n", None, "content", "not empty"),
    "a list": ("- digits\n", 1, "content", "keys with values", "not ['digits']"),
}
# fmt: on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_its_line(tmp_path, mistake):
    text, line, *mentions = MISTAKES[mistake]
    where = f"{tmp_path / 'sweep.yaml'}" + (f", line {line}" if line else "")
    error = raises(SweepError, read, tmp_path, text, mentions=(where, *mentions))
    assert error.line == line


def test_an_unknown_machine_parameter_is_reported_with_the_nearest(tmp_path):
    mentions = ("batch, block_in, block_out", "not 'memory.latencies'", "'memory.latency'?")
    text = "machine:\n  memory.latencies: 1\nworkloads: [digits: ]\n"
    error = raises(SweepError, read, tmp_path, text, mentions=mentions)
    assert (error.line, error.key) == (2, "memory.latencies")


def test_a_grid_without_a_valid_machine_is_a_mistake(tmp_path):
    mentions = ("machine", f"{tmp_path / 'sweep.yaml'}, line 3", "at least one", "block_in", "'vta'", "not 12")
    text = "base: [vta, tiny]\nmachine:\n  block_in: [12, 24]\nworkloads: [digits: ]\n"
    raises(SweepError, read, tmp_path, text, mentions=mentions)
    read(tmp_path, "base: [vta, tiny]\nmachine:\n  block_in: [12, 16]\nworkloads: [digits: ]\n")


def test_a_workload_without_a_valid_shape_is_a_mistake(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "workloads:\n  - relu: {height: 1, width: 1, channels: 1}\n  - conv2d: {height: [2, 3], width: 9, "
        "channels: 1, filters: 1, kernel: 5}\n"
    )
    mentions = (f"Workload conv2d of {path}, line 3", "2 combinations", "height", "at least 5", "not 2")
    error = raises(SweepError, read_sweep, path, known_workloads(), make, mentions=mentions)
    assert error.line == 3
    path.write_text(path.read_text().replace("[2, 3]", "[2, 5]"))
    assert len(read_sweep(path, known_workloads(), make).points()) == 3


def test_padding_may_be_0_unlike_other_integers():
    known = known_workloads()["conv2d"]
    assert known["padding"].takes(0)
    assert not known["padding"].takes(-1)
    assert not known["stride"].takes(0)
    assert not known["stride"].takes(True)
    assert known["epilogue"].words == ("cut", "requantise")


def test_a_missing_file_is_named(tmp_path):
    mentions = ("sweep file", tmp_path / "absent.yaml", "No such file or directory", "conv_buffers, matmul_blocks")
    raises(SweepError, read_sweep, tmp_path / "absent.yaml", KNOWN, mentions=mentions)
