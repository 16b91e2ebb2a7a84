"""``cache_write``: values are computed in a scratchpad and copied from there."""

from documented import as_documented
from error_checks import raises
from nests import plus_one

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.scheduler import ScheduleError, create_schedule
from lathe.scheduler.primitives.cache import cache_write


def test_documentation_shows_before_and_after():
    _, C, s = plus_one()
    with as_documented(cache_write, s):
        s.cache_write(C, "acc")


def test_the_copy_keeps_its_axes_and_the_new_stage_has_the_reduction(golden_and_right):
    A, k = placeholder((6, 10), "int32", "A"), reduce_axis(10, "k")
    C = compute(6, lambda i: sum(A[i, k], axis=k), "C")
    s = create_schedule(C)
    (axis,) = s[C].axis
    made = s.cache_write(C, "acc")
    assert s[C].axis == (axis,)
    assert s[C].reduce_axis == ()
    assert [each.name for each in s[made].reduce_axis] == ["k"]
    io, _ = s[C].split(axis, factor=4)
    s[made].compute_at(s[C], io)
    golden_and_right(s)


def test_a_stage_between_others_is_copied_to_where_it_was(golden_and_right):
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(8, lambda i: B[7 - i] * 2, "C")
    s = create_schedule(C)
    s[B].set_scope("inp")
    made = s.cache_write(B, "acc")
    assert made.name == "B.acc"
    golden_and_right(s)


def test_out_means_the_accumulators():
    _, C, s = plus_one()
    assert s.cache_write(C, "out").name == "C.acc"


def test_global_and_the_empty_text_mean_dram_as_the_refusal_of_others_says():
    for name in ("global", ""):
        _, C, s = plus_one()
        assert s.cache_write(C, name).name == "C.dram"
    mentions = ("cache_write of C", "dram", "inp", "wgt", "acc", "local")
    raises(ScheduleError, s.cache_write, C, "local", kind="argument", mentions=mentions)
