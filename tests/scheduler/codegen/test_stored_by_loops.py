"""Stages computed in loops of others, compiled: they stay in accumulators, go through DRAM, or are refused."""

import pytest
from error_checks import raises
from random_programs import random_inputs
from small_machine import TINY, run, simulate_and_check

from lathe.configs import load_config
from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.frontend.operators import conv2d, matmul, requantise
from lathe.scheduler import BuildError, Schedule, create_schedule


def read_again(places: dict[str, tuple[str, str]]) -> Schedule:
    """A chain of P, Q, T and R, where R also reads P; ``places``: enclosing stage and loop, by stage."""
    A = placeholder((8, 32), "int32", "A")
    P = compute((8, 32), lambda y, x: A[y, x] + 1, "P")
    Q = compute((8, 32), lambda y, x: P[y, x] * 2, "Q")
    T = compute((8, 32), lambda y, x: Q[y, x] - 1, "T")
    R = compute((8, 32), lambda y, x: T[y, x] + P[y, x], "R")
    s = create_schedule([Q, R])
    stages = {tensor.name: s[tensor] for tensor in (P, Q, T, R)}
    for name, (host, axis) in places.items():
        stages[name].compute_at(stages[host], axis)
    return s


@pytest.mark.parametrize("region", ["box", "exact", "missing"])
@pytest.mark.parametrize("axis", ["y", pytest.param("x", marks=pytest.mark.slow)])
def test_what_later_stages_read_is_stored_by_the_loop_that_makes_it(axis, region):
    """If P were in acc, R would read only values of the last iteration."""
    A = placeholder((8, 32), "int32", "A")
    P = compute((8, 32), lambda y, x: A[y, x] + 1, "P")
    Q = compute((7, 32), lambda y, x: P[y, x] * P[y + 1, x], "Q")
    R = compute((7, 32), lambda y, x: Q[y, x] + P[y, x], "R")
    s = create_schedule([Q, R])
    s[P].compute_at(s[Q], axis, region)
    run(s, TINY, random_inputs([Q, R], seed=3))


@pytest.mark.parametrize("region", ["box", "exact", "missing"])
@pytest.mark.parametrize(("at", "axis", "factor"), [("B", "i", None), ("B", "j", 5), ("D", "i", 3)])
def test_a_stage_may_be_computed_in_the_loops_of_one_that_does_not_read_it(at, axis, factor, region):
    X = placeholder((8, 17), "int32", "X")
    A = compute((8, 17), lambda i, j: X[i, j] + 1, "A")
    B = compute((8, 17), lambda i, j: X[i, j] * 2, "B")
    D = compute((8, 17), lambda i, j: B[i, j] - 3, "D")
    C = compute((8, 17), lambda i, j: A[i, j] + D[i, j], "C")
    s = create_schedule(C)
    enclosing = s[{"B": B, "D": D}[at]]
    loop = axis if factor is None else enclosing.split(axis, factor)[0]
    s[A].compute_at(enclosing, loop, region)
    run(s, TINY, random_inputs([C], seed=7))


@pytest.mark.slow
def test_several_stages_that_later_ones_read_are_stored():
    s = read_again({"P": ("Q", "y"), "T": ("R", "x")})
    simulate_and_check(s)


@pytest.mark.sample(4)
@pytest.mark.parametrize("factor", [None, 5])
@pytest.mark.parametrize("region", ["box", "exact", "missing"])
@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_a_product_in_the_loops_of_another_is_stored_and_loaded(name, region, factor):
    """The operand is computed in acc, which GEMM cannot read: it goes through DRAM."""
    X, W, V = (placeholder((rows, 16), "int8", name) for name, rows in (("X", 12), ("W", 16), ("V", 20)))
    P = requantise(matmul(X, W, transpose_b=True, name="first"), 6, name="P")
    G = matmul(P, V, transpose_b=True, name="G")
    output = requantise(G, 6, name="output")
    s = create_schedule(output)
    s[P].compute_at(s[G], "i" if factor is None else s[G].split("i", factor)[0], region)
    run(s, load_config(name), random_inputs([output], seed=5))


