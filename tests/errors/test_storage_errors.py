"""Every refusal of the commands on storage: the whole message, and the schedule as it was before."""

import islpy as isl
import pytest
from refused_commands import P2, A, B, C, D, Refused, check_refused, low, steps, text_of

from lathe.frontend import Tensor, compute, placeholder
from lathe.frontend.expr.dtypes import DTYPES
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
    Refused("nothing", T, stored(S),
        "arguments of store_in of stage S must be a buffer, a map, or both in this order, not none."),
    Refused("a_map_before_its_buffer", T, stored(S, "{ S[i, j] -> [i, j] }", ELSEWHERE),
        "arguments of store_in of stage S must be a buffer, a map, or both in this order, not '{ S[i, j] -> [i, j] "
        "}', StorageBuffer(other)."),
    Refused("a_number", T, stored(S, 5),
        "function of store_in of S must take an index and return the new one, not be 5. Pass it as in lambda i, j: "
        "[j, i]."),
    Refused("a_function_of_one_index", T, stored(S, lambda i: i),
        "parameters of the function of store_in of S must be 2, one per axis of its present layout (8, 6), not 1. "
        "Write lambda *indices to take any number."),
    Refused(
        "a_function_that_returns_nothing",
        T,
        stored(S, lambda i, j: None),  # noqa: ARG005
        "function of store_in of S must return a list of index expressions, not None. Return the new index, as in "
        "[i // 4, i % 4].",
    ),
    Refused("an_index_that_is_none", T, stored(S, lambda i, j: [i, X[i, j]]),
        "index in the list that the function of store_in of S returns must be an expression of its parameters, not "
        "X[i, j]."),
    Refused("a_text_that_is_no_map", T, stored(S, "S[i, j] -> [j, i]"),
        f"{MAP} be an isl map, as in \"{{ C[i, j] -> [j, i mod 2] }}\", not 'S[i, j] -> [j, i]'."),
    Refused("a_map_of_one_axis", T, stored(S, "{ S[i] -> [i] }"), f"{MAP} have 2 axes, as (8, 6) has, not 1."),
    Refused("an_index_without_a_cell", T, stored(S, isl.Map("{ S[i, j] -> [i, j] : j > 0 }")),
        f"{MAP} give every index a cell, not leave out S[0, 0]."),
    Refused("an_index_of_two_cells", T, stored(S, "{ S[i, j] -> [i, k] : j <= k <= j + 1 }"),
        f"{MAP} give every index one cell, not S[0, 0] both [0, 0] and [0, 1]."),
    Refused("a_map_of_two_pieces", T, stored(S, "{ S[i, j] -> [i, j] : i < 4; S[i, j] -> [11 - i, j] : i >= 4 }"),
        f"{MAP} be one quasi-affine formula, not one of 2 pieces. Give a map without cases."),
    Refused("a_negative_cell", T, stored(S, lambda i, j: (i - 1, j)),
        "cell of S(i=0, j=0) in buffer S must be one at 0 and above, not (-1, 0) (store_in). Fold the index with %, "
        "or make the buffer larger."),
    Refused("a_cell_outside_the_buffer", T, in_buffer(S, lambda i, j: (i, j), (8, 5)),
        "cell of S(i=0, j=5) in buffer b must be one of (8, 5), not (0, 5) (store_in). Fold the index with %, or "
        "make the buffer larger."),
    Refused("too_many_dimensions", T, in_buffer(S, lambda i, j: (i, j), 48),
        "map of store_in of S must have 1 indices, as many as buffer b has dimensions, not 2."),
    Refused("another_dtype", T, in_buffer(S, lambda i, j: (i, j), (8, 6), "int32"),
        "dtype of buffer b must be that of what is stored there, int8 of S, not int32."),
    Refused("several_outputs", P2, stored(low, lambda i: i % 2),
        "tensor of store_in must be the only output of its computation, not one of 2 of pair. Give each output a "
        "computation of its own."),
    Refused("an_output_in_a_scratchpad", T, stored(T, lambda i, j: (i, j), scope="acc"),
        "scope of stage T must be dram, not 'acc', because T is an output of the program. Make a copy in the "
        "scratchpad with s.cache_write(T, 'acc')."),
    Refused("an_unknown_scope", T, stored(S, lambda i, j: (i, j), scope="l2"),
        "scope of stage S must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not 'l2'."),
    Refused("a_buffer_without_cells", T, lambda s: s.buffer("b", (4, 0)),
        "shape of buffer b must be a list of positive integers, not (4, 0)."),
    Refused("a_buffer_of_floats", T, lambda s: s.buffer("b", 4, "float32"),
        "dtype of buffer b must be one of int8, int16, int32, int64, uint8, uint16, uint32, bool, not 'float32'."),
    Refused("a_buffer_nowhere", T, lambda s: s.buffer("b", 4, scope="l2"),
        "scope of buffer b must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not 'l2'."),
    Refused("a_name_that_is_taken", T, lambda s: s.buffer("S"),
        "name of buffer must be a string that names no other (S), not 'S'.", prepared=stored(S, lambda i, j: (j, i))),
    Refused("a_scope_that_the_buffer_has_not", T, lambda s: s[S].set_scope("acc"),
        "stages stored in buffer b in dram must live in its memory, not S in acc (set_scope). Store them in buffers "
        "of their own, or set the scope of all.", prepared=in_buffer(S, lambda i, j: (i, j), scope="dram")),
    Refused("a_buffer_that_nobody_uses", T, lambda s: s.allocate_at(s.buffer("b", 8), T, "i"),
        "buffer of allocate_at must be one that a stage of the schedule is stored in (none yet), not 'b'. Call "
        "store_in first, which returns it."),
    Refused(
        "an_allocation_of_a_list",
        T,
        lambda s: s.allocate_at([], T, "i"),  # type: ignore[arg-type]
        "buffer of allocate_at must be one that a stage of the schedule is stored in (none yet), not []. Call "
        "store_in first, which returns it.",
    ),
    Refused(
        "a_buffer_with_a_list_for_a_dtype",
        T,
        lambda s: s.buffer("b", 8, []),  # type: ignore[arg-type]
        "dtype of buffer b must be one of " + ", ".join(each for each in DTYPES if each != "index") + ", not [].",
    ),
    Refused(
        "a_scope_that_is_a_list",
        T,
        lambda s: s[S].set_scope([]),  # type: ignore[arg-type]
        "scope of stage S must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not [].",
    ),
    Refused("a_map_of_store_in_with_parameters", T, lambda s: s[S].store_in("[n] -> { S[i, j] -> [i, j + n] }"),
        "map of store_in of S must be of axes and numbers, not of parameters (n). Write their values."),
    Refused(
        "a_loop_of_an_allocation_that_is_gone",
        T,
        lambda s: s[T].set_schedule("{ T[i, j] -> [i, j] }"),
        "stage of set_schedule must be computed whole, in loops of its own, not 'T', with S computed inside it. Call "
        "set_schedule first.",
        prepared=steps(
            lambda s: s[S].compute_at(s[T], "i"),
            lambda s: s.allocate_at(s[S].store_in(lambda i, j: (i % 1, j)), T, "i"),
        ),
    ),
    Refused("nothing_to_copy", D, lambda s: s.copy_at(A, s[C], "i"),
        "tensor of copy_at must be one that is read in loop i of stage C, not 'A'."),
    Refused("a_place_that_is_none", D, lambda s: s.cache_read(B, "acc", at="i"),
        "at of cache_read must be a stage and one of its loops, as in (C, i), not 'i'."),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)


def test_stages_of_two_dtypes_share_no_buffer():
    wide = compute((8, 6), lambda i, j: S[i, j].astype("int32"), "wide")
    out = compute((8, 6), lambda i, j: wide[i, j] + 1, "out")
    s = create_schedule(out)
    b = s.buffer("b", (8, 6))
    s[S].store_in(b)
    before = text_of(s)
    with pytest.raises(ScheduleError) as caught:
        s[wide].store_in(b)
    assert (
        str(caught.value)
        == "stages stored in buffer b must have one dtype, not S of int8 and wide of int32 (store_in)."
    )
    assert text_of(s) == before
    assert isinstance(b, StorageBuffer)


def test_a_copy_that_is_written_inside_a_reduction():
    from refused_commands import M

    s: Schedule = create_schedule(M)
    with pytest.raises(ScheduleError) as caught:
        s.cache_write(M, "acc", at=s[M].reduce_axis[0])
    loop = s[M].reduce_axis[0].name
    assert str(caught.value) == (
        "axis of cache_write of M must be a loop of data of a stage without a pragma and without others inside it, not "
        f"loop {loop} of its reduction. Call cache_write before other commands."
    )
