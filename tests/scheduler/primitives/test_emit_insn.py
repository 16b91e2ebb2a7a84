"""``emit_insn``: a rule emits a loop nest, body and tail alike."""

from documented import as_documented
from nests import blur, plus_one, text

from lathe.frontend import placeholder
from lathe.frontend.operators import matmul
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.emit_insn import emit_insn


def test_documentation_shows_before_and_after():
    _, C, s = plus_one()
    _, ii = s[C].split("i", factor=16)
    with as_documented(emit_insn, s, "chunks"):
        s[C].emit_insn(ii, "alu")


def test_tails_along_several_loops_carry_the_pragma(golden_and_right):
    _, C, s = blur(11, 12)
    _, _, yi, _ = s[C].tile("y", "x", 4, 4)
    s[C].emit_insn(yi, "alu")
    golden_and_right(s)


def test_start_values_come_in_the_chunk_when_the_whole_reduction_does(golden_and_right):
    A, B = placeholder((10, 8), "int8", "A"), placeholder((6, 8), "int8", "B")
    C = matmul(A, B, transpose_b=True, name="C")
    s = create_schedule(C)
    _, ii = s[C].split("i", factor=4)
    s[C].emit_insn(ii, "gemm")
    golden_and_right(s)


def test_start_values_come_before_when_a_reduction_loop_is_outside(golden_and_right):
    A, B = placeholder((10, 8), "int8", "A"), placeholder((6, 8), "int8", "B")
    C = matmul(A, B, transpose_b=True, name="C")
    s = create_schedule(C)
    ko, _ = s[C].split("k", factor=3)
    s[C].reorder(ko, "i", "j")
    s[C].emit_insn("i", "gemm")
    golden_and_right(s)


def test_the_last_pragma_counts():
    _, C, s = plus_one()
    _, ii = s[C].split("i", factor=16)
    s[C].emit_insn("io", "dma")
    s[C].emit_insn(ii, "alu")
    assert text(s, "order") == "C:\n  band io [4]\n  band ii [16] @emit_insn alu\n  time [0, io, 0, ii, 0]\n"
