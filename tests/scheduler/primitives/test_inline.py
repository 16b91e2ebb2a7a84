"""``inline``: a stage becomes part of its consumers' expressions."""

import numpy as np
from documented import as_documented
from nests import blur, check, two_stages

from lathe.frontend import compute, placeholder, reduce_axis, reference, select, sum
from lathe.scheduler import create_schedule, interpret
from lathe.scheduler.primitives.inline import inline
from lathe.scheduler.primitives.inline_elementwise import inline_elementwise


def test_documentation_shows_before_and_after():
    B, C, s = two_stages()
    with as_documented(inline, s):
        s[B].inline()


def test_every_read_of_a_window_computes_its_own():
    B, C, s = blur(6, 6)
    s[B].inline()
    assert [stage.name for stage in s.stages] == ["C"]
    assert len(s[C].op.reads) == 9
    check(s)


def test_conditions_and_conversions_go_along():
    A, k = placeholder((6, 8), "int8", "A"), reduce_axis(3, "k")
    B = compute((6, 10), lambda y, x: select((x >= 1) & (x < 9), A[y, x - 1], 0).astype("int32") * 3, "B")
    C = compute((6, 8), lambda y, x: sum(B[y, x + k], axis=k), "C")
    D = compute((6, 8), lambda y, x: (C[y, x] >> 1) + B[5 - y, x], "D")
    s = create_schedule(D)
    s[B].inline()
    assert [stage.name for stage in s.stages] == ["C", "D"]
    check(s)


def test_the_program_itself_stays_as_it_was():
    B, C, s = two_stages()
    s[B].inline()
    assert create_schedule(C)[B].name == "B"
    a = np.arange(60, dtype=np.int8)
    assert np.array_equal(interpret(s, {"A": a})["C"], reference(C, {"A": a}))


def test_element_by_element_documentation_shows_before_and_after():
    A = placeholder(60, "int8", "A")
    B = compute(60, lambda i: A[i] + 1, "B")
    C = compute(60, lambda i: B[i] * 2, "C")
    D = compute(58, lambda i: C[i] + C[i + 2], "D")
    s = create_schedule(D)
    with as_documented(inline_elementwise, s):
        assert s.inline_elementwise() == ("B", "C")
    check(s)


def test_what_cannot_be_inlined_stays():
    A = placeholder((6, 8), "int8", "A")
    kept = compute((6, 8), lambda y, x: A[y, x] + 1, "kept")
    shifted = compute((6, 7), lambda y, x: kept[y, x + 1], "shifted")
    output = compute((6, 7), lambda y, x: shifted[y, x] * 2, "output")
    total = compute((6, 7), lambda y, x: output[y, x] + shifted[y, x], "total")
    s = create_schedule([output, total])
    s[kept].split("x", 4)
    assert s.inline_elementwise() == ()  # not with changed loops, a read of another point, or two outputs
    assert len(s.stages) == 4


def test_a_stage_is_inlined_into_one_that_is_inlined_then():
    A = placeholder((6, 8), "int8", "A")
    B = compute((6, 8), lambda y, x: A[y, x] + 1, "B")
    C = compute((6, 8), lambda y, x: B[y, x] * B[y, x], "C")
    D = compute((8, 6), lambda x, y: C[y, x], "D")
    s = create_schedule(D)
    assert s.inline_elementwise() == ("B", "C")
    assert s[D].op.reads[0].tensor is A
    check(s)
