"""Buffers that stages share, or that are allocated in each iteration: no conflict, less memory, the same results."""

import numpy as np
import pytest
from documented import before_and_after
from error_checks import check_mentions, raises
from folds import check_lost, check_stored
from messages import refusal
from nests import rows, text
from random_programs import random_inputs
from small_machine import TINY, VTA, buffers, run, simulate_and_check

from lathe.frontend import Tensor, compute, placeholder, placeholders
from lathe.frontend.operators import matmul, requantise
from lathe.scheduler import EmitError, LegalityError, Schedule, ScheduleError, build, create_schedule


def chain(length: int, width: int = 16) -> tuple[list[Tensor], Tensor]:
    """Stages that each read the one before."""
    A = placeholder((8, width), "int8", "A")
    made = [compute(A.shape, lambda i, c: A[i, c].astype("int32") + 1, "P1")]
    for n in range(2, length + 1):
        last = made[-1]
        made.append(compute(A.shape, lambda i, c, last=last: last[i, c] * 2 - 3, f"P{n}"))
    return made, made[-1]


def test_two_stages_in_one_buffer_in_turn():
    (P1, P2, P3), D = chain(3)
    s = create_schedule(D)
    made = s.cache_write(D, "acc")
    for tensor in (P1, P2):
        s[tensor].set_scope("acc")
    b = s.buffer("b", (8, 16), "int32", "acc")
    s[P1].store_in(b)
    s[made].store_in(b, lambda i, c: (i, c))
    assert P3 is D
    assert "buffer b in acc: [8, 16]" in text(s)
    assert s.count(VTA).buffers["b"].elements == 8
    check_stored(s)
    assert list(buffers(s)) == ["A.acc", "P1", "P2"]
    run(s, VTA, random_inputs([D], seed=0))


def test_a_result_takes_the_place_of_its_operand():
    (P1, P2, _), D = chain(3, 4)
    s = create_schedule(D)
    made = s.cache_write(D, "acc")
    b = s.buffer("b", (8, 4), scope="acc")
    for tensor in (P1, P2, made):
        s[tensor].store_in(b)
    check_stored(s)
    assert [name for name in buffers(s, TINY) if name.startswith("P")] == ["P1"]
    simulate_and_check(s)


def test_values_that_are_needed_later_are_not_overwritten():
    B, D, s = rows(8)
    made = s.cache_write(D, "acc")
    b = s.buffer("b", (8, 16), scope="acc")
    s[B].store_in(b)
    s[made].store_in(b)  # row i of D over row i of B, which no later row reads
    check_stored(s)
    error = check_lost(lambda: s[made].store_in(b, lambda i, c: (i + 2, c)), s)
    check_mentions(error, "buffer b", "B and D.acc", "B(i=2, c=0)", "D.acc(i=0, c=0)", "b[2, 0]", "D.acc(i=1, c=0)")


def test_what_instructions_cannot_do_in_order_is_refused_for_the_machine():
    B, D, s = rows(8)
    made = s.cache_write(D, "acc")
    b = s.buffer("b", (8, 16), scope="acc")
    s[B].store_in(b)
    s[made].store_in(b)
    mentions = ("stage D.acc", "buffer b", "read as B")
    raises(EmitError, build, s, [*placeholders(s.program), D], VTA, kind="machine", mentions=mentions)


def two_products(size: int) -> tuple[list[Tensor], Tensor]:
    """Two matmuls, one after the other, each with its own weights."""
    X, W, V = (placeholder((size, size), "int8", name) for name in ("X", "W", "V"))
    first = matmul(X, W, transpose_b=True, name="first")
    middle = requantise(first, 6, name="middle")
    second = matmul(middle, V, transpose_b=True, name="second")
    return [W, V, first, middle, second], requantise(second, 6, name="out")


@pytest.mark.sample(1)
@pytest.mark.parametrize("config", [VTA, TINY], ids=lambda config: config.name)
def test_weights_of_two_products_take_turns(config):
    (W, V, first, middle, second), out = two_products(2 * config.block_in)
    s = create_schedule(out)
    made = s.cache_write(out, "acc")
    kept = s.cache_write(middle, "acc")
    weights = s.buffer("weights", W.shape, "int8", "wgt")
    for tensor in (first, second, made, kept):
        s[tensor].set_scope("acc")
    s[s.cache_read(W, "wgt", [first])].store_in(weights)
    s[s.cache_read(V, "wgt", [second])].store_in(weights)
    assert s.count(config).buffers["weights"].elements == 4
    assert [name for name, buffer in buffers(s, config).items() if buffer.scope == "wgt"] == ["W.wgt"]
    check_stored(s)
    if config is TINY:
        simulate_and_check(s)
    else:
        run(s, config, random_inputs([out], seed=0))


def test_weights_that_are_still_needed_keep_their_place():
    (W, V, first, _, second), out = two_products(16)
    s = create_schedule(out)
    weights = s.buffer("weights", W.shape, "int8", "wgt")
    one, two = s.cache_read(W, "wgt", [first]), s.cache_read(V, "wgt", [second])
    s[one].store_in(weights)
    s[two].before(s[first])
    error = check_lost(lambda: s[two].store_in(weights), s)
    assert error.witness.consumer_stage == "first"


