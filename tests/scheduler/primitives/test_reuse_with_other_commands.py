"""Reuse buffers with layouts, shared loops, and several consumers: on the machine, each value is loaded once."""

from builtins import sum as total

import pytest
from error_checks import raises
from nests import check
from random_programs import random_inputs
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, select, sum
from lathe.scheduler import Schedule, ScheduleError, create_schedule

CONFIG = load_config("vta")
A = placeholder((10, 10, 16), "int8", "A")
r = reduce_axis(3, "r")
B = compute((8, 10, 16), lambda y, x, c: sum(A[y + r, x, c].astype("int32"), axis=r), "B")
C = compute((8, 10, 16), lambda y, x, c: B[y, x, c] + A[y + 1, x, c].astype("int32"), "C")


def loaded(s: Schedule) -> int:
    """The number of elements of A that are loaded; the results are checked."""
    check(s)
    program = run(s, CONFIG, random_inputs(list(s.program), seed=0))
    loads = loads_of(program, "A")
    return total(load.y_size * load.x_size for load in loads)


def in_rows(output: Tensor) -> Schedule:
    s = create_schedule(output)
    s[s.cache_write(output, "acc")].compute_at(s[output], "y")
    return s


def columns_first(h: object, w: object, c: object) -> list[object]:
    return [w, h, c]


@pytest.mark.parametrize("form", ["ring", "shift"])
def test_a_tensor_in_another_layout(form):
    s = in_rows(B)
    s.transform_layout(A, columns_first)
    buffer = s.reuse_at(A, s[B], "y", form=form)
    assert s[buffer].buffer_shape == (10, 3, 16)
    assert loaded(s) == 100


def test_a_layout_after_the_buffer_has_been_made():
    s = in_rows(B)
    buffer = s.reuse_at(A, s[B], "y")
    s.transform_layout(A, columns_first)
    assert s[buffer].buffer_shape == (3, 10, 16)
    assert loaded(s) == 100


def test_a_layout_of_the_buffer_itself():
    s = in_rows(B)
    s.transform_layout(s.reuse_at(A, s[B], "y"), columns_first)
    assert loaded(s) == 100


def test_channels_in_blocks_do_not_move_with_the_window():
    s = in_rows(B)
    s.transform_layout(A, lambda h, w, c: [h, w, c // 4, c % 4])
    buffer = s.reuse_at(A, s[B], "y")
    assert s[buffer].buffer_shape == (3, 10, 4, 4)
    check(s)
    run(s, CONFIG, random_inputs([B], seed=0))


def test_rows_in_blocks_do():
    s = in_rows(B)
    s.transform_layout(A, lambda h, w, c: [h // 2, w, h % 2, c])
    raises(ScheduleError, s.reuse_at, A, s[B], "y", kind="limit", mentions=("A", "B.acc", "reuse_at", "(y + r) % 2"))


def test_two_stages_read_one_buffer():
    s = in_rows(C)
    s[B].set_scope("acc")
    s[B].compute_at(s[C], "y")
    s.reuse_at(A, s[C], "y")
    assert loaded(s) == 100


@pytest.mark.parametrize("form", ["ring", "shift"])
@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_a_loop_that_stages_share(form, prologue):
    s = create_schedule(C)
    s[B].set_scope("acc")
    s[C].after(s[B], "y")
    s.reuse_at(A, s[C], "y", form=form, prologue=prologue)
    assert loaded(s) == 100


def test_a_loop_that_is_shared_afterwards():
    s = create_schedule(C)
    s[B].set_scope("acc")
    s.reuse_at(A, s[B], "y", prologue="first")
    s[C].after(s[B], "y")
    assert loaded(s) == 100 + 80  # C reads its own rows


def test_two_tensors_are_kept_in_one_loop():
    E = placeholder((10, 10, 16), "int8", "E")
    F = compute(
        (8, 10, 16), lambda y, x, c: sum(A[y + r, x, c].astype("int32") - E[y + r, x, c].astype("int32"), r), "F"
    )
    s = in_rows(F)
    s.reuse_at(A, s[F], "y")
    s.reuse_at(E, s[F], "y", form="shift")
    assert loaded(s) == 100


def padded(y: Tensor, x: Tensor, c: Tensor) -> Tensor:
    """A column of three values, with zeros around the image."""
    rows = [y + dy - 1 for dy in range(3)]
    first, *rest = [select((row >= 0) & (row < 10), A[row, x, c].astype("int32"), 0) for row in rows]
    for each in rest:
        first = first + each
    return first


FORMS = [(form, prologue) for form in ("ring", "shift") for prologue in ("loop", "first")]


@pytest.mark.parametrize(("form", "prologue"), FORMS)
@pytest.mark.parametrize("factor", [1, 3])
def test_padding_in_the_consumer(form, prologue, factor):
    P = compute((10, 10, 16), padded, "P")
    s = create_schedule(P)
    made = s.cache_write(P, "acc")
    outer, _ = s[P].split("y", factor=factor)
    s[made].compute_at(s[P], outer)
    s.reuse_at(A, s[P], outer, form=form, prologue=prologue)
    assert loaded(s) == 100


@pytest.mark.parametrize(("form", "prologue"), FORMS)
def test_a_strided_reduction_by_line_buffer_and_window_of_a_computed_stage(form, prologue):
    q = reduce_axis(3, "q")
    P = compute((10, 10, 16), lambda y, x, c: A[y, x, c].astype("int32") * 2, "P")
    S = compute((4, 4, 16), lambda y, x, c: sum(P[2 * y + r, 2 * x + q, c], axis=[r, q]), "S")
    s = create_schedule(S)
    made = s.cache_write(S, "acc")
    s[made].compute_at(s[S], "x")
    lines = s.reuse_at(P, s[S], "y", form=form, prologue=prologue)
    s.reuse_at(lines, s[S], "x", form=form, prologue=prologue)
    s[P].set_scope("acc")
    s[P].compute_at(s[S], "y")
    assert s.count().stages["P"].redundant == 0
    assert loaded(s) == 81


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_a_ring_has_room_for_as_many_steps_as_asked_for(copies):
    s = in_rows(B)
    buffer = s.reuse_at(A, s[B], "y")
    s[buffer].double_buffer(copies)
    assert loaded(s) == 100
    program = run(s, CONFIG, random_inputs([B], seed=0))
    places = {load.sram_base for load in loads_of(program, "A") if load.y_size * load.x_size == 10}
    assert len(places) == 3 + copies - 1


def test_a_stage_in_the_loops_of_a_buffer_in_the_loops_of_a_stage_that_build_places():
    X = placeholder((8, 8), "int32", "X")
    S = compute((6, 6), lambda y, x: X[y, x] + X[y + 1, x + 2], "S")
    s = create_schedule(S)
    pixels = s.reuse_at(X, s[S], "x")
    window = s.reuse_at(pixels, s[S], "x")
    s[pixels].compute_at(s[window], s[window].leaf_axis[-1])
    s.reuse_at(X, s[S], "y")
    check(s)
    run(s, CONFIG, random_inputs([S], seed=0))
