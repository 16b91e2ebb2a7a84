"""The points of a sweep: ranges, constraints, samples; and contradictory files."""

import pytest
from error_checks import check_mentions
from sweep_files import check_mistake, read

from lathe.sweeps.dry_run import planned_points
from lathe.sweeps.specification import Axis, Grid, Sample, Span

MATMUL = "workloads:\n  - matmul: {m: 16, n: 16, k: 16}\n"


def changes(sweep, key):
    return [point.changes[key] for point in sweep.points()]


def test_a_range_includes_both_ends(tmp_path):
    sweep = read(tmp_path, "machine:\n  memory.latency: {from: 0, to: 8, step: 4}\n" + MATMUL)
    assert changes(sweep, "memory.latency") == [0, 4, 8]
    assert changes(read(tmp_path, "machine:\n  memory.latency: {from: 3, to: 5}\n" + MATMUL), "memory.latency") == [
        3,
        4,
        5,
    ]


def test_powers_of_two_double(tmp_path):
    sweep = read(tmp_path, "machine:\n  acc_buffer_bytes: {powers_of_two: [8192, 65536]}\n" + MATMUL)
    assert changes(sweep, "acc_buffer_bytes") == [8192, 16384, 32768, 65536]


def test_keys_that_change_together_may_have_a_range(tmp_path):
    sweep = read(tmp_path, "machine:\n  block_in, block_out: {powers_of_two: [16, 32]}\n" + MATMUL)
    assert [dict(point.changes) for point in sweep.points()] == [
        {"block_in": 16, "block_out": 16},
        {"block_in": 32, "block_out": 32},
    ]


def test_a_shape_may_have_a_range(tmp_path):
    sweep = read(tmp_path, "workloads:\n  - matmul: {m: {from: 1, to: 3}, n: 16, k: 16}\n")
    assert [point.parameters["m"] for point in sweep.points()] == [1, 2, 3]


def test_a_grid_is_not_enumerated():
    grid = Grid((Axis(("a",), Span(range(10**9))), Axis(("b", "c"), ((1, 2), (3, 4)))))
    assert grid.count == 2 * 10**9
    assert grid.at(2 * 10**9 - 1) == {"a": 10**9 - 1, "b": 3, "c": 4}
    assert [grid.at(index)["b"] for index in range(3)] == [1, 3, 1]


def test_points_that_violate_constraints_are_omitted(tmp_path):
    text = "machine:\n  memory.latency: [0, 32, 64]\n  memory.bus_bits: [64, 128]\nconstraints:\n"
    text += "  - memory.latency * memory.bus_bits <= 4096\n  - block_in == 16 and inp_depth > 1\n"
    sweep = read(tmp_path, text + MATMUL)
    assert [(point.changes["memory.latency"], point.changes["memory.bus_bits"]) for point in sweep.points()] == [
        (0, 64), (0, 128), (32, 64), (32, 128), (64, 64),
    ]  # fmt: skip
    check_mentions([each.reason for each in planned_points(sweep)][-1], "'memory.latency * memory.bus_bits <= 4096'")


def test_an_invalid_machine_is_a_row_whatever_its_constraints(tmp_path):
    sweep = read(tmp_path, "machine:\n  block_in: [16, 24]\nconstraints: block_in < 20\n" + MATMUL)
    assert [each.status for each in planned_points(sweep)] == ["ok", "invalid machine"]


def test_a_sample_is_determined_by_its_seed(tmp_path):
    text = "machine:\n  memory.latency: {from: 0, to: 999}\nsample: {points: 50, seed: 3}\n" + MATMUL
    first, again = (changes(read(tmp_path, text), "memory.latency") for _ in range(2))
    assert first == again == sorted(set(first))
    assert len(first) == 50
    assert first != changes(read(tmp_path, text.replace("seed: 3", "seed: 4")), "memory.latency")


def test_a_sample_of_a_smaller_grid_is_the_whole_grid():
    assert Sample(10).indices(4) == [0, 1, 2, 3]


def test_a_grid_of_more_points_than_lists_can_have_is_sampled():
    indices = Sample(3, seed=1).indices(10**30)
    assert indices == Sample(3, seed=1).indices(10**30) == sorted(set(indices))
    assert len(indices) == 3
    assert max(indices) < 10**30


