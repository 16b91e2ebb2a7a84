"""Recurrences: the order of stages that depend on each other's earlier values, checked and executed."""

from unittest import mock

import numpy as np
import pytest
from error_checks import check_mentions
from executions import confirm
from nests import check, text
from recurrent_programs import TwoLayers
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, define, placeholder, recurrence, reduce_axis, reference, select, state, sum
from lathe.scheduler import LegalityError, ParallelismError, ScheduleError, create_schedule, interpret


def stencil(height=6, width=7):
    x = placeholder((height, width), "int32", "x")
    return recurrence((height, width), lambda s, i, j: s[i - 1, j] * 2 + s[i, j - 1] * 3 + x[i, j], init=1, name="s")


def refuse(output, command):
    """The error of a refused command, confirmed by executing the refused schedule instance by instance."""
    with pytest.raises(LegalityError) as caught:
        command(create_schedule(output))
    schedule = create_schedule(output)
    with mock.patch("lathe.scheduler.primitives.transaction.check_schedule"):
        command(schedule)
    confirm(caught.value.witness, schedule)
    return caught.value


def test_the_reference_of_two_layers_is_that_of_plain_loops():
    network = TwoLayers(steps=9, size=5)
    data = network.data()
    for name, values in network.meaning(data).items():
        np.testing.assert_array_equal(reference([network.h, network.c], data)[name], values)


def test_stages_of_a_recurrence_start_in_the_loops_that_carry_it():
    network = TwoLayers()
    s = create_schedule([network.h, network.c])
    lines = [line.strip() for line in text(s, "order").splitlines() if line.strip().endswith(":") or "time" in line]
    assert lines == [
        "h:",
        "before:",
        "time [0, t, 0, l, 0, n, 0]",
        "of_before:",
        "time [0, t, 0, l, 1, q, 0, n, 0, k, 0]",
        "below:",
        "time [0, t, 0, l, 2, n, 0]",
        "of_below:",
        "time [0, t, 0, l, 3, q, 0, n, 0, m, 0]",
        "gates:",
        "time [0, t, 0, l, 4, q, 0, n, 0]",
        "c:",
        "time [0, t, 0, l, 5, n, 0]",
        "time [0, t, 0, l, 6, n, 0]",
    ]
    assert s.count().redundant == 0
    check(s)


def test_dependences_on_oneself_have_distances():
    s = create_schedule(stencil())
    assert [str(each) for each in s.dependences()] == [
        "s -> s flow on s, distance (1, 0)",
        "s -> s flow on s, distance (0, 1)",
    ]
    network = TwoLayers()
    flows = {(each.producer, each.consumer): each.distance for each in create_schedule(network.h).dependences()}
    assert flows["c", "c"] == (1, 0, 0)
    assert flows["h", "before"] == (1, 0, 0)
    assert flows["h", "below"] == (0, 1, 0)


def test_a_stencil_along_diagonals():
    s = create_schedule(stencil())
    stage = s.stages[0]
    assert not s.is_parallel("i", stage)
    assert not s.is_parallel("j", stage)
    assert s.parallel_skew(stage, "i", "j") == (1, 1)
    along, diagonal = stage.skew("i", "j")
    stage.reorder(diagonal, along)
    stage.parallelize(along)
    assert s.is_parallel(along)
    check(s)


def test_the_wavefront_over_time_and_layers():
    network = TwoLayers(steps=5, layers=3)
    s = create_schedule([network.h, network.c])
    assert s.parallel_skew(network.h, "t", "l") == (1, 1)
    along, diagonal = s[network.h].skew("t", "l")
    s[network.h].reorder(diagonal, along)
    s[network.h].parallelize(along)
    assert s.count().marked == {"parallelize": {"loop t of h": 5}}
    check(s)


def test_loops_of_a_recurrence_change_in_all_its_stages():
    network = TwoLayers(steps=7)
    for command in (
        lambda host: host.split("t", 3),
        lambda host: host.split("t", nparts=2),
        lambda host: host.tile("t", "l", 4, 1),
        lambda host: host.reorder("l", "t"),
        lambda host: host.skew("t", "l", 2, 1),
    ):
        s = create_schedule([network.h, network.c])
        command(s[network.h])
        assert s.count().redundant == 0
        check(s)


def test_refusals_are_those_of_brute_force():
    error = refuse(stencil(), lambda s: s.stages[0].reverse("i"))
    check_mentions(error, "reverse", "s(i=5, j=0)", "s[4, 0]", "s(i=4, j=0)")
    h, c = (network := TwoLayers(steps=3)).h, network.c
    refuse(h, lambda s: s[h].reverse("l"))
    refuse(h, lambda s: s[h].reorder(*s[h].skew("t", "l", -1, 1)[::-1]))
    refuse(h, lambda s: s[h].shift("l", 1))
    refuse(h, lambda s: s[c].compute_root())


