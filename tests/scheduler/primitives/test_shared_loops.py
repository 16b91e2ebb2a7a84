"""``after``, ``before``, ``then`` and ``between``: stages in order, and in shared loops."""

from itertools import product
from unittest import mock

import pytest
from documented import as_documented
from error_checks import check_mentions, raises
from executions import confirm
from messages import refusal
from nests import blur, check, text, two_stages
from random_programs import random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, min, placeholder, reduce_axis, select, sum
from lathe.scheduler import BuildError, LegalityError, ScheduleError, create_schedule
from lathe.scheduler.primitives.order import after, before, between, then


def three_stages():
    A = placeholder(60, "int8", "A")
    B = compute(60, lambda i: A[i] + 1, "B")
    C = compute(60, lambda i: B[i] * 2, "C")
    return B, C, compute(60, lambda i: C[i] + B[i], "D")


def test_documentation_of_after():
    B, C, s = two_stages()
    with as_documented(after, s):
        s[C].after(s[B], "i")


def test_documentation_of_before():
    B, C, s = two_stages()
    with as_documented(before, s):
        s[B].before(s[C], "i")


def test_documentation_of_then():
    B, C, s = two_stages()
    with as_documented(then, s):
        assert s[B].then(s[C], "i") is s[C]


def test_documentation_of_between():
    B, C, D = three_stages()
    s = create_schedule(D)
    with as_documented(between, s):
        s[C].between(s[B], "i", s[D], "i")
    check(s)


def test_a_stage_two_rows_behind_finds_its_window():
    B, C, s = blur(6, 5)
    s[C].shift("y", 2)
    s[C].after(s[B], "y")
    assert text(s, "order", "chunks") == (
        "C:\n"
        "  band y [6]\n"
        "    B:\n"
        "      band x [3]\n"
        "      time [0, y, 0, x, 0]\n"
        "  band x [3]\n"
        "  time [0, y, 1, x, 0]\n"
        "for y in 0..2:\n"
        "  for x in 0..3:\n"
        "    B[y, x] = A[y, x] + A[y, x + 1] + A[y, x + 2]\n"
        "for y in 2..6:\n"
        "  for x in 0..3:\n"
        "    B[y, x] = A[y, x] + A[y, x + 1] + A[y, x + 2]\n"
        "  for x in 0..3:\n"
        "    C[y - 2, x] = B[y - 2, x] + B[y - 2 + 1, x] + B[y - 2 + 2, x]\n"
    )
    check(s)
    assert s.count().redundant == 0


@pytest.mark.parametrize("amount", [0, 1])
def test_a_stage_too_close_behind_is_refused_with_a_witness(amount):
    B, C, s = blur(6, 5)
    s[C].shift("y", amount)
    kept = text(s)
    with pytest.raises(LegalityError) as refusal:
        s[C].after(s[B], "y")
    assert text(s) == kept
    with mock.patch("lathe.scheduler.primitives.transaction.check_schedule"):
        s[C].after(s[B], "y")
    confirm(refusal.value.witness, s)


