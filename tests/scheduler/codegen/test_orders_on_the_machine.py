"""Stage orders, loop orders and domains: compiled, simulated and compared with NumPy."""

from itertools import product

import pytest
from error_checks import raises
from random_programs import random_inputs
from small_machine import memory_of, run

from lathe.configs import load_config
from lathe.frontend import compute, define, max, placeholder, reduce_axis, reference, select, state, sum
from lathe.isa import verify
from lathe.scheduler import BuildError, EmitError, create_schedule

TINY = load_config("tiny")


def chain():
    x = placeholder((3, 4, 2), "int32", "x")
    A = compute(x.shape, lambda i, j, k: x[i, j, k] * 2 + 7, "A")
    B = compute(x.shape, lambda i, j, k: A[i, j, k] + 1, "B")
    C = compute(x.shape, lambda i, j, k: B[i, j, k] * 3 + A[i, j, k], "C")
    return A, B, C


@pytest.mark.sample(1)
@pytest.mark.parametrize(("upper", "lower"), list(product("ijk", "ijk")))
def test_a_stage_in_dram_is_fused_like_its_enclosing_stage_in_a_scratchpad(upper, lower):
    """Regression: lowering computes B in loops of C, but left A in loops of B that no longer existed."""
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
    mentions = ("stage A", "A[i % 2, j, k]", "2 loops with B", "1 with C", "store_in")
    raises(BuildError, run, s, TINY, random_inputs([C], seed=1), mentions=mentions)


@pytest.mark.parametrize("loop", "ij")
@pytest.mark.parametrize("stored", [False, True])
def test_a_stage_before_a_recurrence_may_precede_one_in_it(loop, stored):
    x = placeholder((3, 4), "int32", "x")
    S = state(x.shape, "int32", "S", init=0)
    P = compute(x.shape, lambda i, j: x[i, j] * 2 + 7, "P")
    between = compute(x.shape, lambda i, j: S[i, j - 1] + P[i, j], "between")
    define(S, lambda i, j: between[i, j] + P[i, j])
    outputs = [S, P] if stored else [S]
    s = create_schedule(outputs)
    s[between].after(s[P], loop)
    run(s, TINY, random_inputs(outputs, seed=1))


def test_a_condition_on_data_within_which_loops_decide_is_refused_by_its_rule():
    """Regression: peeling ignored selects in conditions, met them again in each box, and did not terminate."""
    A = placeholder((5, 3), "int32", "A")
    P = compute((8, 3), lambda i, j: select(i >= 3, A[i - 3, j], 0), "P")
    Q = compute((8, 3), lambda i, j: select(P[i, j] > 0, P[i, j], P[0, j]), "Q")
    s = create_schedule(Q)
    s[P].inline()
    with pytest.raises(EmitError) as caught:
        run(s, TINY, random_inputs([Q], seed=1))
    assert "must be read unconditionally, not where" in str(caught.value)


@pytest.mark.parametrize("times", ["-floor(k / 2), -k, x", "x, k + 4 * x", "x, -k", "-k, x"])
def test_a_given_order_of_a_sum_with_a_domain_goes_to_the_sum_and_to_its_zeros(times):
    """Regression: updates take the map's times for all axes, zeros those for data axes; both took the latter."""
    A, k = placeholder((8, 5), "int32", "A"), reduce_axis(5, "k")
    Q = compute(8, lambda x: sum(A[x, k], axis=k), "Q", where=lambda x: x + 0 >= 4)
    s = create_schedule(Q)
    s[Q].set_schedule(f"{{ Q[x, k] -> [{times}] }}")
    run(s, TINY, random_inputs([Q], seed=1))


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", [sum, max])
@pytest.mark.parametrize("command", ["box", "exact", "missing", "after"])
def test_a_reduction_with_a_domain_reads_what_its_loops_compute(kind, command):
    """Regression: the reduction (zeros are selected afterwards) preceded the loops that compute its operand."""
    A, k = placeholder((3, 5, 6), "int32", "A"), reduce_axis(6, "k")
    for loop in "ij":
        P = compute(A.shape, lambda i, j, c: A[i, j, c] + 1, "P")
        Q = compute((3, 5), lambda i, j: kind(P[i, j, k], axis=k), "Q", where=lambda i, j: i + j * 0 >= 1)  # noqa: B023
        s = create_schedule(Q)
        if command == "after":
            s[Q].after(s[P], loop)
        else:
            s[P].compute_at(s[Q], loop, command)
        run(s, TINY, random_inputs([Q], seed=1))


def band(shape, order):
    """The program of two stages whose domain is row 3 onwards, scheduled by ``order``."""
    A = placeholder(shape, "int32", "A")
    P = compute(shape, lambda i: A[i] * 2, "P", where=lambda i: i * i > 8)
    Q = compute(shape, lambda i: P[i] * 3, "Q", where=lambda i: i * i > 8)
    s = create_schedule(Q)
    order(s, P, Q)
    return run(s, TINY, random_inputs([Q], seed=1))


