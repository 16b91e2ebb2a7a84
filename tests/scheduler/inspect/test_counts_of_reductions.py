"""Counts of reductions with a ``where``: updates that it excludes are not counted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executions import Instance, execution, takes_in
from random_programs import random_inputs

from lathe.frontend import compute, max, min, parameter, placeholder, prod, reduce_axis, select, sum
from lathe.scheduler import Schedule, bind, create_schedule, interpret

X = placeholder((12, 12), "int32", "X")
REDUCTIONS = {"sum": sum, "prod": prod, "max": max, "min": min}


def check_counts(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Executed and distinct instances of each stage; fails unless ``count``, enumeration and interpreter agree."""
    instances: dict[str, int] = {}
    interpret(schedule, random_inputs(list(schedule.program), seed=1), instances=instances)
    points: dict[str, list[tuple[int, ...]]] = {stage.name: [] for stage in schedule.stages}
    for event in execution(schedule):
        if isinstance(event, Instance) and event.node.role != "init" and takes_in(event):
            points[event.node.placement.stage.name].append(tuple(event.point.values()))
    counted = {name: (each.executed, each.distinct) for name, each in schedule.count().stages.items()}
    assert counted == {name: (len(found), len(set(found))) for name, found in points.items()}
    assert {name: executed for name, (executed, _) in counted.items()} == instances
    return counted


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_a_reduction_over_a_triangle_has_as_many_instances_as_the_triangle_has_points(kind):
    r = reduce_axis(12, "r")
    C = compute((12,), lambda x: REDUCTIONS[kind](X[x, r], axis=r, where=x >= r), "C")
    s = create_schedule(C)
    assert check_counts(s) == {"C": (78, 78)}
    reads: dict[str, int] = {}
    interpret(s, random_inputs([C], seed=1), reads=reads)
    assert reads == {"X": 78}


@pytest.mark.parametrize("order", ["split", "tiled", "fused", "shifted", "set_schedule"])
def test_counts_do_not_depend_on_the_loop_order(order):
    r = reduce_axis(12, "r")
    C = compute((12,), lambda x: sum(X[x, r], axis=r, where=x >= r), "C")
    s = create_schedule(C)
    if order == "split":
        s[C].split("x", 5)
        s[C].split("r", 7)
    elif order == "tiled":
        s[C].tile("x", "r", 5, 3)
    elif order == "fused":
        s[C].fuse(*s[C].split("x", 5))
    elif order == "shifted":
        s[C].shift("x", 3)
    else:
        s[C].set_schedule("{ C[x, r] -> [r, 11 - x] }")
    assert check_counts(s) == {"C": (78, 78)}


CONDITIONS: dict[str, Callable[..., Any]] = {
    "several": lambda x, r: (r <= x) & (r % 3 != 1) & (x < 10),
    "not affine": lambda x, r: x * r < 20,
    "never": lambda x, r: r > x + 12,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_any_condition_counts(name):
    condition = CONDITIONS[name]
    expected = int(condition(*np.ogrid[:12, :12]).sum())
    r = reduce_axis(12, "r")
    C = compute((12,), lambda x: sum(X[x, r], axis=r, where=condition(x, r)), "C")
    assert check_counts(create_schedule(C)) == {"C": (expected, expected)}


def test_a_domain_and_a_condition_of_the_reduction_count_together():
    def domain(x: Any, y: Any) -> Any:
        return (x * y < 30) & (y != 5)

    r = reduce_axis((2, 10), "r")
    C = compute((12, 12), lambda x, y: sum(X[x, r] + X[y, r], axis=r, where=x >= r), "C", where=domain)
    x, y, k = np.ogrid[:12, :12, 2:10]
    expected = int((domain(x, y) & (x >= k)).sum())
    assert check_counts(create_schedule(C)) == {"C": (expected, expected)}


def test_recomputation_is_counted():
    r = reduce_axis(12, "r")
    P = compute((12,), lambda x: sum(X[x, r], axis=r, where=x >= r), "P")
    Q = compute((10,), lambda x: P[x] + P[x + 2], "Q")
    s = create_schedule(Q)
    s[P].compute_at(s[Q], s[Q].split("x", 3)[0])
    executed, distinct = check_counts(s)["P"]
    assert (executed, distinct) == (15 + 30 + 45 + 33, 78)  # rows 0 to 4, 3 to 7, 6 to 10 and 9 to 11


def test_an_instance_of_several_outputs_counts_if_it_updates_one_of_them():
    r = reduce_axis(12, "r")
    low, high = compute(
        (12,),
        lambda x: (sum(X[x, r], axis=r, where=x >= r), max(X[x, r], axis=r, where=(r > 9) & (x < 3))),
        "both",
    )
    s = create_schedule([low, high])
    (counted,) = check_counts(s).values()
    assert counted == (84, 84)
    all_of_one = compute((12,), lambda x: (sum(X[x, r], axis=r, where=x >= r), max(X[x, r], axis=r)), "one")
    (counted,) = check_counts(create_schedule(list(all_of_one))).values()
    assert counted == (144, 144)


def test_a_select_of_the_neutral_value_is_a_condition_in_either_branch():
    r = reduce_axis(12, "r")
    C = compute((12,), lambda x: sum(select(x < r, 0, select(r == 0, 0, X[x, r])), axis=r), "C")
    assert check_counts(create_schedule(C)) == {"C": (66, 66)}


def test_data_dependent_conditions_count_as_true_and_others_exactly():
    r = reduce_axis(12, "r")
    C = compute((12,), lambda x: sum(X[x, r], axis=r, where=(x >= r) & ((X[x, r] > 0) | (x == 3))), "C")
    assert str(create_schedule(C).count()) == "C: at most 78 instances (78 distinct, 0 redundant)"
    D = compute((12, 12), lambda x, y: X[x, y], "D", where=lambda x, y: (x * y < 20) & (X[x, y] > 0))
    assert str(create_schedule(D).count()) == "D: at most 67 instances (67 distinct, 0 redundant)"


def test_a_condition_on_a_symbolic_parameter_counts_for_each_value():
    n = parameter("n", minimum=1)
    A = placeholder((n, n), "int32", "A")
    r = reduce_axis(n, "r")
    C = compute((n,), lambda x: sum(A[x, r], axis=r, where=x >= r), "C")
    s = create_schedule(C)
    for size in (1, 5, 12):
        assert bind(s, {"n": size}).count().stages["C"].executed == size * (size + 1) // 2


def test_cores_share_the_instances_of_a_triangle():
    r = reduce_axis(12, "r")
    C = compute((12,), lambda x: sum(X[x, r], axis=r, where=x >= r), "C")
    s = create_schedule(C)
    s[C].parallelize("x")
    assert [dict(core.instances) for core in s.count().cores] == [{"C": n} for n in range(1, 13)]


def test_reads_under_a_condition_on_stored_values_are_counted():
    gate = compute((12,), lambda x: X[x, 0], "gate")
    C = compute((12,), lambda x: select(gate[x] > 0, X[x, 1], 0), "C")
    s = create_schedule(C)
    s[gate].compute_at(s[C], "x")
    s[gate].store_in(lambda x: [x % 3], scope="dram")
    values = random_inputs([C], seed=1)
    reads: dict[str, int] = {}
    interpret(s, values, reads=reads)
    assert reads["X"] == 12 + int((values["X"][:, 0] > 0).sum())
