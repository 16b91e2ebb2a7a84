"""Commands and questions around padding: loops after a buffer, merged nests, dead stores, and contracts solved."""

import pytest
from documented import as_documented
from messages import refusal
from nests import check, text
from padded import check_poisoned

from lathe.frontend import compute, max, min, placeholder, prod, recurrence, reduce_axis, select, sum
from lathe.scheduler import LegalityError, ScheduleError, create_schedule, undef
from lathe.scheduler.commands.merge_adjacent import merge_adjacent
from lathe.scheduler.commands.remove_dead_stores import remove_dead_stores
from lathe.scheduler.commands.reorder_to_buffer import reorder_to_buffer


def row_sum():
    A = placeholder((16, 14), "int32", "A")
    j = reduce_axis(14, "j")
    return A, compute(16, lambda i: sum(A[i, j], axis=j), "B")


class TestReorderToBuffer:
    def test_documentation_shows_before_and_after(self):
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

    def test_loops_take_the_order_of_the_layout(self):
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

    def test_an_offset_shifts_the_loop(self):
        A = placeholder(14, "int8", "A")
        B = compute(14, lambda i: A[i] * 2, "B")
        s = create_schedule(B)
        s.transform_layout(A, lambda i: [(i + 2) // 8, (i + 2) % 8])
        s[B].reorder_to_buffer(A)
        assert text(s).startswith("for io in 0..2:\n  for ii in 0..8:\n    B[8*io + ii - 2] = ")
        assert text(s).endswith(" while 8*io + ii >= 2\n")
        check(s)

    def test_the_multiplication_of_matrices_goes_through_either_operand(self):
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

    def test_a_stage_in_the_same_layout_follows_already(self):
        A = placeholder(14, "int8", "A")
        B = compute(14, lambda i: A[i] * 2, "B")
        s = create_schedule(B)
        for tensor in (A, B):
            s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=undef)
        before = text(s)
        assert s[B].reorder_to_buffer(A) == s[B].leaf_axis
        assert text(s) == before

    def test_a_cumulative_sum_cannot_follow_what_it_sums(self):
        """The RFC's conv1d_cumsum: an element begins with the one before, which has to be whole."""
        A, F = placeholder(16, "int32", "A"), placeholder(3, "int32", "F")
        f = reduce_axis(3, "f")
        B = recurrence(14, lambda B, i: sum(F[f] * A[i + f] + select(f <= 0, B[i - 1], 0), axis=f), init=0, name="B")
        s = create_schedule(B)
        s.transform_layout(A, lambda i: [i // 4, i % 4])
        s.transform_layout(B, lambda i: [i // 4, i % 4])
        before = text(s)
        assert refusal(ScheduleError, s[B].reorder_to_buffer, A) == (
            "index 0 of A in stage B must be one loop plus a number for reorder_to_buffer, not one of io and ii and f: "
            "B reads elements of itself, and each would begin before the one that it reads has all its terms."
        )
        assert text(s) == before
        check(s)

    def test_a_plain_cumulative_sum_keeps_its_order(self):
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

    def test_messages(self):
        A, B = row_sum()
        Z = placeholder(16, "int32", "Z")
        s = create_schedule(B)
        assert refusal(ScheduleError, s[B].reorder_to_buffer, Z) == (
            "tensor of reorder_to_buffer on stage B must be one that it reads (A), not 'Z'."
        )
        s.transform_layout(A, lambda i, j: [i * 14 + j])
        assert refusal(ScheduleError, s[B].reorder_to_buffer, A) == (
            "layout of A must not join axes for reorder_to_buffer on stage B, as A: [i, j] -> [i * 14 + j], shape "
            "(224,), physical (224,) does. Fuse the loops by hand."
        )
        s[B].split("i", 4)
        assert refusal(ScheduleError, s[B].reorder_to_buffer, A) == (
            "stage of reorder_to_buffer must have its loops as they were made, not changed ones: B has been split, "
            "reordered, tagged, or has stages computed inside it. Call reorder_to_buffer before other commands."
        )
        C = compute(15, lambda i: Z[i] + Z[i + 1], "C")
        s = create_schedule(C)
        assert refusal(ScheduleError, s[C].reorder_to_buffer, Z) == (
            "tensor of reorder_to_buffer on stage C must be read at one place, not Z at Z[i] and Z[i + 1]."
        )


class TestMergeAdjacent:
    def test_documentation_shows_before_and_after(self):
        A = placeholder(60, "int8", "A")
        B = compute(60, lambda i: A[i] + 1, "B")
        C = compute(60, lambda i: B[i] * 2, "C")
        s = create_schedule(C)
        with as_documented(merge_adjacent, s):
            assert s.merge_adjacent(B, C) == s[C].leaf_axis
        check(s)

    def test_the_element_before_is_legal_and_the_one_behind_is_refused(self):
        X = placeholder(16, "int32", "X")
        A = compute(16, lambda i: X[i] + 1, "A")
        before = compute(16, lambda i: select(i > 0, A[i - 1], 0) + 1, "B")
        s = create_schedule(before)
        s.merge_adjacent(A, before)
        assert text(s).count("for") == 1
        check(s)
        behind = compute(16, lambda i: select(i < 15, A[i + 1], 0), "B")
        s = create_schedule(behind)
        untouched = text(s)
        assert refusal(LegalityError, s.merge_adjacent, A, behind) == (
            "after must leave A ahead of what B reads of it, not in loop i of B as it stands: B reads cells that no "
            "iteration so far has made. For example, B(i=0) reads A[1] that A(i=1) writes."
        )
        assert text(s) == untouched
        check(s)

    def test_padding_is_written_in_the_same_loops(self):
        """A producer's main chunk and that of its padding are one nest; so is the consumer's, once merged."""
        X = placeholder(14, "int32", "X")
        A = compute(14, lambda i: X[i] + 1, "A")
        B = compute(14, lambda i: A[i] * 2, "B")
        s = create_schedule(B)
        for tensor in (A, B):
            s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=0)
        s[B].overcompute()
        io, ii = s.merge_adjacent(A, B)
        assert text(s) == (
            "for io in 0..4:\n"
            "  for ii in 0..4:\n"
            "    A[io, ii] = select(io * 4 + ii < 14, X[io * 4 + ii] + 1, 0)\n"
            "    B[io, ii] = A[io, ii] * 2\n"
        )
        check(s)

    def test_messages(self):
        X = placeholder(16, "int32", "X")
        A = compute(16, lambda i: X[i] + 1, "A")
        B = compute(14, lambda i: A[i], "B")
        C = compute(14, lambda i: B[i] + A[i], "C")
        s = create_schedule(C)
        assert refusal(ScheduleError, s.merge_adjacent, A, C) == (
            "second stage of merge_adjacent must follow the first at the root, not 'C' after 'A'. Stages at the root "
            "are A, B, C."
        )
        assert refusal(ScheduleError, s.merge_adjacent, A, B) == (
            "stages of merge_adjacent must have an outermost data loop of equal extent, not A (i: 16) and B (i: 14). "
            "Split or reorder one of them."
        )


class TestRemoveDeadStores:
    def test_documentation_shows_before_and_after(self):
        A = placeholder(14, "int8", "A")
        B = compute(14, lambda i: A[i] + 1, "B")
        C = compute(14, lambda i: B[i] * 2, "C")
        s = create_schedule(C)
        s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=0)
        with as_documented(remove_dead_stores, s):
            assert s.remove_dead_stores() == ("B",)
        check_poisoned(s)
        assert s.remove_dead_stores() == ()
        s.transform_layout(C, lambda i: [i // 4, i % 4], pad_value=0)
        with pytest.raises(ScheduleError, match="padding that nothing may read"):
            s[C].overcompute()

    def test_what_is_read_stays(self):
        A = placeholder(14, "int8", "A")
        B = compute(14, lambda i: A[i] + 1, "B")
        C = compute(14, lambda i: B[i] * 2, "C")
        s = create_schedule(C)
        for tensor in (B, C):
            s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=0)
        s[C].overcompute()
        before = text(s)
        assert s.remove_dead_stores() == ()
        assert text(s) == before

    def test_one_of_two_contracts_may_be_dead(self):
        A = placeholder((14, 10), "int8", "A")
        B = compute((14, 10), lambda i, j: A[i, j] + 1, "B")
        k = reduce_axis(10, "k")
        C = compute(14, lambda i: max(B[i, k], axis=k), "C")
        s = create_schedule(C)
        s.transform_layout(B, lambda i, j: [i // 4, i % 4, j], pad_value=3)
        s.transform_layout(B, lambda io, ii, j: [io, ii, j // 4, j % 4], pad_value=-128)
        s[C].reorder_to_buffer(B)
        s[C].overcompute("ki")
        assert s.remove_dead_stores() == ("B",)
        assert "3)" not in text(s)
        assert "-128)" in text(s)
        check_poisoned(s)

    def test_a_reduction_stores_less_too(self):
        A = placeholder((14, 6), "int32", "A")
        j = reduce_axis(6, "j")
        B = compute(14, lambda i: sum(A[i, j], axis=j), "B")
        C = compute(14, lambda i: B[i] * 2, "C")
        s = create_schedule(C)
        s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=7)
        assert s.remove_dead_stores() == ("B",)
        assert text(s).count("while 4*io + ii < 14") == 2
        check_poisoned(s)


class TestPaddingNeeded:
    @pytest.mark.parametrize(
        ("reduction", "needed"), [(sum, 0), (prod, 1), (max, -128), (min, 127)], ids=["sum", "prod", "max", "min"]
    )
    def test_reductions_need_what_changes_nothing(self, reduction, needed):
        A = placeholder((16, 14), "int8", "A")
        j = reduce_axis(14, "j")
        B = compute(16, lambda i: reduction(A[i, j], axis=j), "B")
        s = create_schedule(B)
        found = s.padding_needed(A)
        assert (found.value, found.by) == (needed, (("B", str(needed)),))
        s.transform_layout(A, lambda i, j: [i, j // 4, j % 4], pad_value=found.value)
        s[B].reorder_to_buffer(A)
        s[B].overcompute()
        assert "select" not in text(s)
        check(s)

    def test_needs_are_solved_backwards_through_computations(self):
        A = placeholder((16, 14), "int8", "A")
        B = compute((16, 14), lambda i, j: A[i, j] * 3 + 6, "B")
        j = reduce_axis(14, "j")
        C = compute(16, lambda i: sum(B[i, j].astype("int32"), axis=j), "C")
        s = create_schedule(C)
        solved = s.solve_padding()
        assert {name: need.value for name, need in solved.items()} == {"A": -2, "B": 0}
        assert str(solved["A"]) == "A: -2 (-2 for B)"
        for tensor in (A, B):
            s.transform_layout(tensor, lambda i, j: [i, j // 4, j % 4], pad_value=solved[tensor.name].value)
        s[B].overcompute()
        s[C].reorder_to_buffer(B)
        s[C].overcompute()
        assert "select" not in text(s)
        check(s)

    def test_a_factor_of_nought_is_enough(self):
        X, W = placeholder((6, 10), "int8", "X"), placeholder((9, 10), "int8", "W")
        k = reduce_axis(10, "k")
        M = compute((6, 9), lambda i, j: sum(X[i, k].astype("int32") * W[j, k].astype("int32"), axis=k), "M")
        s = create_schedule(M)
        assert s.padding_needed(X).value == s.padding_needed(W).value == 0
        s.transform_layout(X, lambda i, k: [i, k // 4, k % 4], pad_value=0)
        s.transform_layout(W, lambda j, k: [j, k // 4, k % 4], pad_value=undef)
        s[M].reorder_to_buffer(X)
        s[M].overcompute()
        check(s)
        check_poisoned(s)

    def test_two_consumers_in_conflict_are_named(self):
        A = placeholder((16, 14), "int8", "A")
        j, k = reduce_axis(14, "j"), reduce_axis(14, "k")
        B = compute(16, lambda i: sum(A[i, j].astype("int32"), axis=j), "B")
        C = compute(16, lambda i: max(A[i, k], axis=k), "C")
        D = compute((16, 14), lambda i, j: A[i, j] + 1, "D")
        s = create_schedule([B, D, C])
        assert refusal(ScheduleError, s.padding_needed, A) == (
            "padding of A must hold one value for all that read it, not 0 for B (sum) and -128 for C (max). Keep the "
            "branch of one of them, or let it read a copy (cache_read) with padding of its own."
        )
        s = create_schedule([B, D])
        assert s.padding_needed(A).by == (("B", "0"), ("D", "anything"))
        s = create_schedule([D])
        assert s.padding_needed(A).value is None

    def test_where_no_value_will_do(self):
        A = placeholder((16, 14), "int8", "A")
        j = reduce_axis(14, "j")
        B = compute(16, lambda i: sum(A[i, j].astype("int32") * 2 + 1, axis=j), "B")
        s = create_schedule(B)
        assert str(s.padding_needed(A)) == "A: undef (a branch for B)"
        Z = placeholder(16, "int32", "Z")
        assert refusal(ScheduleError, s.padding_needed, Z) == (
            "tensor of padding_needed must be one that a stage reads, not 'Z'."
        )
