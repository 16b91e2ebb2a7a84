"""Primitives on one of several outputs of a computation: the computation is split, and keeps its loops."""

import numpy as np
import pytest
from error_checks import raises
from nests import CONFIG, check, text
from random_programs import random_inputs
from small_machine import run

from lathe.frontend import Tensor, compute, max, placeholder, reduce_axis, sum
from lathe.scheduler import Schedule, ScheduleError, create_schedule

A = placeholder((20, 32), "int32", "A")


def pair() -> tuple[Tensor, Tensor]:
    first, second = compute((20, 32), lambda i, j: (A[i, j] + 1, max(A[19 - i, j], 3)), name="M")
    return first, second


def compiled(schedule: Schedule) -> None:
    check(schedule)
    run(schedule, CONFIG, random_inputs(list(schedule.program), seed=0))


@pytest.mark.parametrize("which", [0, 1])
def test_a_layout_of_one_output(which):
    outputs = pair()
    s = create_schedule(outputs)
    stage = s[outputs[which]]
    loops = s.transform_layout(outputs[which], lambda i, j: [j // 16, i, j % 16])
    assert [stage.name for stage in s.stages] == ["M.0", "M.1"]
    assert s[outputs[which]] is stage
    assert loops == stage.axis
    assert stage.op.shape == (2, 20, 16)
    assert s[outputs[1 - which]].op.shape == (20, 32)
    s[outputs[1 - which]].split("i", 8)
    compiled(s)


def test_layouts_of_both_outputs_and_of_what_reads_one():
    first, second = pair()
    C = compute((20, 32), lambda i, j: first[i, 31 - j] * 2 + second[i, j], "C")
    s = create_schedule([C, second])
    s.transform_layout(first, lambda i, j: [j, i])
    s.transform_layout(second, lambda i, j: [i // 4, j, i % 4])
    s.transform_layout(C, lambda i, j: [i // 4, j, i % 4])
    compiled(s)


def test_padding_of_one_output():
    first, second = pair()
    s = create_schedule([first, second])
    s.transform_layout(second, lambda i, j: [i // 8, j, i % 8], pad_value=7)
    assert s.layout(second).padding_count == 4 * 32
    compiled(s)


def test_each_output_keeps_the_loops_and_tags_that_there_were():
    first, second = pair()
    s = create_schedule([first, second])
    outer, inner = s[first].split("i", factor=7)
    s[first].vthread(outer, 2)
    s[first].unroll(inner)
    s.transform_layout(second, lambda i, j: [i, j // 16, j % 16])
    for tensor in (first, second):
        stage = s[tensor]
        assert [leaf.name for leaf in stage.leaf_axis[:2]] == ["io", "ii"]
        assert list(stage.state.threads.values()) == [2]
        assert stage.state.unrolled == {stage.leaf_axis[1]}
    compiled(s)


def test_outputs_of_a_reduction_part_with_its_loops():
    k = reduce_axis(32, "k")
    low, total = compute((20,), lambda i: (max(A[i, k], axis=k), sum(A[i, k] * 3, axis=k)), name="R")
    s = create_schedule([low, total])
    s[low].split("k", factor=8)
    s.transform_layout(total, lambda i: [i // 5, i % 5])
    assert text(s).count("for ko in 0..4") == 2
    compiled(s)


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_computed_in_the_loops_is_there_for_each_output_that_reads_it(which):
    P = compute((20, 32), lambda i, j: A[i, j] * 5, "P")
    Q = compute((20, 32), lambda i, j: A[i, j] - 4, "Q")
    outputs = compute((18, 32), lambda i, j: (P[i, j] + P[i + 2, j], P[i + 1, j] + Q[i, j]), name="M")
    s = create_schedule(outputs)
    for tensor in (P, Q):
        s[tensor].set_scope("acc")
    s[P].reuse_at(s[outputs[0]], "i")
    s[Q].compute_at(s[outputs[0]], "i")
    s.transform_layout(outputs[which], lambda i, j: [i, j // 16, j % 16])
    assert len(s.stages) == 5
    assert s[Q].enclosing is s[outputs[1]]
    assert s[P].enclosing is s[outputs[which]]
    compiled(s)


def test_an_output_in_the_loops_of_its_reader_stays_there():
    first, second = pair()
    C = compute((20, 32), lambda i, j: first[i, j] * 2 + second[i, j], "C")
    s = create_schedule(C)
    s[first].set_scope("acc")
    s[first].compute_at(s[C], "i")
    s.transform_layout(first, lambda i, j: [i, j // 16, j % 16])
    assert [s[each].state.scope for each in (first, second)] == ["acc", "acc"]
    compiled(s)


def test_a_stage_that_shares_loops_parts_in_them():
    first, second = pair()
    C = compute((20, 32), lambda i, j: first[i, j] * 2 + second[i, j], "C")
    s = create_schedule(C)
    s[C].after(s[first], "i")
    s.transform_layout(second, lambda i, j: [i, j // 16, j % 16])
    assert text(s).count("for i in 0..20") == 1
    compiled(s)


@pytest.mark.parametrize("which", [0, 1])
def test_one_output_is_made_in_a_scratchpad(which):
    outputs = pair()
    s = create_schedule(outputs)
    made = s.cache_write(outputs[which], "acc")
    s[made].compute_at(s[outputs[which]], "i")
    assert made.name == f"M.{which}.acc"
    compiled(s)


def test_both_outputs_become_part_of_their_readers():
    first, second = pair()
    C = compute((20, 32), lambda i, j: first[i, 31 - j] * 2 + second[i, j], "C")
    D = compute((20, 32), lambda i, j: second[i, j] - 1, "D")
    s = create_schedule([C, D])
    s[first].inline()
    assert [stage.name for stage in s.stages] == ["C", "D"]
    compiled(s)


def test_a_refused_layout_leaves_the_outputs_together():
    first, second = pair()
    s = create_schedule([first, second])
    s[first].split("i", 4)
    before = text(s)
    mentions = ("transform_layout", "M.0", "i // 4, j, i % 4")
    raises(ScheduleError, s.transform_layout, first, lambda i, j: [i // 4, j, i % 4], kind="limit", mentions=mentions)
    assert text(s) == before
    assert len(s.stages) == 1
    assert np.all([tensor in s.outputs for tensor in (first, second)])


def test_an_output_that_nobody_reads_has_no_place_in_loops():
    first, second = pair()
    C = compute((20, 32), lambda i, j: second[i, j] * 2, "C")
    s = create_schedule(C)
    s.transform_layout(second, lambda i, j: [i, j // 16, j % 16])
    raises(ScheduleError, s[first].compute_at, s[second], "i", kind="argument", mentions=("compute_at", "M.0"))
    compiled(s)
    s.remove_dead_stores()
    assert [stage.name for stage in s.stages] == ["M.1", "C"]
    compiled(s)