@pytest.mark.parametrize("region", ["box", "exact", "missing"])
@pytest.mark.parametrize("axis", ["y", "x"])
def test_padding_in_the_loops_of_a_convolution_is_loaded_around(axis, region):
    """Padding is loaded to a scratchpad that GEMM reads; longer-lived values go through DRAM."""
    data, kernel = placeholder((1, 5, 6, 4), "int8", "data"), placeholder((4, 3, 3, 4), "int8", "kernel")
    conv = conv2d(data, kernel, padding=1, name="conv")
    output = requantise(conv, 6, name="output")
    s = create_schedule(output)
    s[conv.computation.reads[0].tensor].compute_at(s[conv], axis, region)
    program = run(s, TINY, random_inputs([output], seed=5))
    temporary = {segment.name for segment in program.segments if segment.role == "temporary"}
    assert ("conv.pad" in temporary) == (region == "missing")


def test_a_copy_in_dram_that_another_copy_loads_stays_there():
    A, W = placeholder((6, 8), "int8", "A"), placeholder((8, 8), "int8", "W")
    G = matmul(A, W, transpose_b=True, name="G")
    output = requantise(G, 6, name="output")
    s = create_schedule(output)
    near = s.cache_read(A, "dram", [G])
    s.cache_read(near, "inp", [G], at=(G, "i"))
    s[near].compute_at(s[G], "i")
    run(s, TINY, random_inputs([output], seed=5))


def test_what_is_missing_is_computed_in_the_loops_of_a_copy():
    A = placeholder((9, 2, 16), "int8", "A")
    P = compute(A.shape, lambda y, x, c: A[y, x, c].astype("int32") * 3 + 1, "P")
    r = reduce_axis((0, 3), "r")
    Q = compute((7, 2, 16), lambda y, x, c: sum(P[y + r, x, c], axis=r), "Q")
    s = create_schedule(Q)
    copy = s.cache_read(P, "acc", [Q])
    s[P].compute_at(s[copy], s[copy].axis[1], "missing")
    run(s, TINY, random_inputs([Q], seed=5))


def test_what_is_missing_and_no_scratchpad_keeps_is_refused():
    A = placeholder((9, 8), "int32", "A")
    P = compute(A.shape, lambda y, x: A[y, x] * 3 + 1, "P")
    r = reduce_axis((0, 3), "r")
    Q = compute((7, 8), lambda y, x: sum(P[y + r, x], axis=r), "Q")
    s = create_schedule(Q)
    s[P].compute_at(s[Q], "r", "missing")
    mentions = ("compute P", "loop r of Q", "'tiny'", "consumers of P", "outer loop", "root")
    raises(BuildError, run, s, TINY, random_inputs([Q], seed=5), mentions=mentions)


@pytest.mark.parametrize("triangle", [False, True])
def test_what_the_loops_of_a_stage_in_acc_store_is_loaded_in_them(triangle):
    """A load directly before the stage would precede the store."""
    where = (lambda y, x: x <= y) if triangle else None
    A = placeholder((5, 5), "int32", "A")
    P = compute((5, 5), lambda y, x: A[y, x] * 3 + 1, "P", where=where)
    Q = compute((5, 5), lambda y, x: P[y, x] * 5, "Q", where=where)
    R = compute((5, 5), lambda y, x: Q[y, x] - P[y, x], "R", where=where)
    s = create_schedule(R)
    s[Q].compute_at(s[R], "y")
    s[P].compute_at(s[Q], "x", "missing")
    s.cache_write(P, "acc")
    run(s, TINY, random_inputs([R], seed=3))


