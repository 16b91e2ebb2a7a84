"""Schedules of computations whose domains are not boxes: loops, boxes without conditions, counts, all primitives."""

import numpy as np
import pytest
from nests import check, text

from lathe.frontend import Tensor, compute, define, placeholder, reduce_axis, reference, select, state, sum
from lathe.scheduler import LegalityError, Schedule, create_schedule

A = placeholder((20, 20), "int32", "A")

CONDITIONS = {
    "triangle": lambda i, j: j <= i,
    "band": lambda i, j: (j <= i + 3) & (i <= j + 3),
    "union": lambda i, j: (j < 5) | (i >= 15) | (i - j == 7),
    "stripes": lambda i, j: (i + j) % 3 == 0,
    "steps": lambda i, j: j // 4 <= i // 7,
    "not affine": lambda i, j: (i * j < 60) & (j <= i),
    "data": lambda i, j: (A[i, j] > 2) & (j <= i),
}


def chain(name: str) -> tuple[Tensor, Tensor]:
    where = CONDITIONS[name]
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P", where=where)
    return P, compute((20, 20), lambda i, j: P[i, j] * 2, "Q", where=where)


def tiled(s: Schedule, P: Tensor, Q: Tensor) -> None:
    s[Q].tile("i", "j", 8, 4)
    s[P].split("i", 7)


def placed(region: str) -> object:
    def run(s: Schedule, P: Tensor, Q: Tensor) -> None:
        _, column, _, _ = s[Q].tile("i", "j", 8, 4)
        s[P].compute_at(s[Q], column, region)

    return run


def skewed(s: Schedule, P: Tensor, Q: Tensor) -> None:
    s[Q].skew("i", "j")
    s[P].reverse("i")


def together(s: Schedule, P: Tensor, Q: Tensor) -> None:
    s[Q].after(s[P], "j")


def shifted_together(s: Schedule, P: Tensor, Q: Tensor) -> None:
    later = s[Q].shift("i", 2)
    s[Q].after(s[P], later)


def separated(s: Schedule, P: Tensor, Q: Tensor) -> None:
    s[Q].separate("i", 8)
    s[P].fuse("i", "j")


def cached(s: Schedule, P: Tensor, Q: Tensor) -> None:
    made = s.cache_write(Q, "acc")
    copy = s.cache_read(P, "acc", [made])
    s[copy].compute_at(s[made], s[made].axis[0])
    s[P].set_scope("acc")


def inlined(s: Schedule, P: Tensor, _: Tensor) -> None:
    s[P].inline()


def mapped(s: Schedule, _: Tensor, Q: Tensor) -> None:
    s[Q].set_schedule("{ Q[i, j] -> [i + j, j] }")


