"""``overcompute`` and ``branch``: contracts that they rely on, and refusals, with the numbers of RFC 0077."""

import pytest
from documented import as_documented
from error_checks import check_mentions, raises
from nests import check, text
from padded import confirm_added, poisoned

from lathe.frontend import Tensor, compute, max, min, placeholder, prod, reduce_axis, select, sum
from lathe.scheduler import PaddingError, Schedule, ScheduleError, create_schedule, undef
from lathe.scheduler.primitives.branch import branch, reduce_extent
from lathe.scheduler.primitives.overcompute import overcompute


def rows(reduction=sum, dtype="int32"):
    A = placeholder((16, 14), dtype, "A")
    j = reduce_axis(14, "j")
    return A, compute(16, lambda i: reduction(A[i, j], axis=j), "B")


def split_rows(pad_value, reduction=sum, dtype="int32") -> tuple[Schedule, object]:
    """The RFC's row sum, with the layout and loops of its example."""
    A, B = rows(reduction, dtype)
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i, j // 4, j % 4], pad_value=pad_value)
    s[B].split("j", 4)
    return s, B


def sums_of_60() -> tuple[Tensor, Tensor, Schedule]:
    A = placeholder((14, 60), "int32", "A")
    j = reduce_axis(60, "j")
    B = compute(14, lambda i: sum(A[i, j], axis=j), "B")
    s = create_schedule(B)
    return A, B, s


