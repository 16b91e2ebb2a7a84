"""Orders of stages and loops, and domains, down to the simulator."""

from itertools import product

import pytest
from machine import run
from random_programs import random_inputs

from lathe.configs import load_config
from lathe.frontend import compute, define, placeholder, state
from lathe.scheduler import BuildError, create_schedule

TINY = load_config("tiny")


def chain():
    x = placeholder((3, 4, 2), "int32", "x")
    A = compute(x.shape, lambda i, j, k: x[i, j, k] * 2 + 7, "A")
    B = compute(x.shape, lambda i, j, k: A[i, j, k] + 1, "B")
    C = compute(x.shape, lambda i, j, k: B[i, j, k] * 3 + A[i, j, k], "C")
    return A, B, C


@pytest.mark.parametrize(("upper", "lower"), list(product("ijk", "ijk")))
def test_a_stage_in_dram_shares_the_loops_that_its_host_in_a_scratchpad_shares(upper, lower):
    """The machine computes B in place, in loops of C; A had been left in loops of B that were gone."""
    for cut, scope in product((False, True), (None, "acc")):
        A, B, C = chain()
        s = create_schedule(C)
        s[B].set_scope("acc")
        if scope and "ijk".index(lower) <= "ijk".index(upper):
            s[A].set_scope(scope)
        loops = [upper, lower]
        if cut:
            for stage in s.stages:
                stage.split("i", 2)
            loops = ["io" if loop == "i" else loop for loop in loops]
        s[C].after(s[B], loops[0])
        s[B].after(s[A], loops[1])
        run(s, TINY, random_inputs([C], seed=1))


def test_what_is_stored_in_a_place_of_its_own_shares_no_deeper_loops_than_its_host():
    A, B, C = chain()
    s = create_schedule(C)
    s[B].set_scope("acc")
    s[C].after(s[B], "i")
    s[B].after(s[A], "j")
    s[A].store_in(lambda i, j, k: [i % 2, j, k])
    with pytest.raises(BuildError) as caught:
        run(s, TINY, random_inputs([C], seed=1))
    assert "stage A must share no more loops with B than that with C, 1, to be stored in A[i % 2, j, k]" in str(
        caught.value
    )


@pytest.mark.parametrize("loop", "ij")
@pytest.mark.parametrize("stored", [False, True])
def test_a_stage_before_a_circle_may_come_before_one_in_it(loop, stored):
    x = placeholder((3, 4), "int32", "x")
    S = state(x.shape, "int32", "S", init=0)
    P = compute(x.shape, lambda i, j: x[i, j] * 2 + 7, "P")
    between = compute(x.shape, lambda i, j: S[i, j - 1] + P[i, j], "between")
    define(S, lambda i, j: between[i, j] + P[i, j])
    outputs = [S, P] if stored else [S]
    s = create_schedule(outputs)
    s[between].after(s[P], loop)
    run(s, TINY, random_inputs(outputs, seed=1))
