"""``unroll``: iterations become separate instructions or micro-ops."""

from documented import as_documented
from nests import CONFIG, check, plus_one, text
from random_programs import random_inputs
from small_machine import run

from lathe.frontend import compute, placeholder
from lathe.isa import Alu
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.unroll import unroll


def test_documentation_shows_before_and_after():
    _, C, s = plus_one()
    with as_documented(unroll, s, "order"):
        s[C].unroll("i")
    check(s)


def test_it_changes_neither_nest_nor_chunks():
    _, C, s = plus_one()
    s[C].split("i", factor=16)
    before = text(s, "loops", "chunks")
    s[C].unroll("ii")
    assert text(s, "loops", "chunks") == before


def additions(unrolled: bool) -> list[Alu]:
    """The instructions that add 8x2 vectors to as many others, whose rows are four vectors apart."""
    A, B = placeholder((8, 2, 16), "int8", "A"), placeholder((8, 4, 16), "int8", "B")
    C = compute((8, 2, 16), lambda i, j, l: A[i, j, l] + B[i, j, l], "C")
    s = create_schedule(C)
    result = s.cache_write(C, "acc")
    s.cache_read(A, "acc", [result])
    s.cache_read(B, "acc", [result])
    s[result].emit_insn(s[result].axis[0], "alu")
    if unrolled:
        s[result].unroll(s[result].axis[0])
    program = run(s, CONFIG, random_inputs([C], seed=0))
    return [each for each in program.instructions if isinstance(each, Alu)]


def test_an_unrolled_loop_inside_the_emitted_nest_becomes_micro_ops():
    looping, written_out = additions(False), additions(True)
    assert len(looping) == len(written_out)
    for plain, unrolled in zip(looping, written_out, strict=True):
        assert plain.uop_end - plain.uop_bgn == 1
        assert unrolled.uop_end - unrolled.uop_bgn == 8
        assert plain.iter_out * plain.iter_in == 8 * unrolled.iter_out * unrolled.iter_in
