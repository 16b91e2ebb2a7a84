"""``merge_adjacent``: two loop nests become one, if every read still finds its value."""

from documented import as_documented
from error_checks import raises
from nests import check, text

from lathe.frontend import compute, placeholder, select
from lathe.scheduler import LegalityError, ScheduleError, create_schedule
from lathe.scheduler.primitives.merge_adjacent import merge_adjacent


def test_documentation_shows_before_and_after():
    A = placeholder(60, "int8", "A")
    B = compute(60, lambda i: A[i] + 1, "B")
    C = compute(60, lambda i: B[i] * 2, "C")
    s = create_schedule(C)
    with as_documented(merge_adjacent, s):
        assert s.merge_adjacent(B, C) == s[C].leaf_axis
    check(s)


def test_the_element_before_is_legal_and_the_one_behind_is_refused():
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
    raises(LegalityError, s.merge_adjacent, A, behind, mentions=("after", "B(i=0)", "A[1]", "A(i=1)"))
    assert text(s) == untouched
    check(s)


def test_padding_is_written_in_the_same_loops():
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


def test_messages():
    X = placeholder(16, "int32", "X")
    A = compute(16, lambda i: X[i] + 1, "A")
    B = compute(14, lambda i: A[i], "B")
    C = compute(14, lambda i: B[i] + A[i], "C")
    s = create_schedule(C)
    raises(ScheduleError, s.merge_adjacent, A, C, kind="argument", mentions=("merge_adjacent", "C", "A"))
    mentions = ("merge_adjacent", "A", "i: 16", "B", "i: 14")
    raises(ScheduleError, s.merge_adjacent, A, B, kind="argument", mentions=mentions)
