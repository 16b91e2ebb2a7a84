"""Padding that layouts add: its cells, its values, and the stages that write it, with numbers of RFC 0077."""

import numpy as np
import pytest
from error_checks import raises
from nests import check, row_sum, text
from random_programs import random_inputs

from lathe.frontend import compute, const, max, placeholder, reduce_axis, select, sum
from lathe.scheduler import Schedule, ScheduleError, create_schedule, undef
from lathe.scheduler.loop_ir.interpret import interpret_padded


def doubled(extent: int = 14, dtype: str = "int8"):
    A = placeholder(extent, dtype, "A")
    return A, compute(extent, lambda i: A[i] * 2, "B")


def padded(schedule: Schedule, tensor, inputs=None) -> np.ndarray:
    """A computed tensor in its layout, padding included."""
    inputs = random_inputs(list(schedule.program), seed=0) if inputs is None else inputs
    return interpret_padded(schedule, inputs)[tensor.name]


@pytest.mark.parametrize(
    ("factor", "shape", "cells"),
    [(4, (4, 4), ((3, 2), (3, 3))), (8, (2, 8), ((1, 6), (1, 7)))],
)
def test_fourteen_by_four_and_by_eight_have_two_padding_cells(factor, shape, cells):
    A, B = doubled()
    for tensor in (A, B):
        s = create_schedule(B)
        s.transform_layout(tensor, lambda i: [i // factor, i % factor])
        assert s.layout(tensor).shape == shape
        assert s.layout(tensor).padding == cells
        assert s.layout(tensor).padding_count == 2
        check(s)


def test_an_offset_puts_the_padding_in_front():
    A, B = doubled()
    for tensor in (A, B):
        s = create_schedule(B)
        s.transform_layout(tensor, lambda i: [(i + 2) // 8, (i + 2) % 8])
        assert s.layout(tensor).shape == (2, 8)
        assert s.layout(tensor).padding == ((0, 0), (0, 1))
        assert s.layout(tensor).index(0) == (0, 2)
        check(s)


def test_an_offset_may_add_padding_of_its_own():
    A, B = doubled(16)
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [(i + 2) // 8, (i + 2) % 8])
    assert s.layout(A).shape == (3, 8)
    assert s.layout(A).padding == ((0, 0), (0, 1), *((2, n) for n in range(2, 8)))
    assert s.layout(A).padding_count == 8
    check(s)


def test_a_layout_that_is_full_has_none():
    A, B = doubled(16)
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [i // 8, i % 8])
    assert s.layout(A).padding == ()
    s.transform_layout(B, lambda i: [i // 8, i % 8], pad_value=1)
    assert s.layout(B).padding == ()
    assert "select" not in text(s)


def test_three_ways_to_say_the_same():
    A, B = doubled()
    for first, *others in (
        (None, lambda *_: None),
        (0, lambda *_: 0),
        (undef, lambda *_: undef),
    ):
        texts = []
        for pad_value in (first, *others):
            s = create_schedule(B)
            s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=pad_value)
            texts.append(text(s, "loops", "chunks"))
        assert len(set(texts)) == 1


def test_without_a_contract_nothing_is_stored_in_padding():
    for pad_value in (None, undef):
        A, B = doubled()
        s = create_schedule(B)
        before = text(s)
        s[B].transform_layout(lambda i: [i // 4, i % 4], pad_value=pad_value)
        assert before == "for i in 0..14:\n  B[i] = A[i] * 2\n"
        assert text(s) == (
            "for io in 0..4:\n  for ii in 0..4:\n    B[io, ii] = A[io * 4 + ii] * 2 while 4*io + ii < 14\n"
        )
        assert text(s, "chunks") == (
            "for io in 0..3:\n"
            "  for ii in 0..4:\n"
            "    B[io, ii] = A[io * 4 + ii] * 2\n"
            "for io in 3..4:\n"
            "  for ii in 0..2:\n"
            "    B[io, ii] = A[io * 4 + ii] * 2\n"
        )
        check(s)


def test_a_producer_writes_the_constant_in_a_chunk_of_its_own():
    A, B = doubled()
    s = create_schedule(B)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=7)
    assert text(s) == (
        "for io in 0..4:\n  for ii in 0..4:\n    B[io, ii] = select(io * 4 + ii < 14, A[io * 4 + ii] * 2, 7)\n"
    )
    assert text(s, "chunks") == (
        "for io in 0..3:\n"
        "  for ii in 0..4:\n"
        "    B[io, ii] = A[io * 4 + ii] * 2\n"
        "for io in 3..4:\n"
        "  for ii in 0..2:\n"
        "    B[io, ii] = A[io * 4 + ii] * 2\n"
        "  for ii in 2..4:\n"
        "    B[io, ii] = 7\n"
    )
    check(s)
    assert padded(s, B)[3, 2:].tolist() == [7, 7]


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("pad_value", [0, 5, -3])
def test_a_reduction_writes_any_constant(kind, pad_value):
    A = placeholder((14, 6), "int8", "A")
    j = reduce_axis(6, "j")
    reduction = {"sum": sum, "max": max}[kind]
    B = compute(14, lambda i: reduction(A[i, j].astype("int32"), axis=j), "B")
    s = create_schedule(B)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=pad_value)
    check(s)
    assert padded(s, B)[3, 2:].tolist() == [pad_value] * 2
    s[B].reorder("j", "io", "ii")
    check(s)
    assert padded(s, B)[3, 2:].tolist() == [pad_value] * 2


def test_wrap_around_copies_the_first_elements():
    """The RFC's ``B[0, (io - 14) % 4]`` copies element 1 twice; elements 0 and 1 are meant."""
    A, B = doubled()
    a = np.arange(1, 15, dtype=np.int8)
    new_indices = (lambda io, ii, T: T[0, (4 * io + ii - 14) % 4],) * 2
    old_indices = lambda io, ii: A[4 * io + ii - 14], lambda io, ii: B[4 * io + ii - 14]
    for of_a, of_b in (new_indices, old_indices):
        s = create_schedule(B)
        s.transform_layout(A, lambda i: [i // 4, i % 4], pad_value=of_a)
        check(s)
        assert s.layout(A).pack(a)[3, 2:].tolist() == [1, 2]
        s = create_schedule(B)
        s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=of_b)
        check(s)
        assert padded(s, B, {"A": a})[3, 2:].tolist() == [2, 4]


def test_a_reduction_wraps_around():
    A, B = row_sum()
    s = create_schedule(B)
    s.transform_layout(B, lambda i: [(i + 2) // 6, (i + 2) % 6], pad_value=lambda io, ii: B[(6 * io + ii + 14) % 16])
    check(s)
    inputs = random_inputs([B], seed=0)
    sums = inputs["A"].sum(1, dtype=np.int32)
    assert (padded(s, B, inputs).reshape(-1) == np.pad(sums, (2, 0), mode="wrap")).all()


def test_padding_may_depend_on_where_it_is():
    A, B = doubled(14, "int32")
    for tensor in (A, B):
        s = create_schedule(B)
        s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=lambda io, ii: 100 * io + ii)
        check(s)
        a = np.arange(14, dtype=np.int32)
        found = s.layout(A).pack(a) if tensor is A else padded(s, B, {"A": a})
        assert found[3, 2:].tolist() == [302, 303]


def test_chained_maps_keep_the_contract_of_whichever_added_a_cell():
    A = placeholder((14, 60), "int32", "A")
    j = reduce_axis(60, "j")
    B = compute(14, lambda i: sum(A[i, j], axis=j), "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i // 4, i % 4, j], pad_value=undef)
    assert s.layout(A).padding_count == 2 * 60
    s.transform_layout(A, lambda io, ii, j: [io, ii, j // 8, j % 8], pad_value=0)
    layout = s.layout(A)
    assert layout.shape == (4, 4, 8, 8)
    assert layout.padding_count == len(layout.padding) == 184
    packed = layout.pack(np.ones((14, 60), np.int32), poison=9)
    assert (packed[:, :, 7, 4:] == 0).all()
    assert (packed[3, 2:].reshape(2, 64)[:, :60] == 9).all()
    check(s)


def test_a_joined_axis_may_leave_room():
    A = placeholder((6, 14), "int8", "A")
    B = compute((6, 14), lambda i, j: A[i, j] + 1, "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i * 16 + j], pad_value=1)
    s.transform_layout(B, lambda i, j: [2 * i, j + 1], pad_value=3)
    assert s.layout(A).shape == (96,)
    assert s.layout(B).shape == (12, 15)
    check(s)
    found = padded(s, B)
    assert (found[1::2] == 3).all()
    assert (found[:, 0] == 3).all()


def test_messages():
    A, B = doubled()
    blocks = lambda i: [i // 4, i % 4]  # noqa: E731
    cases = [
        (300, ("None", "lt.undef", "int8", "not 300")),
        (const(300, "int32"), ("-128 to 127", "not 300", "(3, 2)", ".astype('int8')")),
        (lambda io, _: 125 + io, ("-128 to 127", "not 128", "(3, 2)", ".astype('int8')")),
        (
            lambda _, ii: select(ii > 2, const(1000, "int32"), -129),
            ("-128 to 127", "not -129", "(3, 2)", ".astype('int8')"),
        ),
        (lambda io: io, ("parameters", 2, "not 1")),
        (lambda io, ii: A[io + ii], ("read", "not A")),
        (lambda io, ii: B[io * 4 + ii], ("not B[14]", "(3, 2)", "shape (14,)")),
        (lambda io, ii: B[io + ii] + 1, ("select", "not B[io + ii] + 1")),
    ]
    for pad_value, mentions in cases:
        s = create_schedule(B)
        before = text(s)
        named = ("pad_value of transform_layout of B", *mentions)
        raises(ScheduleError, s.transform_layout, B, blocks, kind="argument", mentions=named, pad_value=pad_value)
        assert text(s) == before


@pytest.mark.parametrize(
    ("pad_value", "held"),
    [
        (const(-128, "int32"), [-128, -128]),
        (lambda _, ii: 124 + ii, [126, 127]),
        (lambda io, _: (300 + io).astype("int8"), [47, 47]),
        (np.int64(7), [7, 7]),
        (lambda *_: np.uint8(9), [9, 9]),
    ],
    ids=["another dtype", "index", "low bits", "of NumPy", "of NumPy, by a function"],
)
def test_values_that_the_dtype_holds_are_taken_whatever_their_own(pad_value, held):
    _, B = doubled()
    s = create_schedule(B)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=pad_value)
    check(s)
    assert padded(s, B).reshape(-1)[14:].tolist() == held


def test_blocks_are_whole_where_padding_has_a_value():
    A = placeholder((3, 8), "int8", "A")
    B = compute((3, 8), lambda i, c: A[i, c] * 2, "B")
    for pad_value, shape in ((None, (1, 3, 8)), (lambda *_: None, (1, 3, 8)), (0, (1, 3, 16)), (undef, (1, 3, 16))):
        s = create_schedule(B)
        s.transform_layout(A, lambda i, c: [c // 16, i, c % 16], pad_value=pad_value)
        assert s.layout(A).shape == shape
        check(s)