def test_loops_of_different_lengths_go_on_until_the_last_has_ended():
    A = placeholder(9, "int32", "A")
    B = compute(9, lambda i: A[i] + 1, "B")
    C = compute(5, lambda i: B[i] * 2, "C")
    D = compute(7, lambda i: B[i] + C[i // 2], "D")
    s = create_schedule(D)
    s[B].then(s[C], "i").then(s[D], "i")
    check(s)
    assert text(s).startswith("for i in 0..9:\n")


def test_two_loops_shared_and_a_third_of_its_own():
    A = placeholder((4, 5, 3), "int32", "A")
    B = compute((4, 5, 3), lambda i, j, k: A[i, j, k] + 1, "B")
    C = compute((4, 5), lambda i, j: B[i, j, 0] + B[i, j, 2], "C")
    s = create_schedule(C)
    s[C].after(s[B], "j")
    check(s)
    assert text(s, "order") == (
        "C:\n"
        "  band i [4]\n"
        "  band j [5]\n"
        "      B:\n"
        "        band k [3]\n"
        "        time [0, i, 0, j, 0, k, 0]\n"
        "  time [0, i, 0, j, 1]\n"
    )


def test_a_reduction_runs_inside_loops_that_it_shares():
    A, k = placeholder((4, 6), "int32", "A"), reduce_axis(6, "k")
    B = compute(4, lambda i: sum(A[i, k], axis=k), "B")
    C = compute(4, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    s[C].after(s[B], "i")
    s[B].set_scope("acc")
    check(s)


def test_what_others_read_stays_before_them_when_stages_move():
    A = placeholder(6, "int32", "A")
    B = compute(6, lambda i: A[i] + 1, "B")
    C = compute(6, lambda i: B[i] * 2, "C")
    D = compute(6, lambda i: C[i] * 3, "D")
    E = compute(6, lambda i: B[i] * 5, "E")
    s = create_schedule([D, E])
    s[D].after(s[E])
    assert [stage.name for stage in s.stages] == ["B", "C", "E", "D"]
    check(s)


def test_after_at_the_root_undoes_shared_loops_and_orders_independent_stages():
    A = placeholder(6, "int32", "A")
    B = compute(6, lambda i: A[i] + 1, "B")
    C = compute(6, lambda i: A[i] * 2, "C")
    s = create_schedule([B, C])
    kept = text(s)
    s[B].after(s[C])
    assert [stage.name for stage in s.stages] == ["C", "B"]
    s[C].after(s[B], "i")
    check(s)
    s[C].after(s[B], "root")
    assert text(s) == kept


@pytest.mark.parametrize(("shift_y", "shift_x", "level"), list(product(range(4), range(4), "yx")))
def test_every_shift_is_judged_as_execution_judges_it(shift_y, shift_x, level):
    """C reads B below and next to it: refused exactly where a value would be missing."""
    A = placeholder((5, 5), "int32", "A")
    B = compute((5, 5), lambda y, x: A[y, x] + 1, "B")
    C = compute((4, 3), lambda y, x: B[y + 1, x] + B[y, x + 2], "C")
    s = create_schedule(C)
    s[C].shift("y", shift_y)
    s[C].shift("x", shift_x)
    legal = shift_y >= 1 if level == "y" else (shift_y, shift_x) >= (1, 0)
    if legal:
        s[C].after(s[B], level)
        check(s)
    else:
        with pytest.raises(LegalityError):
            s[C].after(s[B], level)


def test_a_stage_cannot_move_before_the_loops_in_which_its_producer_is_computed():
    """Regression: the producer was first in the list of stages, but is computed in loops of the later stage."""
    a = placeholder((5,), "int8", name="a")
    made = compute((5,), lambda i: a[4 - i], name="made")
    host = compute((3, 2), lambda i, j: made[min(i * 2 + j, 4)], name="host")
    other = compute((5,), lambda i: made[i] + 1, name="other")
    schedule = create_schedule([host, other])
    schedule[made].compute_at(schedule[host], schedule[host].axis[0])
    mentions = ("host", "after", "other(i=0)", "made[0]", "made(i=0)")
    raises(LegalityError, schedule[host].after, schedule[other], mentions=mentions)
    assert [stage.name for stage in schedule.stages] == ["made", "host", "other"]


def test_a_negative_shift_lets_the_others_come_later():
    B, C, later = blur(6, 5)
    later[C].shift("y", 2)
    later[C].after(later[B], "y")
    sooner = create_schedule(C)
    loop = sooner[B].shift("y", -2)
    assert text(sooner) == text(create_schedule(C))  # alone in its loop, it has no effect
    sooner[C].after(sooner[B], "y")
    assert text(sooner, "order", "loops", "chunks") == text(later, "order", "loops", "chunks")
    check(sooner)
    sooner[B].shift(loop, -1)  # now it shares the loop
    assert text(sooner).splitlines()[0] == "for y in 0..7:"
    check(sooner)
    with pytest.raises(LegalityError) as caught:
        sooner[C].shift("y", -2)
    assert caught.value.witness.consumer_stage == "C"


def test_a_negative_shift_is_taken_back_by_a_positive_one():
    B, C, s = blur(6, 5)
    s[B].shift("y", -3)
    s[B].shift("y", 1)
    s[C].after(s[B], "y")
    once = create_schedule(C)
    once[C].shift("y", 2)
    once[C].after(once[B], "y")
    assert text(s) == text(once)


def test_a_split_of_a_shared_loop_is_one_of_all_stages():
    A = placeholder((8, 6), "int8", "A")
    B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
    C = compute(A.shape, lambda i, j: B[i, j] * 2, "C")
    for parts in ({"factor": 3}, {"nparts": 3}):
        s = create_schedule(C)
        s[C].after(s[B], "i")
        outer, inner = s[B].split("i", **parts)
        assert [loop.name for loop in s[C].leaf_axis] == ["io", "ii", "j"]
        assert s[C].state.attachment is None
        assert s[B].state.attachment.loops == (outer, inner)
        check(s)


def image():
    return placeholder((6, 5), "int32", "A")


def test_two_fused_loops_are_shared():
    A = image()
    B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
    C = compute(A.shape, lambda i, j: B[i, j] * 3, "C")
    s = create_schedule(C)
    s[B].fuse("i", "j")
    loop = s[C].fuse("i", "j")
    s[C].after(s[B], loop)
    assert text(s) == "for i in 0..6:\n  for j in 0..5:\n    B[i, j] = A[i, j] + 1\n    C[i, j] = B[i, j] * 3\n"
    assert s.is_parallel(loop)
    check(s)


@pytest.mark.parametrize("extent", [30, 33, 24])
def test_a_fused_loop_is_shared_with_a_plain_one_of_another_length(extent):
    A = image()
    flat = compute(extent, lambda f: A[f % 30 // 5, f % 5] + f.astype("int32"), "flat")
    grid = compute(A.shape, lambda i, j: flat[select(5 * i + j < extent, 5 * i + j, 0)] * 2, "grid")
    s = create_schedule([grid, flat])
    s[grid].after(s[flat], s[grid].fuse("i", "j"))
    assert s.count().redundant == 0
    check(s)


def test_a_plain_loop_is_shared_with_fused_ones_of_another_width():
    A = image()
    B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
    flat = compute(30, lambda f: B[f // 5, f % 5] * 2, "flat")
    s = create_schedule(flat)
    s[B].fuse("i", "j")
    s[flat].after(s[B], "f")
    check(s)
    wide = compute((10, 3), lambda i, j: B[(3 * i + j) // 5, (3 * i + j) % 5] * 3, "wide")
    s = create_schedule(wide)
    s[B].fuse("i", "j")
    s[wide].after(s[B], s[wide].fuse("i", "j"))
    check(s)


def product_of_what_is_doubled():
    X, A = placeholder((4, 6), "int32", "X"), placeholder((5, 6), "int32", "A")
    k = reduce_axis(6, "k")
    P = compute((6, 4), lambda k, j: X[j, k] * 2, "P")
    return P, compute((5, 4), lambda i, j: sum(A[i, k] * P[k, j], axis=k), "C")


def test_a_stage_runs_in_the_reduction_of_another():
    P, C = product_of_what_is_doubled()
    s = create_schedule(C)
    s[C].reorder("k", "i", "j")
    s[C].after(s[P], "k")
    assert text(s) == (
        "chunk(i in 0..5, j in 0..4): C[i, j] = 0\n"
        "for k in 0..6:\n"
        "  for j in 0..4:\n"
        "    P[k, j] = X[j, k] * 2\n"
        "  for i in 0..5:\n"
        "    for j in 0..4:\n"
        "      C[i, j] += A[i, k] * P[k, j]\n"
    )
    assert s.count().redundant == 0
    check(s)
    s[C].split("k", 4)
    check(s)
    error = refusal(BuildError, run, s, load_config("vta"), random_inputs([C], seed=1))
    check_mentions(error, "stage P", "reduction of C", "scratchpad", "dram", "s[P].set_scope")
    s[P].set_scope("acc")
    run(s, load_config("vta"), random_inputs([C], seed=1))


def sums_beside(reading=False):
    X, k = placeholder((4, 6), "int32", "X"), reduce_axis(6, "k")
    R = compute(4, lambda i: sum(X[i, k], axis=k), "R")
    Y = compute((4, 6), lambda i, k: X[i, k] * 3 + (R[i] if reading else 0), "Y")
    return R, Y, compute(4, lambda i: R[i] * 2, "Z")


def test_a_reduction_runs_beside_another_stage():
    R, Y, Z = sums_beside()
    s = create_schedule([Y, Z])
    s[Y].after(s[R], "k")
    assert text(s).startswith(
        "for i in 0..4:\n  R[i] = 0\n  for k in 0..6:\n    R[i] += X[i, k]\n    Y[i, k] = X[i, k] * 3 + 0\n"
    )
    assert not s.is_parallel("k", Y)
    assert s.is_parallel("i", Y)
    check(s)
    for command in (
        lambda s: s[Y].reorder("k", "i"),
        lambda s: s[Y].split("k", 4),
        lambda s: s[Y].skew("i", "k"),
    ):
        s = create_schedule([Y, Z])
        s[Y].after(s[R], "k")
        command(s)
        assert s.count().stages["R"].executed == 24
        check(s)
    raises(ScheduleError, s[Y].skew, *s[Y].leaf_axis[::-1], kind="limit", mentions=("R", "Y", "skew"))
    error = refusal(BuildError, run, s, load_config("vta"), random_inputs([Y, Z], seed=1))
    check_mentions(error, "reduction loops", "stage R", "with Y", "Share loops outside the reduction")


def test_a_sum_is_read_when_it_is_whole():
    R, Y, Z = sums_beside(reading=True)
    s = create_schedule([Y, Z])
    mentions = ("after", "Y(i=0, k=0)", "R[0]", "R(i=0)")
    error = raises(LegalityError, s[Y].after, s[R], "k", mentions=mentions)
    with mock.patch("lathe.scheduler.primitives.transaction.check_schedule"):
        s[Y].after(s[R], "k")
    confirm(error.witness, s)
    s = create_schedule(Y)
    s[Y].after(s[R], "i")  # outside the reduction it is complete
    check(s)
    s[R].set_scope("acc")
    raises(ScheduleError, s[Y].after, s[R], "k", kind="legality", mentions=("R", "dram", "Y", "acc", "after"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("machine", ["vta", "tiny"])
@pytest.mark.parametrize(
    "command",
    [
        lambda s, B, C: s[C].after(s[B], "i"),
        lambda s, B, C: s[B].compute_at(s[C], "i", "missing"),
        lambda s, B, C: s[B].compute_at(s[C], "i", "exact"),
    ],
    ids=["after", "missing", "exact"],
)
def test_what_is_stored_in_the_loops_of_a_stage_is_there_when_others_follow_it(command, machine):
    A = placeholder((6, 18), "int32", "A")
    B = compute(A.shape, lambda i, j: A[i, j] * 3, "B")
    C = compute(A.shape, lambda i, j: B[i, j] + select(i > 1, B[i - 2, j], 0), "C")
    D = compute(A.shape, lambda i, j: C[i, j] >> 1, "D")  # would be fused with C, in its own tiles
    for outputs in ([D], [C]):
        s = create_schedule(outputs)
        command(s, B, C)
        run(s, load_config(machine), random_inputs(outputs, seed=0))


def test_what_is_missing_of_a_sum_with_a_stage_inside_is_made_in_acc_and_stored():
    A = placeholder((5, 16), "int32", "A")
    k = reduce_axis(2, "k")
    B = compute((5, 16), lambda i, j: A[i, j] + 1, "B")
    C = compute((4, 16), lambda i, j: sum(B[i + k, j], axis=k), "C")
    D = compute((4, 16), lambda i, j: C[i, j] * 2, "D")
    s = create_schedule(D)
    s[B].compute_at(s[C], "k")
    s[C].compute_at(s[D], "i", "missing")
    check(s)
    run(s, load_config("vta"), random_inputs([D], seed=0))


@pytest.mark.parametrize("factors", [(-1, 2), (1, 2)])
def test_loops_shared_with_a_reduction_are_not_skewed_across_its_sums(factors):
    """A loop over both data and reduction would be of one kind only, and wrongly count as parallel."""
    a, b, k = placeholder((6, 7), "int32", "a"), placeholder((6, 7), "int32", "b"), reduce_axis(7, "k")
    P = compute((6, 7), lambda i, j: a[i, j] + 1, "P")
    R = compute(6, lambda i: sum(b[i, k], axis=k), "R")
    s = create_schedule([R, P])
    s[R].after(s[P], "k")
    raises(ScheduleError, s[P].skew, "i", "j", *factors, kind="limit", mentions=("P", "R", "skew"))
    s[P].skew("i", "j", factors[0], 1)
    check(s)


def test_a_reduction_along_diagonals_of_its_elements_is_refused_on_a_machine():
    a, k = placeholder((6, 7), "int32", "a"), reduce_axis(7, "k")
    P = compute((6, 7), lambda i, j: a[i, j] + 1, "P")
    R = compute(6, lambda i: sum(P[i, k] * 2, axis=k), "R")
    s = create_schedule(R)
    s[P].set_scope("acc")
    s[R].after(s[P], "k")
    s[P].skew("i", "j")
    check(s)
    inputs = random_inputs([R], seed=1)
    raises(BuildError, run, s, load_config("tiny"), inputs, kind="limit", mentions=("stage R", "fused"))