def doubled(pad_of_a, pad_of_b) -> tuple[Schedule, object, object]:
    A = placeholder(14, "int8", "A")
    B = compute(14, lambda i: A[i] * 2, "B")
    s = create_schedule(B)
    for tensor, pad_value in ((A, pad_of_a), (B, pad_of_b)):
        s.transform_layout(tensor, lambda i: [i // 4, i % 4], pad_value=pad_value)
    return s, A, B


def branches(schedule: Schedule) -> bool:
    loops = text(schedule)
    return "while" in loops or "select" in loops


def refused(command, *arguments) -> PaddingError:
    with pytest.raises(PaddingError) as caught:
        command(*arguments)
    return caught.value


def refused_plainly(command, *arguments) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        command(*arguments)
    return caught.value


def test_documentation_shows_before_and_after():
    s, B = split_rows(0)
    with as_documented(overcompute, s):
        s[B].overcompute("ji")
    with as_documented(branch, s):
        s[B].branch("ji")
    A = placeholder((16, 16), "int8", "A")
    j = reduce_axis(16, "j")
    B = compute(16, lambda i: sum(select(j < 14, A[i, j], 0), axis=j), "B")
    s = create_schedule(B)
    with as_documented(reduce_extent, s):
        s[B].reduce_extent("j")
    check(s)


def test_a_row_sum_with_zeros_loses_its_branch():
    s, B = split_rows(0)
    assert "while 4*jo + ji < 14" in text(s)
    s[B].overcompute("ji")
    assert not branches(s)
    assert text(s, "chunks").count("+=") == 1
    check(s)


def test_a_row_sum_keeps_its_branch_where_nothing_may_be_read():
    s, B = split_rows(None)
    before = text(s)
    error = refused(s[B].overcompute, "ji")
    check_mentions(error, "overcompute", "stage B", "A[0, 3, 2]", "pad_value=None", "B(i=0, j=14)", "B[0]")
    assert text(s) == before
    assert "while" in before
    check(s)


@pytest.mark.parametrize(("pad_value", "what"), [(undef, "undefined"), (3, "3")])
def test_a_row_sum_keeps_its_branch_where_padding_would_count(pad_value, what):
    s, B = split_rows(pad_value)
    before = text(s)
    error = refused(s[B].overcompute)
    check_mentions(error, "overcompute", "stage B", 0, what, "B(i=0, j=14)", "B[0]", f"A[0, 3, 2] (padding, {what})")
    assert text(s) == before
    confirm_added(s, B, error.witness)
    answer = s.is_legal("overcompute", B)
    assert not answer
    assert answer.witness == error.witness


@pytest.mark.parametrize(
    ("reduction", "needed"), [(sum, 0), (prod, 1), (max, -(2**31)), (min, 2**31 - 1)], ids=["sum", "prod", "max", "min"]
)
def test_each_reduction_needs_what_changes_nothing_in_it(reduction, needed):
    """0 in a sum, 1 in a product, the dtype's minimum in a maximum, its maximum in a minimum."""
    for pad_value in (0, 1, -(2**31), 2**31 - 1):
        s, B = split_rows(pad_value, reduction)
        if pad_value == needed:
            s[B].overcompute()
            assert not branches(s)
        else:
            confirm_added(s, B, refused(s[B].overcompute).witness)
            assert branches(s)
        check(s)


def test_element_wise_with_undef_has_no_branch_and_no_store_to_padding():
    """The RFC's example: stores of undef are removed, then the condition, since what it excludes is undefined."""
    s, A, B = doubled(undef, undef)
    assert text(s) == ("for io in 0..4:\n  for ii in 0..4:\n    B[io, ii] = A[io, ii] * 2 while 4*io + ii < 14\n")
    assert "3..4:\n  for ii in 0..2" in text(s, "chunks")  # and nothing in 2..4
    assert (poisoned(s)["B"][3, 2:] != poisoned(s, offset=1)["B"][3, 2:]).all()  # nothing is stored there
    s[B].overcompute()
    assert text(s) == text(s, "chunks") == "for io in 0..4:\n  for ii in 0..4:\n    B[io, ii] = A[io, ii] * 2\n"
    check(s)


def test_two_contracts_on_one_tensor_free_both_loops():
    """14×60 → 4,4,8,8: undef over i and 0 over j, 184 padding cells; both branches are removed."""
    A, B, s = sums_of_60()
    s.transform_layout(A, lambda i, j: [i // 4, i % 4, j], pad_value=undef)
    s.transform_layout(A, lambda io, ii, j: [io, ii, j // 8, j % 8], pad_value=0)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=undef)
    s[B].split("j", 8)
    assert s.layout(A).shape == (4, 4, 8, 8)
    assert s.layout(A).padding_count == 184
    assert "while 8*jo + ji < 60 and 4*io + ii < 14" in text(s)
    s[B].overcompute()
    assert not branches(s)
    assert text(s, "chunks").count("+=") == 1
    check(s)


def test_undefined_rows_may_take_anything():
    """With the maps in the other order, rows of undefined cells have no zeros at their ends, and need none."""
    A, B, s = sums_of_60()
    s.transform_layout(A, lambda i, j: [i, j // 8, j % 8], pad_value=0)
    s.transform_layout(A, lambda i, jo, ji: [i // 4, i % 4, jo, ji], pad_value=undef)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=undef)
    s[B].split("j", 8)
    s[B].overcompute("ji")
    s[B].overcompute("ii")
    assert not branches(s)
    check(s)


def test_one_loop_at_a_time():
    A, B, s = sums_of_60()
    s.transform_layout(A, lambda i, j: [i // 4, i % 4, j // 8, j % 8], pad_value=0)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=0)
    s[B].split("j", 8)
    s[B].overcompute("jo")
    assert "while" not in text(s)
    assert "select(io * 4 + ii < 14" in text(s) or "select(4*io + ii < 14" in text(s)
    s[B].overcompute("io")
    assert not branches(s)
    check(s)
    assert (poisoned(s)["B"].reshape(-1)[14:] == 0).all()


@pytest.mark.parametrize(
    ("of_a", "of_b", "legal"),
    [
        (0, 0, True),
        (3, 6, True),
        (3, 7, False),
        (undef, 0, False),
        (undef, None, True),
        (0, undef, True),
        (None, 0, False),
    ],
)
def test_a_contract_of_the_result_must_be_met(of_a, of_b, legal):
    s, A, B = doubled(of_a, of_b)
    before = text(s)
    if legal:
        s[B].overcompute()
        assert text(s) == "for io in 0..4:\n  for ii in 0..4:\n    B[io, ii] = A[io, ii] * 2\n"
        if isinstance(of_b, int):
            assert poisoned(s)["B"][3, 2:].tolist() == [of_b] * 2
        s[B].branch()
        assert text(s) == before
    else:
        error = refused(s[B].overcompute)
        assert text(s) == before
        if of_a is not None:
            confirm_added(s, B, error.witness)
    check(s)


def test_a_convolution_of_padding_is_padding():
    """The RFC's convolution, padded by two (by ``b - f``): conditions on the border are removed, the contract holds."""
    A = placeholder(16, "int32", "A")
    F = placeholder(3, "int32", "F")
    f = reduce_axis(3, "f")
    B = compute(18, lambda b: sum(select((b - f >= 0) & (b - f < 16), A[b - f], 0) * F[f], axis=f), "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [(i + 2) // 8, (i + 2) % 8], pad_value=0)
    s.transform_layout(B, lambda b: [(b + 2) // 8, (b + 2) % 8], pad_value=0)
    assert s.layout(A).shape == s.layout(B).shape == (3, 8)
    error = refused(s[B].overcompute)
    check_mentions(error, "overcompute", "stage B", "A[-1, 7]", "B(bo=0, bi=0, f=1)", "B[0, 0]", "F[1] (an element)")
    check(s)
    for padded in (False, True):
        s = create_schedule(B)
        s.transform_layout(A, lambda i: [(i + 2) // 8, (i + 2) % 8], pad_value=0)
        if padded:
            s.transform_layout(B, lambda b: [b // 11, b % 11], pad_value=0)
        s[B].overcompute()
        assert not branches(s)
        check(s)


def test_conditions_of_a_select_go_one_by_one():
    A = placeholder((6, 14), "int8", "A")
    j = reduce_axis(14, "j")
    B = compute(6, lambda i: max(select((i < 4) & (j < 10), A[i, j], -128), axis=j), "B")
    s = create_schedule(B)
    assert not s.is_legal("overcompute", B, "i")
    assert not s.is_legal("overcompute", B, "j")
    check(s)
    A = placeholder((4, 10), "int8", "A")
    B = compute(6, lambda i: max(select((i < 4) & (j < 10), A[i, j], -128), axis=j), "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i // 3, i % 3, j // 7, j % 7], pad_value=-128)
    s[B].overcompute("j")
    assert "select(i < 4, " in text(s)
    check(s)
    s[B].overcompute("i")
    assert not branches(s)
    check(s)


def test_a_copy_in_a_scratchpad_carries_the_padding_along():
    A, B = rows()
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i, j // 4, j % 4], pad_value=0)
    s.cache_read(A, "acc")
    s[B].split("j", 4)
    s[B].overcompute()
    assert not branches(s)
    check(s)
    s = create_schedule(B)
    copy = s.cache_read(A, "acc")
    s.transform_layout(copy, lambda i, j: [i, j // 4, j % 4], pad_value=0)
    s[B].split("j", 4)
    s[B].overcompute()
    assert "A.acc[i, jo, ji] = 0" in text(s, "chunks") or "= 0" in text(s, "chunks")
    check(s)


def test_a_producer_in_the_loops_makes_the_padding_that_is_read():
    A, B = rows()
    P = compute((16, 14), lambda i, j: A[i, j] + 1, "P")
    j = reduce_axis(14, "j")
    B = compute(16, lambda i: sum(P[i, j], axis=j), "B")
    s = create_schedule(B)
    s.transform_layout(P, lambda i, j: [i, j // 4, j % 4], pad_value=0)
    s[P].set_scope("acc")
    jo, ji = s[B].split("j", 4)
    s[P].compute_at(s[B], jo)
    s[B].overcompute(ji)
    check(s)
    assert "while" not in text(s)


def test_branch_leaves_out_what_changes_nothing():
    A = placeholder((16, 14), "int32", "A")
    j = reduce_axis((-2, 16), "j")
    B = compute(16, lambda i: sum(select((j >= 0) & (j < 14), A[i, j], 0), axis=j), "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i, j + 2], pad_value=0)
    assert s.layout(A).shape == (16, 16)
    before = text(s)
    refused_plainly(s[B].branch)
    assert text(s) == before
    s[B].reduce_extent("j")
    assert s[B].op.reduce_axes[0].extent == 14
    assert s[B].op.reduce_axes[0].start == 0
    assert not branches(s)
    check(s)
    check_mentions(refused(s[B].reduce_extent, "j"), "axis j", "reduce_extent", "B(i=0, j=13)", "B[0]", "A[0, 15]")
    refused(s[B].branch)
    s = create_schedule(B)
    s.transform_layout(A, lambda i, j: [i, j + 2], pad_value=0)
    s.transform_layout(A, lambda i, j: [i, (j + 2) // 20, (j + 2) % 20], pad_value=0)
    s[B].overcompute()
    assert not branches(s)
    s[B].branch("j")
    assert "select(j - 2 >= 0 and j - 2 < 14, A[" in text(s)
    check(s)


def test_messages():
    A, B = rows()
    s = create_schedule(B)
    s[B].split("i", 5)
    raises(ScheduleError, s[B].overcompute, "j", kind="argument", mentions=("j", "B", "overcompute"))
    check_mentions(refused(s[B].overcompute), "overcompute", "stage B", "B[16]", "(16,)", "i")
    raises(ScheduleError, s[B].reduce_extent, "io", kind="argument", mentions=("reduce_extent", "B", "io"))
    raises(ScheduleError, s[B].branch, "io", kind="argument", mentions=("io", "B"))
    s[B].split("j", 4)
    s[B].split("ji", 3)
    raises(ScheduleError, s[B].overcompute, "jo", kind="limit", mentions=("axis", "j", "B", "overcompute", "ji", 6, 4))
    check(s)


def test_what_a_copy_leaves_out_is_not_read():
    """Padding that must not be read is not copied, and must not be read in the copy either."""
    A = placeholder(14, "int8", "A")
    B = compute(14, lambda i: A[i] * 2, "B")
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [i // 4, i % 4])
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=undef)
    s.cache_read(A, "acc")
    assert text(s).count("while") == 2
    check(s)
    check_mentions(refused(s[B].overcompute), "A.acc[3, 2]", "pad_value=None")
    s = create_schedule(B)
    s.transform_layout(A, lambda i: [i // 4, i % 4], pad_value=undef)
    s.transform_layout(B, lambda i: [i // 4, i % 4], pad_value=undef)
    s.cache_read(A, "acc")
    made = s.cache_write(B, "acc")
    check_mentions(refused(s[B].overcompute), "pad_value=None")
    s[made].overcompute()
    s[B].overcompute()
    assert not branches(s)
    check(s)


def test_domains_and_conditions_on_data_are_none_to_remove():
    A = placeholder((8, 8), "int8", "A")
    B = compute((8, 8), lambda i, j: select(A[i, j] > 3, A[i, j], 3), "B")
    C = compute((8, 8), lambda i, j: A[i, j] * 2, "C", where=lambda i, j: j <= i)
    s = create_schedule([B, C])
    for tensor, besides in ((B, ()), (C, ("where=",))):
        mentions = ("overcompute", f"stage {tensor.name}", *besides)
        raises(ScheduleError, s[tensor].overcompute, kind="argument", mentions=mentions)
