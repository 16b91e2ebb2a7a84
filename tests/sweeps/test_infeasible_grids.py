"""Errors that affect every row: unknown values in a list with known ones, and grids without a valid point."""

import itertools
import time

import pytest
from error_checks import check_mentions
from qdq_models import QdqModel
from sweep_files import check_mistake, read

import lathe as lt
from lathe.sweeps.errors import SweepError
from lathe.sweeps.feasibility import scattered

DRAMS = "ddr3_1600, lpddr3_1600, ddr4_3200, lpddr4_3200, gddr5_8000, gddr6_14000, hbm2"
MISSING = "No such file or directory"
# fmt: off
UNKNOWN = {
    "a model": ("  - onnx: {path: [net.onnx,\n      nope.onnx]}\n", 3, "path",
        "Parameter path of onnx", "not 'nope.onnx'", "'{folder}/nope.onnx'"),
    "a script": ("  - python: {path: [mine.py, typo.py]}\n", 2, "path",
        "Parameter path of python", "not 'typo.py'", "'{folder}/typo.py'", MISSING),
    "a function": ("  - python: {path: mine.py, function: [build, nope], n: [1, 2]}\n", 2, "function",
        "Parameter function of python", "not 'nope'", "script {folder}/mine.py", "(build)"),
    "a layer": ("  - topology: {path: net.csv, layer: [one, two]}\n", 2, "layer",
        "Parameter layer of topology", "not 'two'", "topology {folder}/net.csv", "one of one"),
    "a topology": ("  - topology: {path: [net.csv, no.csv], layer: one}\n", 2, "path",
        "Parameter path of topology", "not 'no.csv'", "{folder}/no.csv", MISSING),
}
# fmt: on


@pytest.fixture
def folder(tmp_path):
    graph = QdqModel()
    model = graph.model(graph.conv(graph.input(1, 3, 6, 6), 8))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "mine.py").write_text("def build(machine, n=1): ...\n")
    (tmp_path / "net.csv").write_text("Layer, M, N, K\none, 1, 2, 3\n")
    return tmp_path


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_unknown_name_in_a_list_with_known_ones_is_a_mistake(folder, kind):
    text, *expected = UNKNOWN[kind]
    check_mistake(folder, "workloads:\n" + text, *expected)


def test_names_that_are_valid_with_some_of_the_others_are_rows(folder):
    (folder / "other.py").write_text("def made(machine): ...\n")
    sweep = read(folder, "workloads:\n  - python: {path: [mine.py, other.py], function: [build, made]}\n")
    assert sweep.count == 4


@pytest.mark.parametrize("axis", ["dram: [hbm2, hbm9]", "clock_mhz, dram: [[200, hbm2], [200, hbm9]]"])
def test_an_unknown_memory_in_a_list_with_known_ones_is_a_mistake(tmp_path, axis):
    text = f"machine:\n  {axis}\nworkloads: [digits: ]\n"
    check_mistake(tmp_path, text, 2, "dram", "value of dram", DRAMS, "not 'hbm9'")


INFEASIBLE = {
    "constraints that no machine satisfies": (
        "machine:\n  memory.latency: {from: 0, to: 5000}\nconstraints: memory.latency > 9000\n", 3, "constraints",
        "constraints", "5001 points", "'memory.latency > 9000'",
    ),
    "constraints that only invalid machines satisfy": (
        "machine:\n  block_in: [3, 16]\nconstraints: block_in > 16\n", 3, "constraints",
        "constraints", "2 points", "'block_in > 16'",
    ),
    "invalid machines only": (
        "machine:\n  block_in: [3]\n  memory.latency: {from: 0, to: 9000}\n", 2, "machine",
        "machine", "at least one", "block_in of machine 'vta'", "power of two", "not 3",
    ),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", INFEASIBLE)
def test_a_grid_without_a_valid_point_is_a_mistake_whatever_its_size(tmp_path, kind):
    text, *expected = INFEASIBLE[kind]
    check_mistake(tmp_path, text + "workloads: [digits: ]\n", *expected)


def test_shapes_that_never_fit_are_a_mistake_whatever_their_number(tmp_path):
    text = "workloads:\n  - conv2d: {height: 2, width: {from: 9, to: 5009}, channels: 1, filters: 1, kernel: 5}\n"
    check_mistake(tmp_path, text, 2, "conv2d", "Workload conv2d", "5001 combinations", "height", "not 2")


@pytest.mark.slow
def test_a_single_valid_point_is_found(tmp_path):
    text = (
        "machine:\n  memory.latency: {from: 0, to: 5000}\nconstraints: memory.latency == 4999\nworkloads: [digits: ]\n"
    )
    assert read(tmp_path, text).count == 5001


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 100, 4097])
def test_scattered_numbers_are_each_once(count):
    found = list(scattered(count))
    assert found[0] == 0
    assert sorted(found) == list(range(count))


def test_the_first_scattered_numbers_are_far_from_each_other():
    first = sorted(itertools.islice(scattered(10**8), 100))
    assert max(later - earlier for earlier, later in itertools.pairwise(first)) < 3 * 10**8 / 100


@pytest.mark.parametrize("values", [range(10**8), range(10**8, 0, -1), range(10**6), [0] * 100_001])
def test_more_values_than_a_grid_may_have_are_refused_immediately(values):
    start = time.monotonic()
    with pytest.raises(SweepError) as caught:
        lt.sweep({"machine": {"memory.latency": values}, "workloads": [{"digits": None}]})
    assert time.monotonic() - start < 2
    if isinstance(values, range) and values.step > 0:
        check_mentions(caught.value, "machine of sweep, line 2", "at most 100000 points", f"not of {len(values)}")
    else:
        check_mentions(caught.value, "list", "at most 100000 values", "any_size", f"not {len(values)}")


@pytest.mark.slow
def test_a_range_is_equal_to_a_list_of_its_numbers():
    for values in (range(1, 8, 3), range(7, 0, -3), range(3, 4)):
        rows = lt.sweep({"workloads": [{"relu": {"height": values, "width": 1, "channels": 16}}]}, jobs=1)
        assert [row["height"] for row in rows] == list(values)
