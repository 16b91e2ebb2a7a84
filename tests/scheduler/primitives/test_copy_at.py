"""Copies at a loop: each iteration copies what it reads, and frees the copy afterwards."""

from documented import before_and_after
from error_checks import raises
from folds import check_stored
from nests import check, text
from random_programs import random_inputs
from small_machine import TINY, VTA, buffers, run, simulate_and_check

from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend.operators import matmul, requantise
from lathe.scheduler import LegalityError, Schedule, create_schedule

A = placeholder(60, "int32", "A")
C = compute(60, lambda i: A[i] + A[59 - i], "C")
D = compute(60, lambda i: A[i] * C[i], "D")


def test_before_and_after():
    s = create_schedule(D)
    before, after = before_and_after(Schedule.copy_at)
    assert text(s) == before
    s.copy_at(A, s[D], "i", "inp")
    assert text(s) == after
    check(s)


def test_cache_read_at_a_loop_is_cache_read_and_compute_at():
    s, t = create_schedule(D), create_schedule(D)
    io, _ = s[D].split("i", 16)
    copy = s.cache_read(A, "inp", [D], at=(D, io))
    io, _ = t[D].split("i", 16)
    other = t.cache_read(A, "inp", [D])
    t[other].compute_at(t[D], io)
    assert text(s, "order", "loops", "chunks") == text(t, "order", "loops", "chunks")
    assert s[copy].buffer_shape == (16,)
    check(s)


def test_a_reader_outside_the_loop_has_no_copy():
    s = create_schedule(D)
    before = text(s, "order", "loops")
    mentions = ("C", "cache_read", "D(i=0)", "A.inp[0]", "A.inp(i0=0)")
    raises(LegalityError, s.cache_read, A, "inp", at=(C, "i"), mentions=mentions)
    assert text(s, "order", "loops") == before


def test_copies_of_copies():
    s = create_schedule(D)
    io, ii = s[D].split("i", 16)
    outer = s.copy_at(A, D, io, "dram")
    inner = s.copy_at(outer, D, ii, "inp")
    assert s[outer].buffer_shape == (16,)
    assert s[inner].buffer_shape == (1,)
    s[outer].store_in(lambda i: i % 16)
    check_stored(s)


def tiled(size: int, factor: int) -> tuple[Schedule, Tensor]:
    """A matmul whose operands are copied for each tile, after its loops have been split."""
    X, W = placeholder((size, size), "int8", "X"), placeholder((size, size), "int8", "W")
    product = matmul(X, W, transpose_b=True, name="product")
    out = requantise(product, 6, name="out")
    s = create_schedule(out)
    io, _ = s[out].split(s[out].axis[0], factor)
    made = s.cache_write(out, "acc", at=io)
    s[product].set_scope("acc")
    s[product].compute_at(s[out], io)
    s.copy_at(X, out, io, "inp")
    s.cache_read(W, "wgt", [product])
    return s, made


def test_tiles_with_their_copies_on_the_machine():
    s, made = tiled(64, 16)
    assert s[made].state.attachment.axis.name == "i0o"
    found = buffers(s)
    assert (found["X.inp"].size, found["W.wgt"].size, found["product"].size) == (16 * 4, 4 * 4, 16 * 4)
    counts = s.count(VTA)
    program = run(s, VTA, random_inputs(list(s.program), seed=0))
    assert counts.loaded["inp"] == counts.loaded["wgt"] == 64 * 64
    assert program.config is VTA


def test_tiles_with_their_copies_on_the_rtl():
    s, _ = tiled(8, 4)
    simulate_and_check(s, TINY)
