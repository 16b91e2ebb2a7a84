"""Primitives on programs with symbolic parameters, bound to values for which they have little or no effect."""

import pytest
from error_checks import raises
from nests import CONFIG, text
from random_programs import random_inputs
from small_machine import run

from lathe.frontend import Tensor, compute, parameter, placeholder, reduce_axis, select, sum
from lathe.scheduler import PaddingError, Schedule, ScheduleError, bind, create_schedule

N = parameter("N", minimum=1, typical=48)


def rows() -> tuple[Tensor, Tensor, Schedule]:
    A = placeholder((N, 32), "int32", name="A")
    B = compute((N, 32), lambda i, j: A[i, j] * 3, name="B")
    C = compute((N, 32), lambda i, j: B[i, j] + 1, name="C")
    return B, C, create_schedule(C)


def ran_with(schedule: Schedule, n: int) -> Schedule:
    """The schedule with a number for N, after it has been compiled and run like its program in NumPy."""
    bound = bind(schedule, {"N": n})
    run(bound, CONFIG, random_inputs(list(bound.program), seed=0))
    return bound


@pytest.mark.parametrize(("n", "loop"), [(16, "0..1"), (20, "0..2"), (33, "0..3"), (100, "0..7")])
def test_threads_that_get_no_iteration_do_nothing(n, loop):
    B, C, s = rows()
    s[B].set_scope("acc")
    outer, _ = s[C].split("i", factor=16)
    s[B].compute_at(s[C], outer)
    s[C].vthread(outer, 3)
    bound = ran_with(s, n)
    assert f"io in {loop}" in text(bound, "loops")
    assert bound.stages[1].state.threads == {bound.stages[1].leaf_axis[0]: 3}


@pytest.mark.sample(1)
@pytest.mark.parametrize(("n", "extents"), [(48, [1, 48]), (50, [2, 48]), (20, [2, 16]), (16, [1, 16]), (7, [1, 7])])
def test_a_loop_shorter_than_its_full_part_is_all_rest(n, extents):
    _, C, s = rows()
    part, inner = s[C].separate("i", 16)
    s[C].reorder(part, "j", inner)
    loops = text(ran_with(s, n), "loops")
    assert f"for ip in 0..{extents[0]}:" in loops
    assert f"for ii in 0..{extents[1]}:" in loops


def total() -> Tensor:
    A = placeholder((4, N), "int32", name="A")
    k = reduce_axis((0, N), name="k")
    return compute((4,), lambda i: sum(select(k < 40, A[i, k], 0), axis=k), name="T")


def padded_sum() -> tuple[Schedule, Tensor]:
    """A row sum over a layout in blocks of five, whose loop is split in the same way."""
    A = placeholder((4, N), "int32", name="A")
    k = reduce_axis((0, N), name="k")
    T = compute((4,), lambda i: sum(A[i, k], axis=k), name="T")
    s = create_schedule(T)
    s.transform_layout(A, lambda i, j: [i, j // 5, j % 5], pad_value=0)
    s[T].split(s[T].reduce_axis[0], factor=5)
    return s, T


@pytest.mark.parametrize("n", [12, 40, 48, 61])
def test_conditions_that_are_not_there_need_not_be_removed(n):
    s, T = padded_sum()
    s[T].overcompute("ki")
    ran_with(s, n)


@pytest.mark.parametrize("n", [12, 40, 48])
def test_where_there_is_no_padding_there_is_nothing_to_branch_around(n):
    s, T = padded_sum()
    s[T].overcompute("ki")
    s[T].branch()
    ran_with(s, n)


@pytest.mark.parametrize("n", [12, 40, 48])
def test_a_sum_that_takes_all_keeps_its_extent(n):
    T = total()
    s = create_schedule(T)
    s[T].reduce_extent("k")
    assert ran_with(s, n).stages[0].op.reduce_axes[0].extent == min(n, 40)


def test_with_numbers_from_the_start_a_request_for_nothing_is_a_mistake():
    _, C, _ = rows()
    s = bind(create_schedule(C), {"N": 7})
    assert isinstance(s, Schedule)
    C = s.program[0]
    raises(ScheduleError, s[C].vthread, "i", 8, kind="argument", mentions=("loop", "i", "C", 1, 7, 8))
    raises(ScheduleError, s[C].separate, "i", 8, kind="argument", mentions=("axis", "i", "separate", "C", 7, 8))
    raises(ScheduleError, s[C].overcompute, kind="argument", mentions=("C", "overcompute"))
    raises(ScheduleError, s[C].branch, kind="argument", mentions=("C",))
    T = bind(total(), {"N": 12})
    mentions = ("axis", "reduce_extent", "T(i=0, k=11)", "T[0]", "A[0, 11]")
    raises(PaddingError, create_schedule(T)[T].reduce_extent, "k", mentions=mentions)


def test_a_tensor_may_be_named_as_a_layout_has_made_it():
    B, C, s = rows()
    s.transform_layout(B.computation.reads[0].tensor, lambda i, j: [j, i])
    (laid_out,) = (read.tensor for read in s[B].op.reads)
    s.cache_read(laid_out, "acc")
    assert ran_with(s, 20).stages[0].op.shape == (32, 20)
