"""``budget:`` of a sweep: each operator is autotuned, so that more of a resource costs no cycles."""

import json

import pytest
from click.testing import CliRunner
from error_checks import check_mentions

import lathe as lt
from lathe.command_line import main
from lathe.sweeps.keys import point_key
from lathe.sweeps.measurement import OK, Options, measure
from lathe.sweeps.specification import Point

SMALL = {"inp_buffer_bytes": 8192, "wgt_buffer_bytes": 65536, "acc_buffer_bytes": 32768}
LAYER = {"height": 20, "width": 21, "channels": 16, "filters": 32, "kernel": 1, "stride": 2, "padding": 1}
PRODUCT = {"m": 108, "n": 31, "k": 217, "epilogue": "requantise"}
PARTS = ("memory.bus_bits", "memory.latency", "memory.outstanding_reads", "block_in", "block_out")


def cycles(workload, parameters, numbers, budget=12, **changes):
    point = Point("vta", {**dict(zip(PARTS, numbers, strict=True)), **SMALL, **changes}, workload, parameters)
    row = measure(point, options=Options(budget=budget))
    assert row.status == OK
    return row.numbers["cycles"]


@pytest.mark.slow
def test_twice_the_bus_costs_no_cycles():
    layer = {**LAYER, "epilogue": "requantise"}
    slow, quick = ((bits, 64, 4, 16, 8) for bits in (64, 128))
    assert cycles("conv2d", layer, quick) < cycles("conv2d", layer, quick, budget=1)
    assert cycles("conv2d", layer, quick) <= cycles("conv2d", layer, slow)


@pytest.mark.slow
def test_twice_the_scratchpads_cost_no_cycles():
    memory, twice = (32, 128, 2, 8, 32), {name: 2 * size for name, size in SMALL.items()}
    assert cycles("matmul", PRODUCT, memory, **twice) <= cycles("matmul", PRODUCT, memory)


@pytest.mark.slow
def test_rows_are_what_builds_with_the_budget_give(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "base: vta\nmachine: {memory.latency: [0, 64]}\nworkloads: [matmul: {m: 40, n: 48, k: 64}]\nbudget: 3\n"
    )
    result = CliRunner().invoke(main, ["sweep", str(tmp_path / "s.yaml"), "--jobs", "1", "--json"])
    rows = json.loads(result.stdout)
    assert len(rows) == 2
    for row in rows:
        A, B = lt.placeholder((40, 64), "int8", name="A"), lt.placeholder((48, 64), "int8", name="B")
        sums = lt.matmul(A, B, transpose_b=True)
        C = lt.compute(sums.shape, lambda i, j, sums=sums: sums[i, j].astype("int8"), "C")
        machine = lt.load_config("vta").with_(**{"memory.latency": row["memory.latency"]})
        program = lt.build(C, [A, B, C], machine, budget=3, cache=False)
        assert lt.simulate(program, timing_only=True).cycles == row["cycles"]


def test_points_with_another_budget_are_other_points():
    point = Point("vta", {}, "matmul", {"m": 4, "n": 4, "k": 4})
    assert point_key(point, Options()) != point_key(point, Options(budget=12))


@pytest.mark.parametrize("value", ["0", "-2", "2.5", "many", "true", "[6]"])
def test_invalid_budgets(tmp_path, value):
    (tmp_path / "s.yaml").write_text(f"base: vta\nbudget: {value}\nworkloads: [matmul: {{m: 4, n: 4, k: 4}}]\n")
    result = CliRunner().invoke(main, ["sweep", str(tmp_path / "s.yaml")])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: budget of the sweep of ")
    check_mentions(result.stderr, "s.yaml, line 2", "integer", "at least 1", "not")