def test_marks_are_refused_with_a_witness():
    x = placeholder(64, "int32", "x")
    total = recurrence(64, lambda total, t: total[t - 1] + x[t], init=0, name="total")
    for mark in (lambda s: s[total].parallelize("t"), lambda s: s[total].vectorize("t", 16)):
        s = create_schedule(total)
        with pytest.raises(ParallelismError) as caught:
            mark(s)
        assert str(caught.value.witness) == "total(t=1) reads total[0] that total(t=0) writes"


def test_a_reduction_over_its_own_earlier_row():
    W = placeholder((5, 5), "int32", "W")
    k = reduce_axis(5, "k")
    s = create_schedule(recurrence((7, 5), lambda h, t, n: sum(W[n, k] * h[t - 1, k], axis=k), init=1, name="h"))
    stage = s.stages[0]
    check(s)
    stage.reorder("t", "k", "n")
    check(s)
    for order in (("k", "t", "n"), ("n", "t", "k")):
        with pytest.raises(LegalityError):
            stage.reorder(*order)


def test_distances_leave_tiles_free_where_they_may_be():
    x = placeholder(40, "int32", "x")
    every_third = recurrence(40, lambda s, t: s[t - 3] + x[t], init=0, name="s")
    s = create_schedule(every_third)
    outer, inner = s[every_third].split("t", 3)
    assert s.is_parallel(inner)
    assert not s.is_parallel(outer)
    s[every_third].vectorize(inner, 3)
    check(s)


def test_a_stage_without_later_reads_may_be_computed_where_it_is_read():
    network = TwoLayers(steps=4)
    s = create_schedule([network.h, network.c])
    for tensor in (network.gates, network.of_before, network.of_below, network.before, network.below):
        s[tensor].compute_at(s[network.h], "l")
    s[network.gates].set_scope("acc")
    check(s)
    with pytest.raises(ScheduleError):
        s[network.h].set_scope("acc")


def test_a_consumer_of_the_last_iteration_runs_afterwards():
    h = state((6, 4), name="h", init=3)
    half = compute((6, 4), lambda t, n: h[t - 1, n] // 2, "half")
    define(h, lambda t, n: half[t, n] + n.astype("int32"))
    last = compute(4, lambda n: h[5, n] * 10, "last")
    s = create_schedule(last)
    assert [stage.name for stage in s.stages] == ["half", "h", "last"]
    check(s)
    s[h].split("t", 4)
    check(s)


def test_an_order_given_as_a_map():
    s = create_schedule(stencil())
    s.stages[0].set_schedule("{ s[i, j] -> [i + j, i] }")
    check(s)
    error = refuse(stencil(), lambda s: s.stages[0].set_schedule("{ s[i, j] -> [i - j, i] }"))
    assert error.witness.tensor == "s"


def test_several_outputs_and_interpretation():
    f, b = recurrence(20, lambda f, b, t: (f[t - 1] + b[t - 1], f[t - 1]), init=(1, 0), name=("f", "b"))
    s = create_schedule([f, b])
    assert interpret(s, {})["f"][:5].tolist() == [1, 2, 3, 5, 8]
    check(s)


def test_a_triangle_in_other_orders():
    def pascal():
        return recurrence(
            (7, 7),
            lambda p, n, k: select((k > 0) & (k < n), p[n - 1, k - 1] + p[n - 1, k], 1),
            name="pascal",
            where=lambda n, k: k <= n,
        )

    s = create_schedule(pascal())
    assert s.count().stages["pascal"].executed == 28
    check(s)
    assert s.is_parallel("k", s.stages[0])
    s.stages[0].reorder("k", "n")
    s.stages[0].split("n", 3)
    check(s)
    refuse(pascal(), lambda s: s.stages[0].reverse("n"))
    for machine in ("vta", "batch4"):
        run(create_schedule(pascal()), load_config(machine), {})


def test_a_recurrence_that_never_reads_itself():
    """Its earlier values are read under a condition that never holds, so that it is in no recurrence."""
    x = placeholder((3, 4), "int32", name="x")
    out = recurrence(
        (3, 4), lambda s, t, i: select((t >= 1) & (i // 3 + 4 < 4), s[t - 1, i // 3 + 4], 1) * 3 + x[t, i], init=1,
        name="out",
    )  # fmt: skip
    s = create_schedule(out)
    s.cache_write(out, "acc")
    run(s, load_config("vta"), {"x": np.arange(12, dtype=np.int32).reshape(3, 4)})