def test_allocate_at_before_and_after():
    A = placeholder(60, "int32", "A")
    B = compute(60, lambda i: A[i] + 1, "B")
    C = compute(60, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    io, _ = s[C].split("i", 8)
    s[B].compute_at(s[C], io)
    b = s[B].store_in(lambda i: i % 8, scope="acc")
    before, after = before_and_after(Schedule.allocate_at)
    assert text(s) == before
    s.allocate_at(b, s[C], io)
    assert text(s) == after
    check_stored(s)


def test_a_buffer_of_an_iteration_is_free_for_others_between():
    B, D, s = rows(10, 16)
    made = s.cache_write(D, "acc")
    s[made].compute_at(s[D], "i")
    s[B].compute_at(s[D], "i")
    b = s[B].store_in(lambda i, c: (i % 3, c), scope="acc")
    assert not buffers(s)["B"].in_loop
    s.allocate_at(b, D, "i")
    found = buffers(s)["B"]
    assert found.in_loop
    assert found.size == 3
    run(s, VTA, random_inputs([D], seed=0))


def test_a_buffer_of_an_iteration_on_the_rtl():
    B, D, s = rows(5, 4)
    made = s.cache_write(D, "acc")
    s[made].compute_at(s[D], "i")
    s[B].compute_at(s[D], "i")
    s.allocate_at(s[B].store_in(lambda i, c: (c, i % 3), scope="acc"), D, "i")
    simulate_and_check(s)


def test_values_must_not_outlive_the_iteration():
    B, D, s = rows(10, 16)
    s[B].compute_at(s[D], "i", "missing")
    b = s[B].store_in(lambda i, c: (i % 3, c))
    before = text(s, "order", "loops")
    mentions = ("missing", "allocate_at", "D(i=1, c=0)", "B[1, 0]", "B(i=1, c=0)")
    raises(LegalityError, s.allocate_at, b, D, "i", mentions=mentions)
    assert text(s, "order", "loops") == before
    s = create_schedule(D)
    b = s[B].store_in(lambda i, c: (i, c))
    mentions = ("loop", "allocate_at", "D(i=0, c=0)", "B[0, 0]", "B(i=0, c=0)")
    raises(LegalityError, s.allocate_at, b, D, "i", mentions=mentions)
    check_lost(lambda: s.allocate_at(b, D, "i"), s)


def test_the_loop_of_an_allocation_follows_splits():
    B, D, s = rows(10, 16)
    s[B].compute_at(s[D], "i")
    b = s[B].store_in(lambda i, c: (i % 3, c))
    s.allocate_at(b, D, "i")
    _, inner = s[D].split("i", 2)
    assert s[B].buffer is b
    assert s[D].buffer is None
    assert s.allocations[b].axis is inner
    check_stored(s)
    assert "emit_insn" in refusal(ScheduleError, s[D].emit_insn, inner, "dma")


def test_the_buffer_is_as_large_as_what_is_stored_there_needs():
    (P1, P2, _), D = chain(3)
    s = create_schedule(D)
    made = s.cache_write(D, "acc")
    b = s.buffer("b")
    s[P1].store_in(b, lambda i, c: (c, i), scope="acc")
    s[made].store_in(b, lambda i, c: (c, i + 2), scope="acc")
    assert s.count().buffers["b"].shape == (16, 10)
    assert s.count().buffers["b"].cells == 160
    assert str(s.count()).splitlines()[-1] == "buffer b: 16×10 cells in acc, for 256 values"
    check_stored(s)
    np.testing.assert_equal(s.count(VTA).buffers["b"].elements, 10)


def averages(count: int) -> list[Tensor]:
    """A chain of stages that average neighbouring rows of the previous one, so that each is stored."""
    last = placeholder((12, 16), "int8", "A")
    made = []
    for n in range(count):
        previous = last

        def rows_of(i: Tensor, c: Tensor, previous: Tensor = previous) -> Tensor:
            return (previous[i, c].astype("int32") + previous[i + 1, c].astype("int32") >> 1).astype("int8")

        last = compute((last.shape[0] - 1, 16), rows_of, f"S{n}")
        made.append(last)
    return made


@pytest.mark.parametrize("given", [lambda i, c: (i, c), lambda i, c: (11 - i, c)])
def test_intermediate_results_take_turns_in_dram(given):
    S = averages(4)
    s = create_schedule(S[3])
    b = s.buffer("b", (12, 16), "int8", "dram")
    s[S[0]].store_in(b)
    s[S[2]].store_in(b, given)
    check_stored(s)
    program = run(s, VTA, random_inputs([S[3]], seed=0))
    sizes = {segment.name: segment.nbytes for segment in program.segments if segment.role == "temporary"}
    assert sizes == {"b": 12 * 16, "S1": 10 * 16}


def test_a_result_over_what_is_read_once_more_is_refused_in_dram_too():
    S = averages(3)
    s = create_schedule(S[2])
    b = s.buffer("b", (12, 16), "int8", "dram")
    s[S[0]].store_in(b)
    check_lost(lambda: s[S[1]].store_in(b, lambda i, c: (i + 1, c)), s)


def test_an_operand_that_is_read_twice_keeps_its_cells_on_the_machine():
    A = placeholder((8, 16), "int8", "A")
    B = compute((8, 16), lambda i, c: A[i, c].astype("int32") * 3, "B")
    C = compute((8, 16), lambda i, c: B[i, c] + (B[i, c] >> 1), "C")
    s = create_schedule(C)
    made = s.cache_write(C, "acc")
    b = s.buffer("b", scope="acc")
    for tensor in (B, made):
        s[tensor].store_in(b)
    check_stored(s)
    mentions = ("stage C.acc in place of B", "buffer b", "first operand", "acc")
    raises(EmitError, build, s, [A, C], VTA, kind="limit", mentions=mentions)
