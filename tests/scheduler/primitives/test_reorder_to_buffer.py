"""``reorder_to_buffer``: the loops of a stage follow the memory order of a tensor that it reads."""

from documented import as_documented
from error_checks import raises
from messages import refusal
from nests import check, row_sum, text
from padded import check_poisoned

from lathe.frontend import compute, placeholder, recurrence, reduce_axis, select, sum
from lathe.scheduler import ScheduleError, create_schedule, undef
from lathe.scheduler.primitives.reorder_to_buffer import reorder_to_buffer


def test_documentation_shows_before_and_after():
    A, B = row_sum()
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i, j // 4, j % 4], pad_value=0)
    with as_documented(reorder_to_buffer, s):
        loops = s[B].reorder_to_buffer(A)
    assert loops == s[B].leaf_axis
    check(s)
    s[B].overcompute()
    assert text(s) == (
        "for i in 0..16:\n  B[i] = 0\n  for jo in 0..4:\n    for ji in 0..4:\n      B[i] += A[i, jo, ji]\n"
    )
    check(s)


def test_loops_take_the_order_of_the_layout():
    A, B = row_sum()
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [(j + 2) // 8, i // 5, (j + 2) % 8, i % 5], pad_value=0)
    loops = s[B].reorder_to_buffer(A)
    assert [loop.name for loop in loops] == ["jo", "io", "ji", "ii"]
    assert s[B].leaf_axis == loops
    check(s)
    check_poisoned(s)
    s[B].overcompute("ji")
    assert "select" not in text(s)
    check(s)


def test_an_offset_shifts_the_loop():
    A = placeholder(14, "int8", "A")
    B = compute(14, lambda i: A[i] * 2, "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [(i + 2) // 8, (i + 2) % 8])
    s[B].reorder_to_buffer(A)
    assert text(s).startswith("for io in 0..2:\n  for ii in 0..8:\n    B[8*io + ii - 2] = ")
    assert text(s).endswith(" while 8*io + ii >= 2\n")
    check(s)


def test_the_multiplication_of_matrices_goes_through_either_operand():
    X, W = placeholder((6, 10), "int8", "X"), placeholder((9, 10), "int8", "W")
    k = reduce_axis(10, "k")
    M = compute((6, 9), lambda i, j: sum(X[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), "M")
    for tensor in (X, W):
        s = create_schedule(M)
        s.transform_layout(tensor, lambda a, k: [k // 4, a // 4, a % 4, k % 4], pad_value=0)
        s[M].reorder_to_buffer(tensor)
        check(s)
        assert [leaf.name for leaf in s[M].leaf_axis[:4]] == (
            ["ko", "io", "ii", "ki"] if tensor is X else ["ko", "jo", "ji", "ki"]
        )


def test_a_stage_in_the_same_layout_follows_already():
    A = placeholder(14, "int8", "A")
    B = compute(14, lambda i: A[i] * 2, "B")
    s = create_schedule(B)
    for tensor in (A, B):
        s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=undef)
    before = text(s)
    assert s[B].reorder_to_buffer(A) == s[B].leaf_axis
    assert text(s) == before


def test_a_cumulative_sum_cannot_follow_what_it_sums():
    """The RFC's conv1d_cumsum: an element starts from the one before, which must be complete."""
    A, F = placeholder(16, "int32", "A"), placeholder(3, "int32", "F")
    f = reduce_axis(3, "f")
    B = recurrence(14, lambda B, i: sum(F[f] * A[i + f] + select(f <= 0, B[i - 1], 0), axis=f), init=0, name="B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [i // 4, i % 4])
    s.transform_layout(B, lambda i: [i // 4, i % 4])
    before = text(s)
    mentions = (0, "A", "B", "reorder_to_buffer", "io")
    raises(ScheduleError, s[B].reorder_to_buffer, A, kind="limit", mentions=mentions)
    assert text(s) == before
    check(s)


def test_a_plain_cumulative_sum_keeps_its_order():
    A = placeholder(14, "int32", "A")
    B = recurrence(14, lambda B, i: B[i - 1] + A[i], init=0, name="B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [i // 4, i % 4], pad_value=0)
    s[B].reorder_to_buffer(A)
    assert "while 4*io + ii < 14" in text(s)
    check(s)
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [i % 2, i // 2])
    message = refusal(ScheduleError, s[B].reorder_to_buffer, A)
    assert "B" in message
    check(s)


def test_messages():
    A, B = row_sum()
    Z = placeholder(16, "int32", "Z")
    s = create_schedule(B)
    mentions = ("reorder_to_buffer", "B", "A", "Z")
    raises(ScheduleError, s[B].reorder_to_buffer, Z, kind="argument", mentions=mentions)
    s.transform_layout(A, lambda i, j: [i * 14 + j])
    mentions = ("A", "reorder_to_buffer", "B", 14, "(224,)")
    raises(ScheduleError, s[B].reorder_to_buffer, A, kind="limit", mentions=mentions)
    s[B].split("i", 4)
    raises(ScheduleError, s[B].reorder_to_buffer, A, kind="limit", mentions=("reorder_to_buffer", "B"))
    C = compute(15, lambda i: Z[i] + Z[i + 1], "C")
    s = create_schedule(C)
    mentions = ("reorder_to_buffer", "C", "Z[i] and Z[i + 1]")
    raises(ScheduleError, s[C].reorder_to_buffer, Z, kind="limit", mentions=mentions)
