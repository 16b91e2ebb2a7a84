"""``cache_read``: consumers read a copy in a scratchpad."""

from documented import as_documented
from nests import check, plus_one

from lathe.frontend import compute, placeholder
from lathe.scheduler import create_schedule
from lathe.scheduler.primitives.cache import cache_read


def test_documentation_shows_before_and_after():
    A, C, s = plus_one()
    with as_documented(cache_read, s):
        s.cache_read(A, "inp", [C])


def test_the_copy_is_loaded_where_it_is_computed(golden_and_right):
    A, C, s = plus_one()
    copy = s.cache_read(A, "acc")
    assert (copy.name, copy.shape, copy.dtype) == ("A.acc", (60,), "int8")
    io, _ = s[C].split("i", factor=16)
    s[copy].compute_at(s[C], io)
    golden_and_right(s)


def test_only_the_readers_named_read_the_copy(golden_and_right):
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(8, lambda i: A[7 - i] + B[i], "C")
    s = create_schedule(C)
    s.cache_read(A, "inp", C)
    golden_and_right(s)


def test_a_copy_of_what_a_stage_makes(golden_and_right):
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(4, lambda i: B[2 * i] + B[2 * i + 1], "C")
    s = create_schedule(C)
    copy = s.cache_read(B, "acc")
    s[copy].compute_at(s[C], "i")
    golden_and_right(s)


def test_a_second_copy_bears_another_name():
    A = placeholder(8, "int32", "A")
    B = compute(8, lambda i: A[i] + 1, "B")
    C = compute(8, lambda i: A[7 - i] + B[i], "C")
    s = create_schedule(C)
    assert [s.cache_read(A, "inp", reader).name for reader in (B, C)] == ["A.inp", "A.inp2"]
    check(s)


def test_global_means_dram():
    A, C, s = plus_one()
    assert s.cache_read(A, "global").name == "A.dram"
    check(s)


def test_gathered_elements_lie_beside_each_other(golden_and_right):
    A = placeholder((9, 8), "int32", "A")
    C = compute((4, 8), lambda i, j: A[2 * i + 1, j] + 1, "C")
    s = create_schedule(C)
    copy = s.cache_read(A, "acc", gathered=[0])
    assert copy.shape == (4, 8)
    s[copy].compute_at(s[C], "i")
    golden_and_right(s)


def test_gathered_for_readers_that_take_others(golden_and_right):
    A = placeholder((12,), "int32", "A")
    B = compute((3,), lambda i: A[4 * i] + 1, "B")
    C = compute((3,), lambda i: A[4 * i + 2] + B[i], "C")
    s = create_schedule(C)
    assert s.cache_read(A, "acc", gathered=[0]).shape == (6,)
    golden_and_right(s)
