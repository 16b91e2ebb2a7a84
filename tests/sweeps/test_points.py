"""Which points a sweep has: ranges, constraints, samples; and files that contradict themselves."""

import pytest
from sweep_files import check_mistake, read

from lathe.sweeps.dry_run import planned
from lathe.sweeps.errors import SweepError
from lathe.sweeps.specification import Axis, Grid, Sample, Span

MATMUL = "workloads:\n  - matmul: {m: 16, n: 16, k: 16}\n"


def changes(sweep, key):
    return [point.changes[key] for point in sweep.points()]


def test_a_range_has_both_its_ends(tmp_path):
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


def test_keys_that_move_together_may_have_a_range(tmp_path):
    sweep = read(tmp_path, "machine:\n  block_in, block_out: {powers_of_two: [16, 32]}\n" + MATMUL)
    assert [dict(point.changes) for point in sweep.points()] == [
        {"block_in": 16, "block_out": 16},
        {"block_in": 32, "block_out": 32},
    ]


def test_a_shape_may_have_a_range(tmp_path):
    sweep = read(tmp_path, "workloads:\n  - matmul: {m: {from: 1, to: 3}, n: 16, k: 16}\n")
    assert [point.parameters["m"] for point in sweep.points()] == [1, 2, 3]


def test_a_grid_is_counted_and_reached_without_being_held():
    grid = Grid((Axis(("a",), Span(range(10**9))), Axis(("b", "c"), ((1, 2), (3, 4)))))
    assert grid.count == 2 * 10**9
    assert grid.at(2 * 10**9 - 1) == {"a": 10**9 - 1, "b": 3, "c": 4}
    assert [grid.at(place)["b"] for place in range(3)] == [1, 3, 1]


def test_constraints_leave_points_out(tmp_path):
    text = "machine:\n  memory.latency: [0, 32, 64]\n  memory.bus_bits: [64, 128]\nconstraints:\n"
    text += "  - memory.latency * memory.bus_bits <= 4096\n  - block_in == 16 and inp_depth > 1\n"
    sweep = read(tmp_path, text + MATMUL)
    assert [(point.changes["memory.latency"], point.changes["memory.bus_bits"]) for point in sweep.points()] == [
        (0, 64), (0, 128), (32, 64), (32, 128), (64, 64),
    ]  # fmt: skip
    assert [each.reason for each in planned(sweep)][-1] == (
        "The constraint 'memory.latency * memory.bus_bits <= 4096' does not hold."
    )


def test_a_machine_that_does_not_exist_is_a_row_whatever_constraints_say(tmp_path):
    sweep = read(tmp_path, "machine:\n  block_in: [16, 24]\nconstraints: block_in < 20\n" + MATMUL)
    assert [each.status for each in planned(sweep)] == ["ok", "invalid machine"]


def test_a_sample_has_so_many_points_the_same_ones_each_time(tmp_path):
    text = "machine:\n  memory.latency: {from: 0, to: 999}\nsample: {points: 50, seed: 3}\n" + MATMUL
    first, again = (changes(read(tmp_path, text), "memory.latency") for _ in range(2))
    assert first == again == sorted(set(first))
    assert len(first) == 50
    assert first != changes(read(tmp_path, text.replace("seed: 3", "seed: 4")), "memory.latency")


def test_a_sample_of_a_grid_that_is_smaller_is_all_of_it():
    assert Sample(10).places(4) == [0, 1, 2, 3]


def test_a_sample_of_more_points_than_lists_have_is_drawn():
    places = Sample(3, seed=1).places(10**30)
    assert places == Sample(3, seed=1).places(10**30) == sorted(set(places))
    assert len(places) == 3
    assert max(places) < 10**30


def test_a_grid_of_any_size_may_be_sampled_or_meant(tmp_path):
    text = (
        "machine:\n  memory.latency: {from: 0, to: 999999}\n  memory.outstanding_reads: {from: 1, to: 1000}\n" + MATMUL
    )
    assert len(read(tmp_path, text + "sample: {points: 3}\n").points()) == 3
    sweep = read(tmp_path, text, any_size=True)
    assert sweep.count == 10**9
    assert sweep.point(10**9 - 1).changes == {"memory.latency": 999999, "memory.outstanding_reads": 1000}
    assert next(sweep.places()) == 0


