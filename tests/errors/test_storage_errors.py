"""Every refusal of the primitives on storage: kind and mentions, and an unchanged schedule."""

import islpy as isl
import pytest
from error_checks import raises
from refused_primitives import P2, A, B, C, D, Refused, check_refused, low, steps, text_of

from lathe.frontend import Tensor, compute, placeholder
from lathe.scheduler import Schedule, ScheduleError, StorageBuffer, create_schedule

X = placeholder((8, 6), "int8", "X")
S = compute((8, 6), lambda i, j: X[i, j] + 1, "S")
T = compute((8, 6), lambda i, j: S[i, j] * 2, "T")
ELSEWHERE = create_schedule(D).buffer("other")


def stored(tensor: Tensor, *where: object, **options: str):
    return lambda s: s[tensor].store_in(*where, **options)


def in_buffer(tensor: Tensor, map_: object, *given: object, **options: object):
    return lambda s: s[tensor].store_in(s.buffer("b", *given, **options), map_)


MAP = "map of store_in of S must"
# fmt: off
CASES = [
    Refused("nothing", T, stored(S), "argument", ("store_in", "S", "none")),
    Refused("a_map_before_its_buffer", T, stored(S, "{ S[i, j] -> [i, j] }", ELSEWHERE),
        "argument", ("store_in", "'{ S[i, j] -> [i, j] }', StorageBuffer(other)")),
    Refused("a_number", T, stored(S, 5), "argument", ("store_in", "S", 5)),
    Refused("a_function_of_one_index", T, stored(S, lambda i: i), "argument", ("store_in", "S", 2, "(8, 6)", 1)),
    Refused(
        "a_function_that_returns_nothing",
        T,
        stored(S, lambda i, j: None),  # noqa: ARG005
        "argument", ("store_in", "S", "None"),
    ),
    Refused("an_index_that_is_none", T, stored(S, lambda i, j: [i, X[i, j]]), "argument", ("store_in", "S", "X[i, j]")),
    Refused("a_text_that_is_no_map", T, stored(S, "S[i, j] -> [j, i]"),
        "argument", ("store_in", 2, "S[i, j] -> [j, i]")),
    Refused("a_map_of_one_axis", T, stored(S, "{ S[i] -> [i] }"), "argument", ("store_in", "S", 2, "(8, 6)", 1)),
    Refused("an_index_without_a_cell", T, stored(S, isl.Map("{ S[i, j] -> [i, j] : j > 0 }")),
        "argument", ("store_in", "S[0, 0]")),
    Refused("an_index_of_two_cells", T, stored(S, "{ S[i, j] -> [i, k] : j <= k <= j + 1 }"),
        "argument", ("store_in", "S[0, 0]", "[0, 0]", "[0, 1]")),
    Refused("a_map_of_two_pieces", T, stored(S, "{ S[i, j] -> [i, j] : i < 4; S[i, j] -> [11 - i, j] : i >= 4 }"),
        "limit", ("store_in", "S", 2)),
    Refused("a_negative_cell", T, stored(S, lambda i, j: (i - 1, j)),
        "argument", ("S(i=0, j=0)", "(-1, 0)", "store_in")),
    Refused("a_cell_outside_the_buffer", T, in_buffer(S, lambda i, j: (i, j), (8, 5)),
        "argument", ("S(i=0, j=5)", "b", "(8, 5)", "(0, 5)", "store_in")),
    Refused("too_many_dimensions", T, in_buffer(S, lambda i, j: (i, j), 48), "argument", ("store_in", "S", 1, "b", 2)),
    Refused("another_dtype", T, in_buffer(S, lambda i, j: (i, j), (8, 6), "int32"),
        "argument", ("buffer", "b", "int8", "S", "int32")),
    Refused("several_outputs", P2, stored(low, lambda i: i % 2), "limit", ("store_in", 2, "pair")),
    Refused("an_output_in_a_scratchpad", T, stored(T, lambda i, j: (i, j), scope="acc"),
        "machine", ("T", "dram", "acc")),
    Refused("an_unknown_scope", T, stored(S, lambda i, j: (i, j), scope="l2"),
        "argument", ("stage S", "dram", "inp", "wgt", "acc", "l2")),
    Refused("a_buffer_without_cells", T, lambda s: s.buffer("b", (4, 0)), "argument", ("buffer", "b", "(4, 0)")),
    Refused("a_buffer_of_floats", T, lambda s: s.buffer("b", 4, "float32"),
        "argument", ("buffer", "b", "int8, int16, int32, int64, uint8, uint16, uint32, bool", "float32")),
    Refused("a_buffer_nowhere", T, lambda s: s.buffer("b", 4, scope="l2"),
        "argument", ("buffer b", "dram", "inp", "wgt", "acc", "l2")),
    Refused("a_name_that_is_taken", T, lambda s: s.buffer("S"),
        "argument", ("buffer", "S"), prepared=stored(S, lambda i, j: (j, i))),
    Refused("a_scope_that_the_buffer_has_not", T, lambda s: s[S].set_scope("acc"),
        "argument", ("b", "dram", "S", "acc", "set_scope"), prepared=in_buffer(S, lambda i, j: (i, j), scope="dram")),
    Refused("a_buffer_that_nobody_uses", T, lambda s: s.allocate_at(s.buffer("b", 8), T, "i"),
        "argument", ("buffer", "b", "allocate_at")),
    Refused(
        "an_allocation_of_a_list",
        T,
        lambda s: s.allocate_at([], T, "i"),  # type: ignore[arg-type]
        "argument", ("buffer", "allocate_at", "[]"),
    ),
    Refused(
        "a_buffer_with_a_list_for_a_dtype",
        T,
        lambda s: s.buffer("b", 8, []),  # type: ignore[arg-type]
        "argument", ("buffer", "b", "int8, int16, int32, int64, uint8, uint16, uint32, bool", "[]"),
    ),
    Refused(
        "a_scope_that_is_a_list",
        T,
        lambda s: s[S].set_scope([]),  # type: ignore[arg-type]
        "argument", ("stage S", "dram", "inp", "wgt", "acc", "[]"),
    ),
    Refused("a_map_of_store_in_with_parameters", T, lambda s: s[S].store_in("[n] -> { S[i, j] -> [i, j + n] }"),
        "argument", ("store_in", "n", "S")),
    Refused("a_loop_of_an_allocation_that_is_gone", T, lambda s: s[T].set_schedule("{ T[i, j] -> [i, j] }"),
        "limit", ("set_schedule", "T", "S"),
        prepared=steps(lambda s: s[S].compute_at(s[T], "i"),
                       lambda s: s.allocate_at(s[S].store_in(lambda i, j: (i % 1, j)), T, "i"))),
    Refused("nothing_to_copy", D, lambda s: s.copy_at(A, s[C], "i"), "argument", ("copy_at", "i", "C", "A")),
    Refused("a_place_that_is_none", D, lambda s: s.cache_read(B, "acc", at="i"), "argument", ("cache_read", "i", "C")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal_and_schedule_unchanged(case):
    check_refused(case)


def test_stages_of_two_dtypes_share_no_buffer():
    wide = compute((8, 6), lambda i, j: S[i, j].astype("int32"), "wide")
    out = compute((8, 6), lambda i, j: wide[i, j] + 1, "out")
    s = create_schedule(out)
    b = s.buffer("b", (8, 6))
    s[S].store_in(b)
    before = text_of(s)
    mentions = ("buffer b", "dtype", "S of int8", "wide of int32", "store_in")
    raises(ScheduleError, s[wide].store_in, b, kind="argument", mentions=mentions)
    assert text_of(s) == before
    assert isinstance(b, StorageBuffer)


def test_a_copy_that_is_written_inside_a_reduction():
    from refused_primitives import M

    s: Schedule = create_schedule(M)
    loop = s[M].reduce_axis[0]
    raises(ScheduleError, s.cache_write, M, "acc", at=loop, kind="limit", mentions=("cache_write", "M", loop.name))
