"""Sweep files: what they mean, and where they are wrong."""

import pytest

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


def test_the_base_is_vta_and_nothing_changes_unless_the_file_says_so(tmp_path):
    (point,) = read(tmp_path, "workloads: [digits: {batch: 2}]").points()
    assert (point.base, point.changes, point.parameters) == ("vta", {}, {"batch": 2})


def test_a_base_file_is_looked_for_beside_the_sweep(tmp_path):
    (tmp_path / "mine.yaml").write_text(config_to_yaml(load_config("tiny")))
    (point,) = read(tmp_path, "base: mine.yaml\nworkloads: [digits: ]").points()
    assert point.base == str(tmp_path / "mine.yaml")


def test_a_base_machine_must_exist(tmp_path):
    with pytest.raises(SweepError) as caught:
        read(tmp_path, "base: vtaa\nworkloads: [digits: ]")
    assert (caught.value.line, caught.value.key) == (1, "base")
    assert str(caught.value) == (
        f"base of {tmp_path / 'sweep.yaml'}, line 1, must be a machine that can be read, and is not. "
        f"The configuration must be one of {SHIPPED}, or the path of a YAML or JSON file, "
        "not 'vtaa'. "
        "Did you mean 'vta'?"
    )


# fmt: off
MISTAKES = {
    "an unknown key": ("workload:\n  - digits:\n", 1,
        "A key of {file}, line 1, must be one of base, machine, workloads, constraints, sample, search, schedules, "
        "budget, metrics, energy, hardware, not 'workload'. Did you mean 'workloads'?"),
    "no workloads": ("base: vta\n", None,
        "The keys of {file} must include workloads, and do not. Name at least one operator there."),
    "workloads that are no list": ("workloads:\n  digits: {batch: 1}\n", 2,
        "workloads of {file}, line 2, must be a list of operators, not {{'digits': {{'batch': 1}}}}. Begin each line "
        "with a dash: '- matmul: {{m: 64, n: 64, k: 64}}'."),
    "an unknown workload": ("workloads:\n  - matmull: {m: 1}\n", 2,
        "A workload of {file}, line 2, must be one of matmul, digits, not 'matmull'. Did you mean 'matmul'?"),
    "an unknown parameter": ("workloads:\n  - matmul:\n      m: 1\n      n: 1\n      kk: 1\n", 5,
        "A parameter of matmul of {file}, line 5, must be one of m, n, k, epilogue, not 'kk'. Did you mean 'k'?"),
    "a missing parameter": ("workloads:\n  - matmul: {m: 1, n: 1}\n", 2,
        "Workload matmul of {file}, line 2, must be complete, not without k. It needs m, n, k."),
    "a parameter that is no number": ("workloads:\n  - matmul: {m: 1.5, n: 1, k: 1}\n", 2,
        "Parameter m of matmul of {file}, line 2, must be a whole number of at least 1, not 1.5. Correct it."),
    "a size of nothing": ("workloads:\n  - matmul: {m: [4, 0], n: 1, k: 1}\n", 2,
        "Parameter m of matmul of {file}, line 2, must be a whole number of at least 1, not 0. Correct it."),
    "an unknown word": ("workloads:\n  - matmul: {m: 1, n: 1, k: 1, epilogue: round}\n", 2,
        "Parameter epilogue of matmul of {file}, line 2, must be cut or requantise, not 'round'. Correct it."),
    "a number for a word": ("workloads:\n  - matmul: {m: 1, n: 1, k: 1, epilogue: 8}\n", 2,
        "Parameter epilogue of matmul of {file}, line 2, must be cut or requantise, not 8. Correct it."),
    "an empty list of values": ("workloads:\n  - matmul: {m: [], n: 1, k: 1}\n", 2,
        "m of {file}, line 2, must be at least one value, not an empty list. Add a value."),
    "a parameter given twice": ("workloads:\n  - matmul: {m: 1, n: 1, k: 1, m: 2}\n", 2,
        "Key m of {file}, line 2, must be given once, not twice. Remove one of the two."),
    "a machine key in two places": ("machine:\n  block_in: 8\n  block_in, block_out: 16\nworkloads: [digits: ]\n", 3,
        "Parameter block_in of {file}, line 3, must be given once, not twice. Remove one of the two."),
    "values that do not match their keys": ("machine:\n  block_in, block_out: [[8, 8, 8]]\nworkloads: [digits: ]\n", 2,
        "A value of block_in, block_out of {file}, line 2, must be a list of 2, not [8, 8, 8]. Correct it."),
    "a base that is no name": ("base: 3\nworkloads: [digits: ]\n", 1,
        "base of {file}, line 1, must be a machine's name or file, not 3. See `lathe configs`."),
    "text that is not YAML": ("workloads:\n  - matmul: {m: 1\n", 3,
        "The text of {file}, line 3, must be YAML, and is not: expected ',' or '}}', but got '<stream end>'. Correct "
        "the line."),
    "an empty file": ("# nothing\n", None,
        "The content of {file} must be keys with values such as 'base: vta', not empty. See configs/sweeps for "
        "examples."),
    "a list": ("- digits\n", 1,
        "The content of {file}, line 1, must be keys with values, not ['digits']. Write 'key: value'."),
}
# fmt: on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_line(tmp_path, mistake):
    text, line, message = MISTAKES[mistake]
    with pytest.raises(SweepError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == message.format(file=tmp_path / "sweep.yaml")
    assert caught.value.line == line


def test_an_unknown_machine_parameter_is_told_with_the_nearest(tmp_path):
    with pytest.raises(SweepError) as caught:
        read(tmp_path, "machine:\n  memory.latencies: 1\nworkloads: [digits: ]\n")
    assert caught.value.key == "memory.latencies"
    assert str(caught.value).startswith(
        f"A machine's parameter of {tmp_path / 'sweep.yaml'}, line 2, must be one of batch, block_in, block_out, "
    )
    assert str(caught.value).endswith("not 'memory.latencies'. Did you mean 'memory.latency'?")


def test_a_grid_without_any_machine_is_a_mistake(tmp_path):
    with pytest.raises(SweepError) as caught:
        read(tmp_path, "base: [vta, tiny]\nmachine:\n  block_in: [12, 24]\nworkloads: [digits: ]\n")
    assert str(caught.value) == (
        f"machine of {tmp_path / 'sweep.yaml'}, line 3, must be a grid with at least one machine that exists, and has "
        "none. block_in of machine 'vta' must be a power of two, not 12. Write an integer such as 1, 2, 4, 8 or 16."
    )
    read(tmp_path, "base: [vta, tiny]\nmachine:\n  block_in: [12, 16]\nworkloads: [digits: ]\n")


def test_a_workload_that_no_shape_makes_is_a_mistake(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "workloads:\n  - relu: {height: 1, width: 1, channels: 1}\n  - conv2d: {height: [2, 3], width: 9, "
        "channels: 1, filters: 1, kernel: 5}\n"
    )
    with pytest.raises(SweepError) as caught:
        read_sweep(path, known_workloads(), make)
    assert str(caught.value) == (
        f"Workload conv2d of {path}, line 3, must be possible with one of its 2 combinations, and is with none. height "
        "of conv2d 'conv2d' with its padding must be at least 5, the extent of the dilated kernel, not 2. Add padding "
        "or use a smaller kernel."
    )
    assert caught.value.line == 3
    path.write_text(path.read_text().replace("[2, 3]", "[2, 5]"))
    assert len(read_sweep(path, known_workloads(), make).points()) == 3


def test_a_border_may_be_nothing_and_other_numbers_not():
    known = known_workloads()["conv2d"]
    assert known["padding"].takes(0)
    assert not known["padding"].takes(-1)
    assert not known["stride"].takes(0)
    assert not known["stride"].takes(True)
    assert known["epilogue"].words == ("cut", "requantise")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SweepError) as caught:
        read_sweep(tmp_path / "absent.yaml", KNOWN)
    assert str(caught.value) == (
        f"The sweep file {tmp_path / 'absent.yaml'} must be readable, and is not: No such file or directory. "
        "Correct the path, or give the name of a shipped one: conv_buffers, matmul_blocks."
    )