def laid_out(s: Schedule, P: Tensor, Q: Tensor) -> None:
    s[Q].transform_layout(lambda i, j: [i // 4, j, i % 4])
    s[P].transform_layout(lambda i, j: [j, i])


COMMANDS = {
    "tile": tiled,
    "box": placed("box"),
    "exact": placed("exact"),
    "missing": placed("missing"),
    "skew and reverse": skewed,
    "after": together,
    "shift and after": shifted_together,
    "separate and fuse": separated,
    "caches": cached,
    "inline": inlined,
    "set_schedule": mapped,
    "transform_layout": laid_out,
}


@pytest.mark.sample(20)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_every_command_keeps_the_meaning_and_each_instance_is_there_once(name, command):
    P, Q = chain(name)
    s = create_schedule(Q)
    COMMANDS[command](s, P, Q)
    check(s)
    i, j = np.indices((20, 20))
    if name != "data":
        exists = CONDITIONS[name](i, j)
        for stage, counted in s.count().stages.items():
            assert (counted.executed, counted.distinct, counted.exact) == (exists.sum(), exists.sum(), True), stage


def test_a_triangle_in_tiles_has_full_tiles_and_tiles_cut_in_rows():
    T = compute((4, 4), lambda i, j: A[i, j], "T", where=lambda i, j: j <= i)
    s = create_schedule(T)
    s[T].tile("i", "j", 2, 2)
    assert text(s, "chunks") == (
        "for io in 0..1:\n"
        "  for jo in 0..1:\n"
        "    for ii in 0..1:\n"
        "      for ji in 0..1:\n"
        "        T[2*io + ii, 2*jo + ji] = A[2*io + ii, 2*jo + ji]\n"
        "    for ii in 1..2:\n"
        "      for ji in 0..2:\n"
        "        T[2*io + ii, 2*jo + ji] = A[2*io + ii, 2*jo + ji]\n"
        "for io in 1..2:\n"
        "  for jo in 0..1:\n"
        "    for ii in 0..2:\n"
        "      for ji in 0..2:\n"
        "        T[2*io + ii, 2*jo + ji] = A[2*io + ii, 2*jo + ji]\n"
        "  for jo in 1..2:\n"
        "    for ii in 0..1:\n"
        "      for ji in 0..1:\n"
        "        T[2*io + ii, 2*jo + ji] = A[2*io + ii, 2*jo + ji]\n"
        "    for ii in 1..2:\n"
        "      for ji in 0..2:\n"
        "        T[2*io + ii, 2*jo + ji] = A[2*io + ii, 2*jo + ji]\n"
    )


def test_before_partitioning_a_domain_is_a_condition_on_loops():
    T = compute((8, 8), lambda i, j: A[i, j], "T", where=lambda i, j: (j <= i) & ((i < 3) | (j % 4 == 1)))
    assert text(create_schedule(T), "loops") == (
        "for i in 0..8:\n"
        "  for j in 0..8:\n"
        "    T[i, j] = A[i, j] while j <= i and max(-i + 2, min(j - 4*((j) // 4) - 1, -j + 4*((j) // 4) + 1)) >= 0\n"
    )


def test_a_domain_of_rows_is_a_shorter_loop():
    T = compute((20, 20), lambda i, j: A[i, j], "T", where=lambda i, _: i >= 7)
    assert text(create_schedule(T), "chunks") == ("for i in 7..20:\n  for j in 0..20:\n    T[i, j] = A[i, j]\n")


def test_conditions_that_always_hold_in_a_tile_are_gone_and_tiles_without_points_too():
    T = compute((20, 20), lambda i, j: A[i, j], "T", where=lambda i, j: (j < 8) & (i >= 4))
    s = create_schedule(T)
    s[T].tile("i", "j", 4, 8)
    assert text(s, "chunks") == (
        "for io in 1..5:\n"
        "  for jo in 0..1:\n"
        "    for ii in 0..4:\n"
        "      for ji in 0..8:\n"
        "        T[4*io + ii, 8*jo + ji] = A[4*io + ii, 8*jo + ji]\n"
    )


def test_dependences_are_those_of_the_points_that_exist():
    P = compute((20, 20), lambda i, j: A[i, j], "P", where=lambda i, j: j <= i)
    Q = compute((20, 20), lambda i, j: P[i, j] + P[i, 0], "Q", where=lambda i, j: j <= i)
    first, second = create_schedule(Q).dependences()
    assert (str(first), first.exact) == ("P -> Q flow on P, distance (0, 0)", True)
    assert int(first.relation.wrap().count_val().to_python()) == 210
    assert second.distance is None
    assert int(second.relation.wrap().count_val().to_python()) == 210


def test_dependences_of_absent_points_forbid_nothing():
    """Row i of Q reads row 19 - i of P, but the domain of Q is rows 10 to 19: both may share loop i."""
    P = compute((20, 20), lambda i, j: A[i, j], "P")
    low = compute((20, 20), lambda i, j: P[19 - i, j], "Q", where=lambda i, _: i >= 10)
    s = create_schedule(low)
    s[low].after(s[P], "i")
    check(s)
    high = compute((20, 20), lambda i, j: P[19 - i, j], "Q", where=lambda i, _: i >= 9)
    s = create_schedule(high)
    with pytest.raises(LegalityError) as refused:
        s[high].after(s[P], "i")
    assert refused.value.witness.consumer == {"i": 9, "j": 0}


def test_iterations_without_points_compute_nothing_for_other_consumers():
    """The domain of M is row 10 onwards: other iterations of its loop are skipped, and P is not computed there."""
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P")
    M = compute((20, 20), lambda i, j: P[i, j] * 2, "M", where=lambda i, _: i >= 10)
    low = compute((20, 20), lambda i, j: P[i, j], "low", where=lambda i, _: i >= 9)
    high = compute((20, 20), lambda i, j: P[i, j], "high", where=lambda i, _: i >= 10)
    s = create_schedule([M, low])
    with pytest.raises(LegalityError) as refused:
        s[P].compute_at(s[M], "i")
    assert refused.value.witness.consumer == {"i": 9, "j": 0}
    s = create_schedule([M, high])
    s[P].compute_at(s[M], "i")
    check(s)
    assert s.count().stages["P"].executed == 200


def test_a_loop_is_not_parallel_if_only_an_earlier_iteration_computes_its_reads():
    """P is computed in loop j of M, where only row 0 has all columns: R reads values that only that row computes."""
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P")
    M = compute((20, 20), lambda i, j: P[0, j] * (i + 2).astype("int32"), "M", where=lambda i, j: (i < 1) | (j < 5))
    R = compute((20, 20), lambda i, j: P[0, j] - i.astype("int32"), "R")
    s = create_schedule([M, R])
    s[M].before(s[R], "i")
    s[P].compute_at(s[M], "j")
    check(s)
    answer = s.is_parallel("i", M)
    assert not answer
    assert answer.witness.consumer == {"i": 1, "j": 5}


def test_a_recurrence_may_have_stages_with_domains():
    x = placeholder((6, 4), "int32", "x")
    h = state((6, 4), "int32", "h", init=0)
    gate = compute((6, 4), lambda t, n: h[t - 1, n] * 2 + 1, "gate", where=lambda t, n: n <= t)
    define(h, lambda t, n: select(n <= t, gate[t, n], 7) + x[t, n])
    s = create_schedule(h)
    check(s)
    assert s.count().stages["gate"].executed == 18
    values = np.arange(24, dtype=np.int32).reshape(6, 4)
    expected, before = [], np.zeros(4, np.int32)
    for t, row in enumerate(values):
        before = np.where(np.arange(4) <= t, before * 2 + 1, 7) + row
        expected.append(before)
    np.testing.assert_array_equal(reference(h, {"x": values}), expected)


def test_tiles_without_points_leave_out_what_is_computed_in_them():
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P")
    M = compute((20, 20), lambda i, j: P[i, j] * 2, "M", where=lambda i, j: (i < 7) & (j <= i))
    s = create_schedule(M)
    outer, _ = s[M].split("i", 4)
    s[P].compute_at(s[M], outer)
    check(s)
    assert s.count().stages["P"].executed == 4 * 4 + 3 * 7
    s[P].compute_at(s[M], outer, "exact")
    check(s)
    assert s.count().stages["P"].executed == 28


def test_rows_of_a_triangle_are_reused_in_a_window():
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P")
    Q = compute((18, 20), lambda i, j: P[i, j] + P[i + 1, j] + P[i + 2, j], "Q", where=lambda i, j: (j <= i) & (i >= 5))
    for prologue in ("loop", "first"):
        s = create_schedule(Q)
        s[P].set_scope("acc")
        s[P].reuse_at(s[Q], "i", prologue=prologue)
        check(s)
        assert s.count().stages["P"].redundant == 0


def test_parallel_loops_of_a_triangle():
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P", where=lambda i, j: j <= i)
    Q = compute((20, 20), lambda i, j: P[i, j] * 2, "Q", where=lambda i, j: j <= i)
    s = create_schedule(Q)
    s[P].compute_at(s[Q], "i")
    s[Q].parallelize("i")
    assert str(s.count()) == (
        "P: 210 instances (210 distinct, 0 redundant)\n"
        "Q: 210 instances (210 distinct, 0 redundant)\n"
        "parallelize: loop i of Q, 20 iterations\n"
        "each of 20 cores: P: 1 to 20 instances\n"
        "each of 20 cores: Q: 1 to 20 instances"
    )


def test_instances_that_data_decides_on_are_counted_as_possible():
    P, Q = chain("data")
    assert str(create_schedule(Q).count()) == (
        "P: at most 210 instances (210 distinct, 0 redundant)\nQ: at most 210 instances (210 distinct, 0 redundant)"
    )


def test_a_reduction_over_a_triangle():
    k = reduce_axis(20, "k")
    P = compute((20, 20), lambda i, j: A[i, j] + 1, "P", where=lambda i, j: j <= i)
    Q = compute((20,), lambda i: sum(P[i, k], axis=k, where=k <= i), "Q", where=lambda i: i % 3 != 1)
    s = create_schedule(Q)
    outer, _ = s[Q].split("i", 6)
    s[P].compute_at(s[Q], outer)
    s[Q].split("k", 7)
    check(s)
