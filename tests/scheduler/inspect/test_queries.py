"""Queries of a schedule: dependences, legality, parallelism, counts, shifts and skews."""

from itertools import product

import numpy as np
import pytest
from error_checks import check_mentions, raises
from executions import Instance, execution, takes_in
from nests import CONFIG, blur, check, text, two_stages

from lathe.frontend import Tensor, compute, placeholder, placeholders, recurrence, reduce_axis, select, sum
from lathe.frontend.operators import matmul
from lathe.scheduler import Schedule, ScheduleError, create_schedule


def tiramisu() -> tuple[Tensor, Tensor]:
    """The example of Tiramisu, with as many rows of ``bx`` as ``by`` reads."""
    image = placeholder((100, 200, 3), "int32", "image")
    bx = compute((100, 198, 3), lambda i, j, c: (image[i, j, c] + image[i, j + 1, c] + image[i, j + 2, c]) // 3, "bx")
    by = compute((98, 198, 3), lambda i, j, c: (bx[i, j, c] + bx[i + 1, j, c] + bx[i + 2, j, c]) // 3, "by")
    return bx, by


def test_counts_of_the_example_of_tiramisu():
    bx, by = tiramisu()
    s = create_schedule(by)
    _, j0, _, _ = s[by].tile("i", "j", 32, 32)
    s[bx].compute_at(s[by], j0)
    counts = s.count()
    assert (counts.stages["bx"].executed, counts.stages["bx"].distinct) == (62_964, 59_400)
    assert counts.stages["bx"].redundant == counts.redundant == 3_564
    assert str(counts).splitlines() == [
        "bx: 62964 instances (59400 distinct, 3564 redundant)",
        "by: 58212 instances (58212 distinct, 0 redundant)",
    ]


def counted(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Executed and distinct instances, by enumeration."""
    points: dict[str, list[tuple[int, ...]]] = {stage.name: [] for stage in schedule.stages}
    for event in execution(schedule):
        if isinstance(event, Instance) and event.node.role != "init" and takes_in(event):
            computation = event.node.placement.state.computation
            axes = (*computation.axes, *computation.reduce_axes)
            points[event.node.placement.stage.name].append(tuple(event.point[axis] for axis in axes))
    return {name: (len(found), len(set(found))) for name, found in points.items()}


def scheduled() -> list[Schedule]:
    B, C, _ = blur(7, 8)
    found = []
    for level, factors in product(("yo", "xo", "yi", "xi"), ((2, 3), (5, 1))):
        s = create_schedule(C)
        s[C].tile("y", "x", *factors)
        s[B].compute_at(s[C], level)
        found.append(s)
    s = create_schedule(C)
    _, diagonal = s[C].skew("y", "x")
    s[C].reorder(diagonal, "y")
    s[B].compute_at(s[C], diagonal)
    found.append(s)
    A, k = placeholder((6, 10), "int32", "A"), reduce_axis(4, "k")
    P = compute((6, 10), lambda i, j: A[i, j] * 2, "P")
    Q = compute((6, 7), lambda i, j: sum(P[i, j + k], axis=k), "Q")
    R = compute((5, 7), lambda i, j: Q[i, j] + Q[i + 1, j], "R")
    s = create_schedule(R)
    s[Q].compute_at(s[R], "i")
    s[P].compute_at(s[Q], "k")
    found.append(s)
    D = compute(12, lambda i: select(i % 3 == 0, A[i // 3, 0], A[0, i // 2]), "D")
    E = compute(5, lambda i: D[11 - 2 * i] + D[i], "E")
    s = create_schedule(E)
    s[E].fuse(*s[E].split("i", factor=2))
    s[D].compute_at(s[E], "io.ii")
    found.append(s)
    return found


@pytest.mark.parametrize("number", range(11))
def test_counts_are_those_of_enumeration(number):
    s = scheduled()[number]
    check(s)
    assert {name: (each.executed, each.distinct) for name, each in s.count().stages.items()} == counted(s)


def test_bytes_and_transfers_are_those_of_the_run():
    from lathe.isa import Load, Store
    from lathe.scheduler import build
    from lathe.sim import simulate_program

    A, B = placeholder((60, 64), "int8", "A"), placeholder((96, 64), "int8", "B")
    C = matmul(A, B, transpose_b=True, name="C")
    s = create_schedule(C)
    s[C].split("i", factor=16)
    counts = s.count(CONFIG)
    program = build(s, [*placeholders([C]), C], CONFIG)
    run = simulate_program(program, {}, timing_only=True).counters
    assert dict(counts.loaded) == dict(run.bytes_read)
    assert dict(counts.stored) == dict(run.bytes_written)
    moving = [each for each in program.instructions if isinstance(each, Load | Store) and each.x_size * each.y_size]
    assert np.sum([*counts.loads.values(), *counts.stores.values()]) == len(moving)
    assert counts.dram_bytes == np.sum([*run.bytes_read.values(), *run.bytes_written.values()])
    assert s.count().loaded == {}


def test_dependences_have_uniform_distances_or_none():
    A, k = placeholder((8, 9), "int32", "A"), reduce_axis(3, "k")
    B = compute((8, 9), lambda i, j: A[i, j] + 1, "B")
    C = compute((7, 8), lambda i, j: B[i, j + 1] + B[i + 1, j], "C")
    D = compute((3, 8), lambda i, j: sum(C[2 * i + 0 * k, j], axis=k), "D")
    s = create_schedule(D)
    assert [str(each) for each in s.dependences()] == [
        "B -> C flow on B, distance (0, -1)",
        "B -> C flow on B, distance (-1, 0)",
        "C -> D flow on C, no uniform distance",
        "D -> D reduction on D",
    ]
    flow = s.dependences()[1]
    assert (flow.producer, flow.consumer, flow.tensor, flow.kind, flow.distance, flow.exact) == (
        "B",
        "C",
        "B",
        "flow",
        (-1, 0),
        True,
    )
    assert str(flow.relation) == "{ B[d0, d1] -> C[i = -1 + d0, j = d1] : 0 < d0 <= 7 and 0 <= d1 <= 7 }"


def test_reads_under_conditions_on_data_are_not_exact():
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(8, lambda i: select(A[i] > 0, B[i], 0), "C")
    assert [each.exact for each in create_schedule(C).dependences()] == [False]


def test_data_loops_are_parallel_and_reductions_are_not():
    A, B = placeholder((8, 6), "int8", "A"), placeholder((4, 6), "int8", "B")
    C = matmul(A, B, transpose_b=True, name="C")
    s = create_schedule(C)
    i, _ = s[C].axis
    assert s.is_parallel(i)
    no = s.is_parallel("k", C)
    assert not no
    check_mentions(no, "C")


def test_fused_loops_carry_dependences_between_stages():
    B, C, s = blur(6, 5)
    s[C].shift("y", 2)
    s[C].after(s[B], "y")
    answer = s.is_parallel("y", C)
    assert not answer
    assert answer.witness is not None
    check_mentions(answer.reason, "C(y=0, x=0) reads B[0, 0] that B(y=0, x=0) writes")
    assert not s.is_parallel("y", B)  # the same loop
    assert s.is_parallel("x", B)
    assert s.is_parallel("x", C)


def test_fused_loops_without_distance_are_parallel():
    B, C, s = two_stages()
    s[C].after(s[B], "i")
    assert s.is_parallel("i", C)


def test_is_legal_changes_nothing_and_reports_the_error():
    B, C, s = blur(6, 5)
    before = text(s, "order")
    assert s.is_legal("compute_at", B, C, "y")
    assert s.is_legal("reorder", C, "x", "y")
    assert s.is_legal("cache_read", B, "inp", [C])
    no = s.is_legal("after", C, B, "y")
    assert not no
    assert no.witness is not None
    assert str(no.witness) == "C(y=0, x=0) reads B[1, 0] that B(y=1, x=0) writes"
    check_mentions(s.is_legal("split", C, "y", 0), "no", "factor", "split", "y", "C", 0)
    assert s.is_legal(lambda t: (t[C].shift("y", 2), t[C].after(t[B], "y")))
    assert text(s, "order") == before


def test_the_smallest_shift_is_the_smallest_legal_one():
    bx, by = tiramisu()
    s = create_schedule(by)
    assert s.smallest_shift(by, bx, "i") == (2,)
    assert s.smallest_shift(by, bx, "c") == (2, 0, 0)
    A = placeholder((6, 8), "int32", "A")
    B = compute((6, 8), lambda y, x: A[y, x] + 1, "B")
    C = compute((6, 5), lambda y, x: B[y, x + 3], "C")
    s = create_schedule(C)
    assert s.smallest_shift(C, B, "y") == (0,)
    assert s.smallest_shift(C, B, "x") == (0, 3)
    amounts = s.smallest_shift(C, B, "x")
    for loop, amount in zip(s[C].leaf_axis, amounts, strict=True):
        s[C].shift(loop, amount)
    s[C].after(s[B], "x")
    check(s)


def wave() -> tuple[Tensor, Tensor, Tensor]:
    """C reads B above and to the right, so that both fused loops carry a dependence."""
    A = placeholder((6, 7), "int32", "A")
    B = compute((6, 7), lambda y, x: A[y, x] + 1, "B")
    C = compute((6, 7), lambda y, x: select((y > 0) & (x < 6), B[y - 1, x + 1], 0) + select(x > 0, B[y, x - 1], 0), "C")
    return A, B, C


def test_a_skew_makes_the_inner_loop_parallel():
    _, B, C = wave()
    s = create_schedule(C)
    s[C].after(s[B], "x")
    assert not s.is_parallel("y", C)
    assert not s.is_parallel("x", C)
    before = text(s)
    factors = s.parallel_skew(C, "y", "x")
    assert factors == (2, 1)
    assert text(s) == before
    along, diagonal = s[C].skew("y", "x", *factors)
    s[C].reorder(diagonal, along)
    assert s.is_parallel(along)
    s[C].parallelize(along)
    check(s)
    assert s.count().marked == {"parallelize": {"loop y of C": 6}}


def test_a_parallel_loop_needs_no_skew():
    B, C, _ = two_stages()
    A = placeholder((6, 7), "int32", "A")
    D = compute((6, 7), lambda y, x: A[y, x] + 1, "D")
    assert create_schedule(D).parallel_skew(D, "y", "x") == (1, 0)


def test_a_stage_that_needs_all_of_another_is_shifted_past_it():
    A = placeholder(40, "int32", "A")
    B = compute(40, lambda i: A[i] + 1, "B")
    C = compute(40, lambda i: B[39 - i], "C")
    s = create_schedule(C)
    assert s.smallest_shift(C, B, "i") == (39,)
    s[C].after(s[B], s[C].shift("i", 39))
    check(s)


def test_no_shift_is_legal_if_a_consumer_in_the_same_loop_would_come_first():
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(8, lambda i: B[7 - i], "C")
    D = compute(8, lambda i: C[i] * 2, "D")
    s = create_schedule(D)
    s[D].after(s[C], "i")
    assert s.smallest_shift(C, B, "i") is None


def test_a_skew_is_as_steep_as_long_dependences_require():
    A = placeholder((5, 12), "int32", "A")
    C = recurrence(A.shape, lambda c, y, x: select(x < 5, c[y - 1, x + 7], 0) + c[y, x - 1] + A[y, x], name="C", init=0)
    s = create_schedule(C)
    assert s.parallel_skew(C, "y", "x") == (8, 1)
    along, diagonal = s[C].skew("y", "x", 8, 1)
    s[C].reorder(diagonal, along)
    assert s.is_parallel(along)
    check(s)


def test_a_query_with_a_missing_argument():
    _, _, C = wave()
    mentions = ("'split'", "is_legal", "'axis'")
    raises(ScheduleError, create_schedule(C).is_legal, "split", C, kind="argument", mentions=mentions)