@pytest.mark.parametrize(
    "order",
    [
        lambda s, P, Q: s[P].compute_at(s[Q], "i", "missing"),
        lambda s, P, Q: s[Q].after(s[P], "i"),
        lambda s, P, Q: s[Q].after(s[P]),
    ],
    ids=["missing", "after", "whole"],
)
def test_cells_that_do_not_exist_may_be_loaded_where_nothing_stores_them(order):
    """If-conversion multiplies by 0 and 1, so such cells may be loaded; their values have no effect."""
    assert verify(band((6,), order)) == []


@pytest.mark.parametrize("command", ["missing", "after"])
def test_several_outputs_of_which_one_is_read_are_refused_in_loops_of_others(command):
    A = placeholder(7, "int32", "A")
    P, _ = compute(7, lambda i: (A[i] + 1, A[6 - i] * 2), "P")
    Q = compute((7, 2), lambda i, j: P[i] + j.astype("int32"), "Q")
    s = create_schedule(Q)
    if command == "after":
        s[Q].after(s[P], "i")
    else:
        s[P].compute_at(s[Q], "i", "missing")
    mentions = ("stage P", "several tensors (P.0, P.1)", "loops that other stages run in")
    raises(BuildError, run, s, TINY, random_inputs([Q], seed=1), mentions=mentions)


@pytest.mark.parametrize("times", ["j, i", "i, -j", "i + j, j"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_given_order_of_a_domain_goes_on_to_the_zeros_outside(times, cached):
    """Regression: the zeros were not written at all."""
    A = placeholder((5, 4), "int8", "A")
    P = compute((5, 4), lambda i, j: A[i, j - 1] - 1, "P", where=lambda i, j: (j >= 1) & (i >= 2))
    s = create_schedule(P)
    s[s.cache_write(P, "acc") if cached else P].set_schedule(f"{{ [i, j] -> [{times}] }}")
    inputs = random_inputs([P], seed=1)
    program = run(s, TINY, inputs)
    _, after = memory_of(program, inputs)
    layout, found = program.segment("P").layout, after[program.segment("P").address :]
    assert layout is not None
    found = found[: layout.nbytes].view(layout.physical_dtype).reshape(layout.physical_shape)
    assert (layout.unpack(found) == reference(P, inputs)).all()


def test_a_given_order_that_has_no_time_for_zeros_is_refused():
    A = placeholder((5, 4), "int32", "A")
    P = compute((5, 4), lambda i, j: A[i, j] - 1, "P", where=lambda i, j: (j == 1) & (i >= 2))
    s = create_schedule(P)
    s[P].set_schedule("{ [i, j] -> [i] }")
    mentions = ("output P", "j == 1 and i >= 2", "set_schedule has given P", "domain")
    raises(BuildError, run, s, TINY, random_inputs([P], seed=1), mentions=mentions)


@pytest.mark.parametrize("scope", ["dram", "acc"])
def test_what_a_reduction_loop_computes_is_refused_where_others_share_the_loops_outside(scope):
    A, k = placeholder((3, 4), "int32", "A"), reduce_axis(4, "k")
    P = compute(3, lambda i: sum(A[i, k], axis=k), "P")
    Q = compute((3, 6), lambda i, j: P[i] + j.astype("int32"), "Q")
    s = create_schedule(Q)
    s[Q].after(s[P], "i")
    s[s.cache_read(A, scope, [P])].compute_at(s[P], "k")
    mentions = (f"stage A.{scope}", "reduction loop k of P", "outer loop")
    raises(BuildError, run, s, TINY, random_inputs([Q], seed=1), mentions=mentions)


@pytest.mark.parametrize("scope", ["acc", "dram"])
@pytest.mark.parametrize("region", ["box", "exact", "missing"])
def test_zeros_outside_a_domain_are_made_where_only_a_part_is_computed(scope, region):
    """Regression: stages computed in loops of others did not write zeros outside the domain."""
    A = placeholder((5, 16), "int32", "A")
    P = compute((5, 16), lambda i, j: A[i, j] + 3, "P", where=lambda i, j: (i != 2) | (j > 2))
    s = create_schedule(P)
    s[s.cache_write(P, scope)].compute_at(s[P], "i", region)
    run(s, TINY, random_inputs([P], seed=1))


def test_threads_of_a_reduction_with_a_domain_go_with_its_sum():
    A, k = placeholder((5, 8), "int32", "A"), reduce_axis(8, "k")
    B = compute((5, 8), lambda i, j: A[i, j] * 3, "B")
    P = compute(5, lambda i: sum(B[i, k], axis=k), "P", where=lambda i: i != 2)
    s = create_schedule(P)
    s[B].compute_at(s[P], "i")
    s[P].vthread("k", 2)
    run(s, TINY, random_inputs([P], seed=1))


@pytest.mark.parametrize("order", ["kij", "ikj"])
@pytest.mark.parametrize("kind", [sum, max])
def test_barriers_in_a_reduction_with_a_domain_stay_in_its_loops(order, kind):
    A, k = placeholder((3, 8, 4), "int32", "A"), reduce_axis(4, "k")
    P = compute((3, 8), lambda i, j: kind(A[i, j, k], axis=k), "P", where=lambda i, j: i + 0 * j != 1)
    s = create_schedule(P)
    s[P].reorder(*order)
    s.barrier_at(s[P], "k")
    run(s, TINY, random_inputs([P], seed=1))
    assert s.count(TINY).barriers == {"kij": 4, "ikj": 8}[order]  # the domain has two rows