@pytest.mark.parametrize("region", ["box", "exact", "missing"])
def test_what_is_outside_a_domain_need_not_be_stored(region):
    where = lambda y, x: x <= y  # noqa: E731
    A = placeholder((5, 5), "int32", "A")
    P = compute((5, 5), lambda y, x: A[y, x] * 3 + 1, "P", where=where)
    Q = compute((5, 5), lambda y, x: P[y, x] * 5, "Q", where=where)
    R = compute((5, 5), lambda y, x: Q[y, x] - P[y, x], "R", where=where)
    s = create_schedule(R)
    s[P].compute_at(s[Q], "y", region)
    run(s, TINY, random_inputs([R], seed=3))


def test_values_that_no_scratchpad_keeps_are_refused():
    A = placeholder((8, 32), "int32", "A")
    P = compute((8, 32), lambda y, x: A[y, x] + 1, "P")
    k = reduce_axis((0, 32), "k")
    S = compute((8,), lambda y: sum(P[y, k], axis=k), "S")
    R = compute((8, 32), lambda y, x: S[y] + P[y, x], "R")
    s = create_schedule(R)
    s[P].compute_at(s[S], "k")
    mentions = ("compute P", "loop k of S", "'tiny'", "consumers of P", "outer loop", "root")
    raises(BuildError, run, s, TINY, random_inputs([R], seed=3), mentions=mentions)


@pytest.mark.parametrize("region", ["box", "missing", "exact"])
def test_a_barrier_in_the_reduction_of_a_product_in_the_loops_of_its_reader(region):
    """Whether stored by these loops or in acc, the GEMM keeps its reduction loops and the stages computed in them."""
    A, B = placeholder((6, 8), "int8", "A"), placeholder((12, 8), "int8", "B")
    F = matmul(A, B, transpose_b=True, name="F")
    P = compute(F.shape, lambda i, j: F[i, j] + 1, "P")
    s = create_schedule(P)
    s[F].compute_at(s[P], "i", region)
    outer, inner = s[F].split("k", 4)
    s[F].reorder(outer, "j", inner)
    s.barrier_at(F, outer)
    run(s, TINY, random_inputs([P], seed=1))


@pytest.mark.sample(3)
@pytest.mark.parametrize("scope", ["dram", "acc"])
@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("rows", [2, 4, 6])
def test_what_stays_is_made_whole_in_the_loops_of_a_stage_that_reads_little_of_it(rows, reading, scope):
    """Regression: lowering computed only what C reads of B (little or nothing), although D reads all of it."""
    x, y = placeholder((4, 3), "int32", "x"), placeholder((rows, 3), "int32", "y")
    B = compute((4, 3), lambda i, j: x[i, j] + 1, "B")
    C = compute((rows, 3), lambda i, j: y[i, j] * 2 + (B[i % 4, j] if reading else 0), "C")
    D = compute((4, 3), lambda i, j: B[3 - i, j] * 3, "D")
    outputs = [C, D, B] if scope == "dram" else [C, D]
    s = create_schedule(outputs)
    s[B].set_scope(scope)
    s[B].store_in(lambda i, j: [i + 1, j])
    s[C].after(s[B], "i")
    run(s, TINY, random_inputs(outputs, seed=1))


@pytest.mark.parametrize("rows", [4, 6])
def test_what_stays_of_a_stage_in_a_sum_is_what_the_sum_reads(rows):
    """Regression: a reduction loop computes only what the sum reads; D read cells that were never written."""
    x, k = placeholder((6, 7), "int32", "x"), reduce_axis(7, "k")
    B = compute((6, 7), lambda i, j: x[i, j] + 1, "B")
    C = compute(rows, lambda i: sum(B[i, k] * 2, axis=k), "C")
    D = compute((6, 7), lambda i, j: B[5 - i, j] * 3, "D")
    s = create_schedule([C, D])
    s[B].set_scope("acc")
    s[B].store_in(lambda i, j: [i, j])
    s[C].after(s[B], "k")
    if rows == 6:
        run(s, TINY, random_inputs([C, D], seed=1))
        return
    mentions = ("stage B", "reduction loop k of C", "values that C reads", "Share loops outside the reduction")
    raises(BuildError, run, s, TINY, random_inputs([C, D], seed=1), mentions=mentions)