# fmt: off
MISTAKES = {
    "an unknown field": ("machine:\n  block_inn: 16\n" + MATMUL, 2, "block_inn", None),
    "an empty axis": ("machine:\n  block_in: []\n" + MATMUL, 2, "block_in",
        "block_in of {file}, line 2, must be at least one value, not an empty list. Add a value."),
    "an empty range": ("machine:\n  memory.latency: {from: 8, to: 0}\n" + MATMUL, 2, "memory.latency",
        "The range of memory.latency of {file}, line 2, must be one with a number in it, not from 8 to 0. Turn it "
        "round."),
    "a range without an end": ("machine:\n  memory.latency: {from: 8}\n" + MATMUL, 2, "memory.latency",
        "The range of memory.latency of {file}, line 2, must be complete, not without to. It needs from and to."),
    "a range that stands still": ("machine:\n  memory.latency: {from: 8, to: 9, step: 0}\n" + MATMUL, 2,
        "memory.latency",
        "step of memory.latency of {file}, line 2, must be a whole number of at least 1, not 0. Correct it."),
    "a range of texts": ("machine:\n  memory.latency: {from: a, to: 9}\n" + MATMUL, 2, "memory.latency",
        "from of memory.latency of {file}, line 2, must be a whole number, not 'a'. Correct it."),
    "an unknown key of a range": ("machine:\n  memory.latency: {from: 1, too: 9}\n" + MATMUL, 2, "too",
        "A key of the range of memory.latency of {file}, line 2, must be one of from, to, step, powers_of_two, not "
        "'too'. Did you mean 'to'?"),
    "powers of other numbers": ("machine:\n  block_in: {powers_of_two: [8, 24]}\n" + MATMUL, 2, "block_in",
        "The range of block_in of {file}, line 2, must be two powers of two in rising order, not [8, 24]. Write "
        "'powers_of_two: [8192, 65536]'."),
    "powers and steps": ("machine:\n  block_in: {powers_of_two: [8, 16], step: 2}\n" + MATMUL, 2, "block_in",
        "The range of block_in of {file}, line 2, must be powers_of_two alone, not with other keys. Remove one of "
        "them."),
    "a value that moves twice": ("machine:\n  block_in: 16\n  block_in, block_out: 16\n" + MATMUL, 3, "block_in",
        "Parameter block_in of {file}, line 3, must be given once, not twice. Remove one of the two."),
    "a memory that is given twice": (
        "machine:\n  clock_mhz: 100\n  dram: hbm2\n  memory.bus_bits: 64\n" + MATMUL, 4, "memory.bus_bits",
        "Parameter memory.bus_bits of {file}, line 4, must be left out beside dram, which decides it. "
        "Remove one."),
    "a memory without a clock": ("machine:\n  dram: hbm2\n" + MATMUL, 2, "machine",
        "machine of {file}, line 2, must be a grid with at least one machine that exists, and has none. dram of "
        "machine 'vta' must come with clock_mhz, which its cycles are counted with, and does not. Give clock_mhz."),
    "an unknown memory": ("machine:\n  clock_mhz: 100\n  dram: ddr9\n" + MATMUL, 3, "dram",
        "A value of dram of {file}, line 3, must be one of ddr3_1600, lpddr3_1600, ddr4_3200, lpddr4_3200, gddr5_8000, "
        "gddr6_14000, hbm2, not 'ddr9'. Correct it."),
    "a clock that stands": ("machine:\n  clock_mhz: 0\n" + MATMUL, 2, "machine",
        "machine of {file}, line 2, must be a grid with at least one machine that exists, and has none. clock_mhz of a "
        "sweep must be a number of MHz above 0, up to 1000000, not 0."),
    "a constraint that is no expression": ("constraints:\n  - block_in <=\n" + MATMUL, 2, "constraints",
        "A constraint of {file}, line 2, must be an expression like 'block_in <= 32', and is not: invalid syntax. "
        "Correct it."),
    "a constraint over nothing": ("constraints: memory.latancy < 3\n" + MATMUL, 1, "memory.latancy", None),
    "a constraint that is a number": ("constraints: block_in + 1\n" + MATMUL, 1, "constraints",
        "constraints of {file}, line 1, must be true or false of every machine, and are not. The constraint "
        "'block_in + 1' must be true or false of every machine; it is 17 on machine 'vta', neither true nor false."),
    "a constraint that calls": ("constraints: block_in.bit_length() < 3\n" + MATMUL, 1, "block_in.bit_length", None),
    "a constraint without end": ("constraints: block_in ** 9999999 ** 9 > 1\n" + MATMUL, 1, "constraints", None),
    "a constraint that divides by nothing": ("constraints: 1 // memory.latency > 0\nmachine:\n  memory.latency: 0\n"
        + MATMUL, 1, "constraints", None),
    "constraints that contradict each other": ("constraints:\n  - block_in < 16\n  - block_in > 16\n" + MATMUL, 2,
        "constraints",
        "constraints of {file}, line 2, must be such that one of the 1 points is left, and leave none. The first "
        "breaks 'block_in < 16'."),
    "no constraint": ("constraints: []\n" + MATMUL, 1, "constraints",
        "constraints of {file}, line 1, must be at least one expression, not an empty list. Add one."),
    "a sample and a search": ("sample: {points: 1}\nsearch: {objectives: cycles, points: 1}\n" + MATMUL, 2, "search",
        "search of {file}, line 2, must be left out beside sample, not given too. Remove one."),
    "a sample of nothing": ("sample: {points: 0}\n" + MATMUL, 1, "points",
        "points of sample of {file}, line 1, must be a whole number of at least 1, not 0. Correct it."),
    "a sample without a size": ("sample: {seed: 0}\n" + MATMUL, 1, "points",
        "sample of {file}, line 1, must be complete, not without points. Say how many."),
    "an unknown metric": ("metrics: [cycle]\n" + MATMUL, 1, "cycle", None),
    "a metric twice": ("metrics: [cycles, cycles]\n" + MATMUL, 1, "cycles",
        "Word cycles of {file}, line 1, must be given once, not twice. Remove one of the two."),
    "an unknown objective": ("search: {objectives: [-speed], points: 2}\n" + MATMUL, 1, "-speed", None),
    "an unknown way of schedules": ("schedules: all\n" + MATMUL, 1, "all",
        "A word of schedules of {file}, line 1, must be one of each, shared, not 'all'. Remove it."),
    "a value twice": ("machine:\n  memory.latency: [8, 16, 8]\n" + MATMUL, 2, "memory.latency",
        "The values of memory.latency of {file}, line 2, must be each given once, not twice: 8. Remove one of the "
        "two."),
    "values of two keys twice": ("machine:\n  block_in, batch: [[16, 1], [16, 1]]\n" + MATMUL, 2, "block_in",
        "The values of block_in, batch of {file}, line 2, must be each given once, not twice: 16, 1. Remove one of the "
        "two."),
    "a workload twice": (MATMUL + "  - matmul: {m: 16, n: 16, k: 16}\n", 3, "matmul",
        "Workload matmul of {file}, line 3, must be given once, not twice. Remove one."),
    "a base twice": ("base: [vta, vta]\n" + MATMUL, 1, "base",
        "Machine 'vta' of base of {file}, line 1, must be given once, not twice. Remove one."),
    "a number that is none": ("machine:\n  clock_mhz: [100, .inf]\n" + MATMUL, 2, "clock_mhz",
        "A value of clock_mhz of {file}, line 2, must be a number that there is, not inf. Correct it."),
    "a range without end": ("machine:\n  memory.latency: {from: 0, to: 99999999999999999999}\n" + MATMUL, 2,
        "memory.latency",
        "The range of memory.latency of {file}, line 2, must be one of at most 9223372036854775807 numbers, not from 0 "
        "to 99999999999999999999. Take a smaller one."),
    "an objective small and great": ("search: {objectives: [cycles, -cycles], points: 2}\n" + MATMUL, 1, "cycles",
        "Objective cycles of {file}, line 1, must be as small or as great as possible, not both. Remove one."),
    "a sample of 10⁸": ("sample: {points: 100000000}\n" + MATMUL, 1, "points",
        "points of sample of {file}, line 1, must be at most 100000 without --yes, not 100000000. Take fewer, or say "
        "--yes."),
    "a search of 10⁸": (MATMUL + "search: {objectives: cycles, points: 100000000}\n", 3, "points",
        "points of search of {file}, line 3, must be at most 100000 without --yes, not 100000000. Take fewer, or say "
        "--yes."),
    "energies that are not there": ("energy: none.yaml\n" + MATMUL, 1, "energy",
        "energy of {file}, line 1, must be a table that can be read, and is not. The table of energies {folder}/"
        "none.yaml must be readable, and is not: No such file or directory. Correct the path."),
    "10⁸ points": (MATMUL + "machine:\n  memory.latency: {from: 1, to: 10000}\n"
        "  timing.command_queue_depth: {from: 1, to: 10000}\n", 4, "machine",
        "machine of {file}, line 4, must be a grid of at most 100000 points in all without --yes, not of 100000000. "
        "Give fewer values, take a sample, or say --yes."),
    "10⁸ shapes": ("workloads:\n  - matmul: {m: {from: 1, to: 100000000}, n: 1, k: 1}\n", 2, "workloads",
        "workloads of {file}, line 2, must be a grid of at most 100000 points in all without --yes, not of 100000000. "
        "Give fewer values, take a sample, or say --yes."),
}
# fmt: on


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_line_and_key(tmp_path, mistake):
    check_mistake(tmp_path, *MISTAKES[mistake])


def test_a_range_outside_of_what_a_shape_takes_is_a_mistake(tmp_path):
    with pytest.raises(SweepError, match="must be a whole number of at least 1, not 0"):
        read(tmp_path, "workloads:\n  - matmul: {m: {from: 0, to: 3}, n: 16, k: 16}\n")
