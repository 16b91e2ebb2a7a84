"""Shifted reuse buffers: the ALU moves cells that stay in a window, and each value is loaded once, as with rings."""

from builtins import sum as total

import pytest
from error_checks import raises
from nests import check
from random_programs import random_inputs
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, sum
from lathe.isa import Alu
from lathe.scheduler import EmitError, Schedule, build, create_schedule

CONFIG = load_config("vta")
A = placeholder((10, 10, 16), "int8", "A")


def blur(step: int = 1) -> Tensor:
    """Sums over windows of 3×3, which move by ``step`` along both dimensions."""

    def body(y: Tensor, x: Tensor, c: Tensor) -> Tensor:
        total = A[step * y, step * x, c].astype("int32")
        for dy, dx in [(dy, dx) for dy in range(3) for dx in range(3) if dy or dx]:
            total = total + A[step * y + dy, step * x + dx, c].astype("int32")
        return total

    extent = (10 - 3) // step + 1
    return compute((extent, extent, 16), body, "B")


def scheduled(B: Tensor, form: str, prologue: str, *, window: bool) -> Schedule:
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].compute_at(s[B], "x" if window else "y")
    lines = s.reuse_at(A, s[B], "y", form=form, prologue=prologue)
    if window:
        s.reuse_at(lines, s[B], "x", form=form, prologue=prologue)
    return s


def loaded_and_moves(s: Schedule) -> tuple[int, int]:
    """Elements of A that are loaded, and ALU instructions."""
    inputs = random_inputs(list(s.program), seed=0)
    program = run(s, CONFIG, inputs)
    loaded = total(load.y_size * load.x_size for load in loads_of(program, "A"))
    return loaded, total(isinstance(each, Alu) for each in program.instructions)


@pytest.mark.sample(1)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("prologue", ["loop", "first"])
@pytest.mark.parametrize("window", [False, True])
def test_values_are_those_of_a_ring_and_each_is_loaded_once(step, prologue, window):
    found = {}
    for form in ("ring", "shift"):
        s = scheduled(blur(step), form, prologue, window=window)
        check(s)
        found[form] = loaded_and_moves(s)
    rows = 10 if step == 1 else 9
    assert found["shift"][0] == found["ring"][0] == rows * rows
    assert found["shift"][1] > found["ring"][1]  # a ring moves no cells


@pytest.mark.parametrize("factor", [2, 3, 8])
def test_tiles_whose_window_moves_by_several_rows(factor):
    B = blur()
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    outer, _ = s[B].split("y", factor=factor)
    s[made].compute_at(s[B], outer)
    s.reuse_at(A, s[B], outer, form="shift")
    check(s)
    assert loaded_and_moves(s)[0] == 100


def test_a_loop_that_runs_backwards_moves_the_other_way():
    B = blur()
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    outer, _ = s[B].split("y", factor=2)
    backwards = s[B].reverse(outer)
    s[made].compute_at(s[B], backwards)
    s.reuse_at(A, s[B], backwards, form="shift")
    check(s)
    assert loaded_and_moves(s)[0] == 100


def test_values_of_a_stage_are_kept_in_place():
    P = compute((10, 10, 16), lambda y, x, c: A[y, x, c].astype("int32") * 3, "P")
    B = compute((8, 10, 16), lambda y, x, c: P[y, x, c] + P[y + 1, x, c] + P[y + 2, x, c], "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].compute_at(s[B], "y")
    s[P].set_scope("acc")
    s[P].reuse_at(s[B], "y", form="shift")
    check(s)
    assert s.count().stages["P"].redundant == 0
    assert loaded_and_moves(s)[0] == 100


def test_each_thread_shifts_its_own():
    B = compute((10, 8, 16), lambda y, x, c: A[y, x, c].astype("int32") + A[y, x + 2, c].astype("int32"), "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].compute_at(s[B], "x")
    s.reuse_at(A, s[B], "x", form="shift")
    s[B].vthread("y", 2)
    check(s)
    assert loaded_and_moves(s)[0] == 100


def test_explain_counts_the_moves():
    explained = scheduled(blur(), "shift", "first", window=False).explain(CONFIG)
    moved = [each for each in explained.of("A.reuse") if each.asked == "alu"]
    assert [(each.loops, each.count) for each in moved] == [((("i0", 1), ("i1", 10), ("i2", 16)), 2 * 7)]


def test_no_instruction_moves_vectors_of_inp():
    X, W = placeholder((12, 64), "int8", "X"), placeholder((32, 192), "int8", "W")
    k, r = reduce_axis(64, "k"), reduce_axis(3, "r")
    C = compute(
        (10, 32),
        lambda i, j: sum(X[i + r, k].astype("int32") * W[j, r * 64 + k].astype("int32"), axis=[r, k]),
        "C",
    )
    s = create_schedule(C)
    made = s.cache_write(C, "acc")
    s[made].compute_at(s[C], "i")
    s.cache_read(W, "wgt", [made])
    s.reuse_at(X, s[C], "i", "inp", form="shift")
    check(s)
    mentions = ("X.reuse", "'ring' in inp", "'shift'", "acc", "form='ring'")
    raises(EmitError, build, s, [X, W, C], CONFIG, kind="machine", mentions=mentions)


def test_no_instruction_moves_values_along_lanes():
    X = placeholder(200, "int32", "X")
    B = compute(184, lambda x: X[x] + X[x + 16], "B")
    s = create_schedule(B)
    made = s.cache_write(B, "acc")
    outer, inner = s[B].split("x", factor=16)
    s[made].compute_at(s[B], outer)
    s[B].vectorize(inner, 16)
    s.reuse_at(X, s[B], outer, form="shift")
    check(s)
    mentions = ("X.reuse", "'ring' along i0", "'shift'", "form='ring'", "layout of B", "vectorize")
    raises(EmitError, build, s, [X, B], CONFIG, kind="machine", mentions=mentions)
