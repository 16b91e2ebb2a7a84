"""Reuse buffers in shifted, skewed, reversed, separated or shared loops, and with other layouts and regions."""

import pytest
from error_checks import raises
from nests import check
from random_programs import random_inputs
from rings import reads_of
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend.operators import conv2d, requantise
from lathe.scheduler import LegalityError, Schedule, create_schedule

CELLS = 100  # of the input: each is fetched once for each row that needs it


def blur() -> tuple[Tensor, Tensor, Schedule]:
    A = placeholder((10, 10), "int32", "A")
    B = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
    return A, B, create_schedule(B)


ORDERS = {
    "shift": lambda s, B: s[B].shift("x", 3),
    "reverse": lambda s, B: s[B].reverse("x"),
    "shift outside": lambda s, B: s[B].shift("y", 2),
    "reverse outside": lambda s, B: s[B].reverse("y"),
    "interchange": lambda s, B: s[B].interchange("y", "x"),
}


@pytest.mark.parametrize("prologue", ["loop", "first"])
@pytest.mark.parametrize("order", ORDERS)
def test_each_cell_is_fetched_once_whether_the_order_changes_before_or_after(order, prologue):
    for first in (True, False):
        A, B, s = blur()
        if first:
            ORDERS[order](s, B)
        s.reuse_at(A, s[B], next(leaf for leaf in s[B].leaf_axis if leaf.name.startswith("x")), prologue=prologue)
        if not first:
            ORDERS[order](s, B)
        reads = reads_of(s)
        assert reads["A.reuse"] == 240
        if order in ("shift", "shift outside", "reverse outside") or (order == "reverse" and first):
            assert reads["A"] == CELLS


def test_a_loop_that_does_not_begin_as_its_axis_gets_no_lead():
    A, B, s = blur()
    inner = s[B].split(s[B].shift("x", 1), 4)[1]
    s.reuse_at(A, s[B], inner)
    assert not s[B].state.warmup
    reads_of(s)


def test_parts_of_a_loop_begin_with_a_whole_window_each():
    A, B, s = blur()
    s.reuse_at(A, s[B], "x", prologue="first")
    s[B].separate("x", 3)
    assert reads_of(s)["A"] == 120


def test_a_skewed_loop():
    A, B, s = blur()
    across, along = s[B].skew("y", "x")
    s.reuse_at(A, s[B], along)
    assert reads_of(s)["A.reuse"] == 240
    assert across in s[B].leaf_axis


@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_a_loop_that_two_stages_share(prologue):
    A = placeholder((10, 10), "int32", "A")
    B = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
    C = compute((10, 8), lambda y, x: A[y, x + 2] - B[y, x], "C")
    s = create_schedule([B, C])
    s[C].after(s[B], "x")
    s.reuse_at(A, s[C], "x", prologue=prologue)
    reads = reads_of(s)
    assert reads["A"] == CELLS
    assert reads["A.reuse"] == 320


def test_loops_that_are_shared_after_a_buffer_has_been_made():
    A = placeholder((10, 10), "int32", "A")
    B = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
    C = compute((10, 8), lambda y, x: B[y, x] * 2, "C")
    for shared in ("y", "x"):
        s = create_schedule(C)
        s.reuse_at(A, s[B], "x", prologue="first")
        s[C].after(s[B], shared)
        assert reads_of(s)["A"] == CELLS


@pytest.mark.parametrize("region", ["box", "exact"])
def test_what_feeds_a_buffer_is_computed_while_the_buffer_fills(region):
    A = placeholder((10, 10), "int32", "A")
    P = compute((10, 10), lambda y, x: A[y, x] * 3, "P")
    B = compute((10, 8), lambda y, x: P[y, x] + P[y, x + 1] + P[y, x + 2], "B")
    s = create_schedule(B)
    s.reuse_at(P, s[B], "x")
    s[P].compute_at(s[B], "x", region=region)
    assert reads_of(s)["A"] == CELLS


def test_a_stage_that_no_buffer_needs_is_computed_exactly_behind_the_guard():
    A, E = placeholder((10, 10), "int32", "A"), placeholder((10, 20), "int32", "E")
    P = compute((10, 20), lambda y, x: E[y, x] * 3, "P")
    B = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 2] + P[y, 2 * x] + P[y, 2 * x + 4], "B")
    s = create_schedule(B)
    s.reuse_at(A, s[B], "x")
    s[P].compute_at(s[B], "x", region="exact")
    assert reads_of(s)["E"] == 160


def test_a_stage_that_shares_loops_keeps_no_window():
    A = placeholder(12, "int32", "A")
    B = compute(12, lambda i: A[i] * 3, "B")
    C = compute(10, lambda i: B[i] + B[i + 2], "C")
    s = create_schedule(C)
    s[B].set_scope("acc")
    s[B].reuse_at(s[C], "i")
    raises(LegalityError, s[C].after, s[B], "i", mentions=("after", "C(i=0)", "B[2]", "B(i=2)"))
    assert s[B].state.reuse == "ring"
    assert reads_of(s) == {"A": 12, "B": 20}


def test_questions_know_reuse_and_layouts():
    A, B, s = blur()
    assert s.is_legal("reuse_at", A, B, "x")
    assert not s.is_legal("reuse_at", A, B, "q")
    assert s.is_legal("transform_layout", B, lambda y, x: [x, y])
    assert s.is_legal("transform_layout", A, lambda y, x: [x, y])
    assert s.is_parallel("x", B)
    s.reuse_at(A, s[B], "x")
    assert not s.is_parallel("x", B)
    assert s.is_parallel("y", B)


def test_counts_of_a_program_with_another_layout():
    A = placeholder((16, 32), "int8", "A")
    B = compute((16, 32), lambda i, j: A[i, j] + 1, "B")
    s = create_schedule(B)
    s.transform_layout(B, lambda i, j: [j // 16, i, j % 16])
    assert s.count(load_config("vta")).stored["out"] == 512


def test_transformed_and_then_reordered():
    A = placeholder((10, 10), "int32", "A")
    B = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda y, x: [x, y])
    outer, inner, row = s.transform_layout(B, lambda y, x: [x // 4, x % 4, y])
    s[B].reverse(row)
    s[B].shift(outer, 1)
    assert inner in s[B].leaf_axis
    assert reads_of(s) == {"A": 240}


@pytest.mark.parametrize("prologue", ["loop", "first"])
def test_a_tile_loop_of_a_padded_convolution_shifted_after_its_buffer_was_made(prologue):
    data, weights = placeholder((1, 6, 6, 4), "int8", "data"), placeholder((4, 3, 3, 4), "int8", "weights")
    product = conv2d(data, weights, padding=1, name="conv")
    output = requantise(product, 4, name="output")
    s = create_schedule(output)
    made = s.cache_write(output, "acc")
    s.cache_read(weights, "wgt", [product])
    rows, _ = s[output].split(s[output].axis[1], factor=2)
    padded = product.computation.reads[0].tensor
    for tensor in (made, product):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[output], rows)
    s[padded].set_scope("inp")
    s[padded].reuse_at(s[output], rows, prologue=prologue)
    s[output].shift(rows, 1)
    assert s.count().stages[padded.name].redundant == 0
    check(s)
    program = run(s, load_config("tiny"), random_inputs([output], seed=1))
    loaded = [each.y_size * each.x_size for each in loads_of(program, "data")]
    assert sum(loaded) == 6 * 6
