"""Reuse buffers in loops that several stages share: all of them have the same warm-up iterations."""

from collections.abc import Callable

import numpy as np
import pytest
from random_programs import random_inputs
from rings import reads_of
from small_machine import loads_of, run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder
from lathe.scheduler import LegalityError, Schedule, create_schedule

CONFIG = load_config("tiny")


def blur() -> tuple[Tensor, Tensor, Tensor, Schedule]:
    A = placeholder((10, 16), "int32", "A")
    B = compute((8, 16), lambda y, x: A[y, x] + A[y + 1, x] + A[y + 2, x], "B")
    C = compute((8, 16), lambda y, x: B[y, x] * 2, "C")
    return A, B, C, create_schedule(C)


def share_first(s: Schedule, A: Tensor, B: Tensor, C: Tensor, stage: Tensor, prologue: str) -> None:
    s[C].after(s[B], "y")
    s.reuse_at(A, s[stage], "y", prologue=prologue)


def share_last(s: Schedule, A: Tensor, B: Tensor, C: Tensor, _: Tensor, prologue: str) -> None:
    s.reuse_at(A, s[B], "y", prologue=prologue)
    s[C].after(s[B], "y")


ORDERS: list[Callable[..., None]] = [share_first, share_last]


@pytest.mark.sample(3)
@pytest.mark.parametrize("prologue", ["loop", "first"])
@pytest.mark.parametrize("named", [0, 1])
@pytest.mark.parametrize("order", ORDERS)
def test_a_buffer_in_a_shared_loop_fetches_each_row_once(order, named, prologue):
    A, B, C, s = blur()
    order(s, A, B, C, (B, C)[named], prologue)
    assert reads_of(s)["A"] == 160
    program = run(s, CONFIG, random_inputs([C], seed=named))
    assert sum(load.y_size * load.x_size for load in loads_of(program, "A")) == 10 * 16 // CONFIG.block_out


@pytest.mark.parametrize("order", ORDERS)
def test_stages_in_a_shared_loop_lead_alike(order):
    A, B, C, s = blur()
    order(s, A, B, C, B, "loop")
    assert [list(s[each].state.warmup.values()) for each in (B, C)] == [[2], [2]]
    s[s.stages[0]].compute_root()
    assert not s[B].state.warmup
    assert not s[C].state.warmup
    assert reads_of(s)["A.reuse"] == 3 * 8 * 16


def test_a_stage_that_leaves_the_loop_leads_no_more():
    A, B, C, s = blur()
    share_first(s, A, B, C, C, "loop")
    buffer = s.stages[0]
    with pytest.raises(LegalityError):  # C shares the loop that the buffer is in
        s[B].compute_root()
    assert s[B].state.warmup
    buffer.compute_root()
    s[B].compute_root()
    assert not s[B].state.warmup
    run(s, CONFIG, random_inputs([C], seed=2))


def test_a_buffer_for_two_stages_of_a_loop_may_be_asked_for_at_either():
    A = placeholder((10, 16), "int32", "A")
    B = compute((8, 16), lambda y, x: A[y, x] + A[y + 2, x], "B")
    C = compute((8, 16), lambda y, x: A[y + 1, x] - B[y, x], "C")
    for stage in (B, C):
        s = create_schedule(C)
        s[C].after(s[B], "y")
        s.reuse_at(A, s[stage], "y")
        assert reads_of(s)["A"] == 160
        run(s, CONFIG, random_inputs([C], seed=3))


def test_a_stage_keeps_its_own_rows_in_a_loop_that_its_readers_share():
    A, B, C, s = blur()
    D = compute((8, 16), lambda y, x: C[y, x] + B[y, x], "D")
    P = compute((10, 16), lambda y, x: A[y, x] * 5, "P")
    E = compute((8, 16), lambda y, x: P[y, x] + P[y + 2, x], "E")
    F = compute((8, 16), lambda y, x: E[y, x] - D[y, x], "F")
    s = create_schedule(F)
    s[P].set_scope("acc")
    s[F].after(s[E], "y")
    s[P].reuse_at(s[E], "y")
    assert reads_of(s)["A"] == 3 * 8 * 16 + 160
    run(s, CONFIG, random_inputs([F], seed=4))


def test_a_stage_in_a_scratchpad_begins_with_the_loop_that_it_shares():
    A, B, C, s = blur()
    s[B].set_scope("acc")
    share_first(s, A, B, C, B, "loop")
    assert reads_of(s)["A"] == 160
    run(s, CONFIG, random_inputs([C], seed=5))


def test_values_are_the_same_whichever_stage_is_named():
    A, B, C, s = blur()
    share_first(s, A, B, C, B, "loop")
    A2, B2, C2, t = blur()
    share_first(t, A2, B2, C2, C2, "loop")
    values = random_inputs([C], seed=6)
    one, other = run(s, CONFIG, values), run(t, CONFIG, values)
    assert np.array_equal(one.encoded, other.encoded)
