"""``store_in``: values that share cells over time, accepted or refused by liveness."""

import islpy as isl
import numpy as np
import pytest
from documented import before_and_after
from error_checks import raises
from folds import check_lost, check_stored
from nests import levels, text

from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.scheduler import LegalityError, Schedule, ScheduleError, Stage, create_schedule
from lathe.scheduler.schedule_ir.user_buffers import user_buffers_of

N, M = 12, 14


def stencils() -> tuple[Tensor, Tensor, Schedule]:
    """Tiramisu's example, smaller, with all the rows of bx that by reads."""
    image = placeholder((N, M, 3), "int32", "image")
    bx = compute((N, M - 2, 3), lambda i, j, c: (image[i, j, c] + image[i, j + 1, c] + image[i, j + 2, c]) // 3, "bx")
    by = compute((N - 2, M - 2, 3), lambda i, j, c: (bx[i, j, c] + bx[i + 1, j, c] + bx[i + 2, j, c]) // 3, "by")
    return bx, by, create_schedule(by)


def shape_of(s, tensor):
    return user_buffers_of(s.stages)[s[tensor].state.storage.buffer].shape


def test_before_and_after(golden):
    A = placeholder(60, "int32", "A")
    B = compute(60, lambda i: A[i] + 1, "B")
    C = compute(60, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    s[C].after(s[B], "i")
    before, after = before_and_after(Stage.store_in)
    assert text(s) == before
    s[B].store_in(lambda _: [0], scope="acc")
    assert text(s) == after
    golden(levels(s))
    check_stored(s)


@pytest.mark.parametrize("given", [lambda i, j, c: (c, i, j), "{ bx[i, j, c] -> [c, i, j] }"])
def test_channels_first_is_right_for_both(given):
    bx, by, s = stencils()
    s[bx].store_in(given)
    s[by].store_in(lambda i, j, c: (c, i, j))
    assert shape_of(s, bx) == (3, N, M - 2)
    assert shape_of(s, by) == (3, N - 2, M - 2)
    check_stored(s)


FOLDS = [lambda i, j, _c: (i % 2, j % 2), "{ C[i, j, c] -> [i mod 2, j mod 2] }"]


@pytest.mark.parametrize("given", FOLDS)
def test_two_by_two_is_refused_where_values_wait(given):
    bx, by, s = stencils()
    before = text(s, "order", "loops")
    mentions = ("store_in", "bx(i=0, j=0, c=0)", "bx(i=10, j=10, c=2)", "bx[0, 0]", "by(i=0, j=0, c=0)")
    raises(LegalityError, s[bx].store_in, given, mentions=mentions)
    assert text(s, "order", "loops") == before
    check_lost(lambda: s[bx].store_in(given), s)


@pytest.mark.parametrize("given", FOLDS)
def test_two_by_two_is_right_where_values_are_read_at_once(given):
    image = placeholder((N, M, 3), "int32", "image")
    C = compute((N, M, 3), lambda i, j, c: image[i, j, c] * 3, "C")
    D = compute((N - 1, M, 3), lambda i, j, c: C[i, j, c] + 1, "D")
    s = create_schedule(D)
    s[C].compute_at(s[D], "c")
    s[C].store_in(given)
    assert shape_of(s, C) == (2, 2)
    check_stored(s)


def test_a_window_of_rows_needs_as_many_cells_as_it_is_long():
    bx, by, s = stencils()
    s[by].after(s[bx], s[by].shift("i", 2))
    s[bx].store_in(lambda i, j, c: (i % 3, j, c))
    assert shape_of(s, bx) == (3, M - 2, 3)
    check_stored(s)
    error = check_lost(lambda: s[bx].store_in(lambda i, j, c: (i % 2, j, c)), s)
    assert "by(i=0, j=0, c=0)" in str(error)


def test_a_later_command_is_held_to_it():
    bx, by, s = stencils()
    s[bx].compute_at(s[by], "j")
    s[bx].store_in(lambda i, _j, c: (i % 3, c))
    check_stored(s)
    before = text(s, "order", "loops")
    mentions = ("store_in", 3, "compute_at", "bx(i=0, j=0, c=0)", "bx(i=0, j=11, c=0)", "bx[0, 0]", "by(i=0, j=0, c=0)")
    raises(LegalityError, s[bx].compute_at, s[by], "i", mentions=mentions)
    assert text(s, "order", "loops") == before
    check_lost(lambda: s[bx].compute_at(s[by], "i"), s)


def test_values_outlive_the_iteration_that_makes_them():
    bx, by, s = stencils()
    s[bx].compute_at(s[by], "i", "missing")
    with pytest.raises(LegalityError):
        s[bx].set_scope("acc")
    s[bx].store_in(lambda i, j, c: (i % 3, j, c), scope="acc")
    assert s.count().redundant == 0
    check_stored(s)


def test_an_output_is_live_to_the_end():
    bx, by, s = stencils()
    mentions = ("store_in", 2, "by(i=0, j=0, c=0)", "by(i=8, j=0, c=0)", "by[0, 0, 0]")
    raises(LegalityError, s[by].store_in, lambda i, j, c: (i % 2, j, c), mentions=mentions)
    check_lost(lambda: s[by].store_in(lambda i, j, c: (i % 2, j, c)), s)


def test_an_accumulator_is_live_from_its_first_update_on():
    A = placeholder((6, 5), "int32", "A")
    k = reduce_axis(5, "k")
    T = compute(6, lambda i: sum(A[i, k], axis=k), "T")
    R = compute(6, lambda i: T[i] * 2, "R")
    s = create_schedule(R)
    s[T].compute_at(s[R], "i")
    s[T].store_in(lambda _: 0)
    assert shape_of(s, T) == (1,)
    check_stored(s)
    last = compute(1, lambda i: T[5 + i], "last")  # nothing else is read: only updates read T[0] to T[4]
    s = create_schedule(last)
    s[T].reorder("k", "i")
    error = check_lost(lambda: s[T].store_in(lambda _: 0), s)
    assert error.witness.consumer == {"i": 0, "k": 4}  # an update whose accumulator is overwritten
    assert error.witness.consumer_stage == "T"


def test_a_read_that_a_condition_keeps_from_happening_keeps_nothing_alive():
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(8, lambda i: B[i] + select(i < 4, B[i // 4], 0), "C")
    s = create_schedule(C)
    s[C].after(s[B], "i")
    s[B].store_in(lambda i: (i + 6) % 8 % 7)  # 0 and 7 share a cell; B[0] is read until i = 3
    check_stored(s)
    check_lost(lambda: s[B].store_in(lambda i: i % 3), s)


def test_maps_of_isl_and_functions_say_the_same():
    bx, by, s = stencils()
    s[bx].compute_at(s[by], "c")
    folded = isl.Map("{ bx[i, j, c] -> [(2i + j) mod 5, floor(c/2)] }")
    s[bx].store_in(folded)
    cells = s[bx].state.storage.coordinates()
    s[bx].store_in(lambda i, j, c: ((2 * i + j) % 5, c // 2))
    for mine, theirs in zip(s[bx].state.storage.coordinates(), cells, strict=True):
        np.testing.assert_array_equal(*np.broadcast_arrays(mine, theirs))


def test_layout_comes_first():
    bx, by, s = stencils()
    s[bx].store_in(lambda i, j, c: (c, i, j))
    mentions = ("transform_layout", "bx[c, i, j]", "store_in")
    raises(ScheduleError, s[bx].transform_layout, lambda i, j, c: [c, i, j], kind="limit", mentions=mentions)
    s = create_schedule(by)
    s[bx].transform_layout(lambda i, j, c: [c, i, j])
    s[bx].store_in(lambda c, i, j: (i, c * 12 + j))
    assert shape_of(s, bx) == (N, 36)
    check_stored(s)


def test_a_reuse_buffer_may_be_stored_as_the_user_says():
    A = placeholder((9, 6), "int32", "A")
    B = compute((7, 6), lambda y, x: A[y, x] + A[y + 1, x] + A[y + 2, x], "B")
    s = create_schedule(B)
    lines = s.reuse_at(A, s[B], "y")
    s[lines].store_in(lambda y, x: (x, y % 3))
    assert shape_of(s, lines) == (6, 3)
    check_stored(s)
    check_lost(lambda: s[lines].store_in(lambda y, x: (x, y % 2)), s)


def test_caches_are_stored_like_any_stage():
    bx, by, s = stencils()
    made = s.cache_write(by, "acc")
    rows = s.cache_read(bx, "acc", [made])
    s[rows].compute_at(s[made], "i")
    s[rows].store_in(lambda i, j, c: (i % 3, c, j))
    assert shape_of(s, rows) == (3, 3, M - 2)
    check_stored(s)
    check_lost(lambda: s[rows].store_in(lambda i, j, c: (i % 2, c, j)), s)


def test_a_loop_whose_iterations_use_one_cell_is_not_parallel():
    bx, by, s = stencils()
    s[bx].compute_at(s[by], "j")
    assert s.is_parallel("i", by)
    s[bx].store_in(lambda i, j, c: (i % 3, j, c))
    assert s.is_parallel("j", by)
    assert str(s.is_parallel("i", by)) == "no: two iterations use cell bx[0, 0, 0], which one of them writes"
    s.allocate_at(s[bx].buffer, by, "j")
    assert s.is_parallel("i", by)
    s = create_schedule(by)
    s[bx].compute_at(s[by], "j")
    s[bx].store_in(lambda i, _j, c: (i % 3, c))
    raises(ScheduleError, s[by].vthread, "j", 2, kind="legality", mentions=("buffer bx", "loop j", "by", "2 threads"))


def test_threads_have_buffers_of_their_own_that_are_allocated_inside():
    bx, by, s = stencils()
    s[bx].compute_at(s[by], "j")
    s.allocate_at(s[bx].store_in(lambda i, _j, c: (i % 3, c)), by, "j")
    s[by].vthread("j", 2)
    check_stored(s)


def test_a_triangle_needs_no_cells_for_what_does_not_exist():
    A = placeholder((8, 8), "int32", "A")
    B = compute((8, 8), lambda i, j: A[i, j] + 1, "B", where=lambda i, j: j <= i)
    C = compute((8, 8), lambda i, j: B[i, j] * 2, "C", where=lambda i, j: j <= i)
    s = create_schedule(C)
    s[B].store_in(lambda i, j: i * (i + 1) // 2 + j)
    s[C].store_in(lambda i, j: (j, i))
    assert shape_of(s, B) == (36,)
    check_stored(s)
    check_lost(lambda: s[B].store_in(lambda i, j: (i * (i + 1) // 2 + j) % 35), s)


def test_questions_know_storage():
    bx, by, s = stencils()
    s[bx].compute_at(s[by], "i")
    b = s[bx].store_in(lambda i, j, c: (i % 3, j, c))
    assert s.is_legal("store_in", bx, lambda i, j, c: (i % 4, c, j))
    answer = s.is_legal("store_in", bx, lambda i, j, c: (i % 2, c, j))
    assert not answer
    assert answer.witness.tensor == "bx"
    assert s.is_legal("allocate_at", b, by, "i")
    assert not s.is_legal("device_to_host", bx)
    assert s.is_legal("copy_at", bx, by, "i")
    assert s[bx].buffer is b
    assert not s.allocations


@pytest.mark.parametrize(
    ("given", "mentions"),
    [
        (lambda i, j: (i * 10**9, j), ("buffer P", 268435456, 15000000005, 20)),
        ("{ P[i, j] -> [j, i + 1099511627776] }", ("buffer P", 268435456, 5497558138900, 20)),
        ("{ P[i, j] -> [18446744073709551616i, j] }", ("P", "64 bits", 18446744073709551616)),
        ("{ P[i, j] -> [i, j + 18446744073709551616] }", ("P", "64 bits", 18446744073709551616)),
    ],
)
def test_cells_that_are_too_far_apart_are_refused(given, mentions):
    X = placeholder((4, 5), "int32", "X")
    P = compute((4, 5), lambda i, j: X[i, j] * 3, "P")
    s = create_schedule(compute((4, 5), lambda i, j: P[i, j] + 1, "Q"))
    before = levels(s)
    raises(ScheduleError, s[P].store_in, given, kind="limit", mentions=("store_in", *mentions))
    assert levels(s) == before


def test_a_declared_buffer_is_not_larger_than_that():
    X = placeholder((4, 5), "int32", "X")
    P = compute((4, 5), lambda i, j: X[i, j] * 3, "P")
    s = create_schedule(compute((4, 5), lambda i, j: P[i, j] + 1, "Q"))
    rows, mentions = s.buffer("rows", (10**6, 10**6)), ("rows", "store_in", "P", 268435456, 1000000000000, 20)
    raises(ScheduleError, s[P].store_in, rows, lambda i, j: (i, j), kind="limit", mentions=mentions)
