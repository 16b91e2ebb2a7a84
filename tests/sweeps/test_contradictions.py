"""What no row could be right with: values that nothing has beside one that is there, and grids without any point."""

import itertools
import time

import pytest
from qdq_models import QdqModel
from sweep_files import check_mistake, read

import lathe as lt
from lathe.sweeps.errors import SweepError
from lathe.sweeps.feasibility import scattered

DRAMS = "ddr3_1600, lpddr3_1600, ddr4_3200, lpddr4_3200, gddr5_8000, gddr6_14000, hbm2"
# fmt: off
BESIDE = {
    "a model": ("  - onnx: {path: [net.onnx,\n      nope.onnx]}\n", 3, "path",
        "Parameter path of onnx of {file}, line 3, must be one that makes a workload, not 'nope.onnx'. "),
    "a script": ("  - python: {path: [mine.py, typo.py]}\n", 2, "path",
        "Parameter path of python of {file}, line 2, must be one that makes a workload, not 'typo.py'. The script "
        "'{folder}/typo.py' must be a Python file that can be read, and is not: No such file or directory. Correct the "
        "path."),
    "a function": ("  - python: {path: mine.py, function: [build, nope], n: [1, 2]}\n", 2, "function",
        "Parameter function of python of {file}, line 2, must be one that makes a workload, not 'nope'. The function "
        "of script {folder}/mine.py must be one that it defines (build), not 'nope'."),
    "a layer": ("  - topology: {path: net.csv, layer: [one, two]}\n", 2, "layer",
        "Parameter layer of topology of {file}, line 2, must be one that makes a workload, not 'two'. The layer of "
        "topology {folder}/net.csv must be one of one, not 'two'."),
    "a topology": ("  - topology: {path: [net.csv, no.csv], layer: one}\n", 2, "path",
        "Parameter path of topology of {file}, line 2, must be one that makes a workload, not 'no.csv'. The topology "
        "{folder}/no.csv must be a CSV file that can be read, and is not: No such file or directory."),
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


@pytest.mark.parametrize("kind", BESIDE)
def test_a_name_that_nothing_has_is_a_mistake_beside_one_that_is_there(folder, kind):
    text, line, key, message = BESIDE[kind]
    (folder / "sweep.yaml").write_text("workloads:\n" + text)
    with pytest.raises(SweepError) as caught:
        read(folder, "workloads:\n" + text)
    assert str(caught.value).startswith(message.format(file=folder / "sweep.yaml", folder=folder))
    assert (caught.value.line, caught.value.key) == (line, key)


def test_names_that_exist_with_some_of_the_others_are_rows(folder):
    (folder / "other.py").write_text("def made(machine): ...\n")
    sweep = read(folder, "workloads:\n  - python: {path: [mine.py, other.py], function: [build, made]}\n")
    assert sweep.count == 4


@pytest.mark.parametrize("axis", ["dram: [hbm2, hbm9]", "clock_mhz, dram: [[200, hbm2], [200, hbm9]]"])
def test_a_memory_that_nothing_has_is_a_mistake_beside_one_that_is_there(tmp_path, axis):
    message = "A value of dram of {file}, line 2, must be one of " + DRAMS + ", not 'hbm9'. Correct it."
    check_mistake(tmp_path, f"machine:\n  {axis}\nworkloads: [digits: ]\n", 2, "dram", message)


NONE = {
    "constraints that no machine keeps": (
        "machine:\n  memory.latency: {from: 0, to: 5000}\nconstraints: memory.latency > 9000\n", 3, "constraints",
        "constraints of {file}, line 3, must be such that one of the 5001 points is left, and leave none. The first "
        "breaks 'memory.latency > 9000'.",
    ),
    "constraints that only machines without existence do not break": (
        "machine:\n  block_in: [3, 16]\nconstraints: block_in > 16\n", 3, "constraints",
        "constraints of {file}, line 3, must be such that one of the 2 points is left, and leave none. The first "
        "breaks 'block_in > 16'.",
    ),
    "machines of which none exists": (
        "machine:\n  block_in: [3]\n  memory.latency: {from: 0, to: 9000}\n", 2, "machine",
        "machine of {file}, line 2, must be a grid with at least one machine that exists, and has none. block_in of "
        "machine 'vta' must be a power of two, not 3. Write an integer such as 1, 2, 4, 8 or 16.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NONE)
def test_a_grid_without_any_point_is_a_mistake_however_large_it_is(tmp_path, kind):
    text, line, key, message = NONE[kind]
    check_mistake(tmp_path, text + "workloads: [digits: ]\n", line, key, message)


def test_shapes_that_never_fit_are_a_mistake_however_many_there_are(tmp_path):
    text = "workloads:\n  - conv2d: {height: 2, width: {from: 9, to: 5009}, channels: 1, filters: 1, kernel: 5}\n"
    with pytest.raises(SweepError, match="must be possible with one of its 5001 combinations, and is with none"):
        read(tmp_path, text)


def test_one_point_that_exists_is_found_wherever_it_lies(tmp_path):
    text = (
        "machine:\n  memory.latency: {from: 0, to: 5000}\nconstraints: memory.latency == 4999\nworkloads: [digits: ]\n"
    )
    assert read(tmp_path, text).count == 5001


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 100, 4097])
def test_scattered_numbers_are_each_once(count):
    found = list(scattered(count))
    assert found[0] == 0
    assert sorted(found) == list(range(count))


def test_scattered_numbers_are_far_from_each_other_from_the_beginning():
    first = sorted(itertools.islice(scattered(10**8), 100))
    assert max(later - earlier for earlier, later in itertools.pairwise(first)) < 3 * 10**8 / 100


@pytest.mark.parametrize("values", [range(10**8), range(10**8, 0, -1), range(10**6), [0] * 100_001])
def test_more_values_than_a_grid_may_have_are_refused_at_once(values):
    start = time.monotonic()
    with pytest.raises(SweepError) as caught:
        lt.sweep({"machine": {"memory.latency": values}, "workloads": [{"digits": None}]})
    assert time.monotonic() - start < 2
    if isinstance(values, range) and values.step > 0:
        assert str(caught.value) == (
            "machine of sweep, line 2, must be a grid of at most 100000 points in all without --yes, not of "
            f"{len(values)}. Give fewer values, take a sample, or say --yes."
        )
    else:
        assert str(caught.value) == (
            f"A list of a sweep must be one of at most 100000 values without any_size, not of {len(values)}. Give "
            "fewer values, or a range that rises with a sample or a search."
        )


def test_a_range_is_as_a_list_of_its_numbers():
    for values in (range(1, 8, 3), range(7, 0, -3), range(3, 4)):
        rows = lt.sweep({"workloads": [{"relu": {"height": values, "width": 1, "channels": 16}}]}, jobs=1)
        assert [row["height"] for row in rows] == list(values)