def test_a_grid_of_any_size_may_be_sampled_or_confirmed(tmp_path):
    text = (
        "machine:\n  memory.latency: {from: 0, to: 999999}\n  memory.outstanding_reads: {from: 1, to: 1000}\n" + MATMUL
    )
    assert len(read(tmp_path, text + "sample: {points: 3}\n").points()) == 3
    sweep = read(tmp_path, text, any_size=True)
    assert sweep.count == 10**9
    assert sweep.point(10**9 - 1).changes == {"memory.latency": 999999, "memory.outstanding_reads": 1000}
    assert next(sweep.indices()) == 0


# fmt: off
MISTAKES = {
    "an unknown field": ("machine:\n  block_inn: 16\n" + MATMUL, 2, "block_inn", "not 'block_inn'"),
    "an empty axis": ("machine:\n  block_in: []\n" + MATMUL, 2, "block_in", "block_in", "empty list"),
    "an empty range": ("machine:\n  memory.latency: {from: 8, to: 0}\n" + MATMUL, 2, "memory.latency",
        "range of memory.latency", "not from 8 to 0"),
    "a range without an end": ("machine:\n  memory.latency: {from: 8}\n" + MATMUL, 2, "memory.latency",
        "range of memory.latency", "not without to"),
    "a range with step 0": ("machine:\n  memory.latency: {from: 8, to: 9, step: 0}\n" + MATMUL, 2, "memory.latency",
        "step of memory.latency", "at least 1", "not 0"),
    "a range of texts": ("machine:\n  memory.latency: {from: a, to: 9}\n" + MATMUL, 2, "memory.latency",
        "from of memory.latency", "integer", "not 'a'"),
    "an unknown key of a range": ("machine:\n  memory.latency: {from: 1, too: 9}\n" + MATMUL, 2, "too",
        "range of memory.latency", "from, to, step, powers_of_two", "not 'too'", "'to'?"),
    "powers of other numbers": ("machine:\n  block_in: {powers_of_two: [8, 24]}\n" + MATMUL, 2, "block_in",
        "range of block_in", "powers of two", "not [8, 24]"),
    "powers and steps": ("machine:\n  block_in: {powers_of_two: [8, 16], step: 2}\n" + MATMUL, 2, "block_in",
        "range of block_in", "powers_of_two alone"),
    "a parameter of two axes": ("machine:\n  block_in: 16\n  block_in, block_out: 16\n" + MATMUL, 3, "block_in",
        "Parameter block_in", "not twice"),
    "a memory that is given twice": (
        "machine:\n  clock_mhz: 100\n  dram: hbm2\n  memory.bus_bits: 64\n" + MATMUL, 4, "memory.bus_bits",
        "Parameter memory.bus_bits", "dram"),
    "a memory without a clock": ("machine:\n  dram: hbm2\n" + MATMUL, 2, "machine",
        "machine", "at least one", "dram 'hbm2'", "machine 'vta'", "clock_mhz"),
    "an unknown memory": ("machine:\n  clock_mhz: 100\n  dram: ddr9\n" + MATMUL, 3, "dram",
        "dram", "ddr3_1600, lpddr3_1600, ddr4_3200, lpddr4_3200, gddr5_8000, gddr6_14000, hbm2", "not 'ddr9'"),
    "a clock of 0 MHz": ("machine:\n  clock_mhz: 0\n" + MATMUL, 2, "machine",
        "machine", "at least one", "clock_mhz", "above 0, up to 1000000", "not 0"),
    "a constraint that is no expression": ("constraints:\n  - block_in <=\n" + MATMUL, 2, "constraints",
        "constraint", "'block_in <= 32'", "invalid syntax"),
    "a constraint with an unknown name": ("constraints: memory.latancy < 3\n" + MATMUL, 1, "memory.latancy",
        "not 'memory.latancy'"),
    "a constraint that is a number": ("constraints: block_in + 1\n" + MATMUL, 1, "constraints",
        "constraint 'block_in + 1'", "true or false", "17", "machine 'vta'"),
    "a constraint that calls": ("constraints: block_in.bit_length() < 3\n" + MATMUL, 1, "block_in.bit_length"),
    "a constraint with a huge number": ("constraints: block_in ** 9999999 ** 9 > 1\n" + MATMUL, 1, "constraints",
        "'block_in ** 9999999 ** 9 > 1'", "1024 bits"),
    "a constraint that divides by 0": ("constraints: 1 // memory.latency > 0\nmachine:\n  memory.latency: 0\n"
        + MATMUL, 1, "constraints", "'1 // memory.latency > 0'", "by zero"),
    "constraints that contradict each other": ("constraints:\n  - block_in < 16\n  - block_in > 16\n" + MATMUL, 2,
        "constraints", "constraints", "1 points", "'block_in < 16'"),
    "no constraint": ("constraints: []\n" + MATMUL, 1, "constraints", "constraints", "empty list"),
    "a sample and a search": ("sample: {points: 1}\nsearch: {objectives: cycles, points: 1}\n" + MATMUL, 2, "search",
        "search", "sample"),
    "a sample of nothing": ("sample: {points: 0}\n" + MATMUL, 1, "points", "points of sample", "at least 1", "not 0"),
    "a sample without a size": ("sample: {seed: 0}\n" + MATMUL, 1, "points", "sample", "not without points"),
    "an unknown metric": ("metrics: [cycle]\n" + MATMUL, 1, "cycle", "not 'cycle'", "'cycles'?"),
    "a metric twice": ("metrics: [cycles, cycles]\n" + MATMUL, 1, "cycles", "Word cycles", "not twice"),
    "an unknown objective": ("search: {objectives: [-speed], points: 2}\n" + MATMUL, 1, "-speed", "not '-speed'"),
    "an unknown kind of schedules": ("schedules: all\n" + MATMUL, 1, "all",
        "word of schedules", "each, shared", "not 'all'"),
    "a value twice": ("machine:\n  memory.latency: [8, 16, 8]\n" + MATMUL, 2, "memory.latency",
        "values of memory.latency", "not twice: 8"),
    "values of two keys twice": ("machine:\n  block_in, batch: [[16, 1], [16, 1]]\n" + MATMUL, 2, "block_in",
        "values of block_in, batch", "not twice: 16, 1"),
    "a workload twice": (MATMUL + "  - matmul: {m: 16, n: 16, k: 16}\n", 3, "matmul", "Workload matmul", "not twice"),
    "a base twice": ("base: [vta, vta]\n" + MATMUL, 1, "base", "Machine 'vta' of base", "not twice"),
    "an infinite number": ("machine:\n  clock_mhz: [100, .inf]\n" + MATMUL, 2, "clock_mhz",
        "value of clock_mhz", "not inf"),
    "a range that is too long": ("machine:\n  memory.latency: {from: 0, to: 99999999999999999999}\n" + MATMUL, 2,
        "memory.latency", "range of memory.latency", "9223372036854775807", "not from 0 to 99999999999999999999"),
    "an objective to minimise and maximise": ("search: {objectives: [cycles, -cycles], points: 2}\n" + MATMUL, 1,
        "cycles", "Objective cycles", "not both"),
    "a sample of 10⁸": ("sample: {points: 100000000}\n" + MATMUL, 1, "points",
        "points of sample", "at most 100000", "not 100000000", "--yes"),
    "a search of 10⁸": (MATMUL + "search: {objectives: cycles, points: 100000000}\n", 3, "points",
        "points of search", "at most 100000", "not 100000000", "--yes"),
    "a missing table of energies": ("energy: none.yaml\n" + MATMUL, 1, "energy",
        "energy", "table of energies", "{folder}/none.yaml", "No such file or directory"),
    "10⁸ points": (MATMUL + "machine:\n  memory.latency: {from: 1, to: 10000}\n"
        "  timing.command_queue_depth: {from: 1, to: 10000}\n", 4, "machine",
        "machine", "at most 100000 points", "not of 100000000", "--yes"),
    "10⁸ shapes": ("workloads:\n  - matmul: {m: {from: 1, to: 100000000}, n: 1, k: 1}\n", 2, "workloads",
        "workloads", "at most 100000 points", "not of 100000000", "--yes"),
}
# fmt: on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_with_line_and_key(tmp_path, mistake):
    check_mistake(tmp_path, *MISTAKES[mistake])


def test_a_range_that_exceeds_that_of_a_parameter_is_a_mistake(tmp_path):
    text = "workloads:\n  - matmul: {m: {from: 0, to: 3}, n: 16, k: 16}\n"
    check_mistake(tmp_path, text, 2, "m", "Parameter m of matmul", "at least 1", "not 0")
