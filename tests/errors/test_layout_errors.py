"""Every refusal of ``transform_layout``: kind and mentions, and an unchanged schedule."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from error_checks import raises
from refused_primitives import Refused, check_refused

from lathe.frontend import Axis, Tensor, compute, placeholder
from lathe.frontend.arith.polyhedra import limited_operations
from lathe.scheduler import AXIS_SEPARATOR, Schedule, ScheduleError, create_schedule

A = placeholder((8, 12), "int8", "A")
B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
C = compute(A.shape, lambda i, j: B[i, j] * 2, "C")
low, high = compute(A.shape, lambda i, j: (A[i, j] + 1, A[i, j] - 1), "pair")
ELSEWHERE = placeholder((8, 12), "int8", "elsewhere")
OTHER = Axis("other", 4)


def transform(function: Any, tensor: Tensor = B) -> Callable[[Schedule], object]:
    return lambda s: s.transform_layout(tensor, function)


def case(
    name: str,
    mistake: Callable[[Schedule], object],
    kind: str,
    mentions: tuple[object, ...],
    prepared: Callable[[Schedule], object] = lambda _: None,
    output: Tensor | tuple[Tensor, ...] = C,
) -> Refused:
    return Refused(name, output, mistake, kind, mentions, prepared)


# fmt: off
CASES = [
    case("a_tensor_of_another_program", transform(lambda i, j: [j, i], ELSEWHERE),
        "argument", ("transform_layout", "elsewhere")),
    case(
        "no_tensor",
        transform(lambda i, j: [j, i], "B"),  # type: ignore[arg-type]
        "argument", ("transform_layout", "B"),
    ),
    case("no_function", transform([1, 0]), "argument", ("transform_layout", "B", "[1, 0]")),
    case("too_few_parameters", transform(lambda i: [i]), "argument", ("transform_layout", "B", 2, "(8, 12)", 1)),
    case("as_many_parameters_as_the_tensor_had_axes_before_the_first_map", transform(lambda i, j: [j, i]),
        "argument", ("transform_layout", "B", "(8, 3, 4)", 2), transform(lambda i, j: [i, j // 4, j % 4])),
    case("something_else_than_a_list", transform(lambda i, j: i * 12 + j),
        "argument", ("transform_layout", "B", "i * 12 + j")),
    case("nothing", transform(lambda *_: []), "argument", ("transform_layout", "B", "[]")),
    case("a_string", transform(lambda i, j: [i + j, "j"]), "argument", ("transform_layout", "B", "j")),
    case("a_fraction", transform(lambda i, j: [i + j, 0.5]), "argument", ("transform_layout", "B", "0.5")),
    case("a_condition", transform(lambda i, j: [i, j < 4]), "argument", ("transform_layout", "B", "j < 4")),
    case("an_element", transform(lambda i, j: [i, A[i, j]]), "argument", ("transform_layout", "B", "A[i, j]")),
    case("another_axis", transform(lambda i, j: [i, j + OTHER]), "argument", ("transform_layout", "B", "other")),
    case("a_mistake_in_the_function", transform(lambda i, j: [i, j / 4]), "argument", ("transform_layout", "B")),
    case("a_separator_at_the_end", transform(lambda i, j: [i, j, AXIS_SEPARATOR]),
        "argument", ("AXIS_SEPARATOR", "transform_layout", "B")),
    case("two_separators_in_a_row", transform(lambda i, j: [i, AXIS_SEPARATOR, AXIS_SEPARATOR, j]),
        "argument", ("AXIS_SEPARATOR", "transform_layout", "B")),
    case("only_a_separator", transform(lambda *_: [AXIS_SEPARATOR]),
        "argument", ("AXIS_SEPARATOR", "transform_layout", "B")),
    case("two_indices_of_one_cell", transform(lambda i, j: [i, j // 4]),
        "argument", ("transform_layout", "B", "(0, 0)", "(0, 1)")),
    case("digits_that_overlap", transform(lambda i, j: [i, j // 6, j % 4]),
        "argument", ("transform_layout", "B", "(0, 0)", "(0, 4)", "(0, 0, 0)")),
    case("rows_that_overlap", transform(lambda i, j: [i * 11 + j]),
        "argument", ("transform_layout", "B", "(0, 11)", "(1, 0)", "(11,)")),
    case("cells_of_no_index", transform(lambda i, j: [i, i + j]),
        "limit", ("transform_layout", "B", "(8, 19)", "(0, 12)")),
    case("an_offset", transform(lambda i, j: [i + j + 2, j]), "limit", ("transform_layout", "B", "(21, 12)", "(0, 0)")),
    case("a_negative_index", transform(lambda i, j: [i, j - 3]), "argument", ("transform_layout", "B", 0, -3, 1)),
    case("a_product_of_axes", transform(lambda i, j: [i * j, j]), "limit", ("transform_layout", "B", "i * j")),
    case("a_skewed_axis", transform(lambda i, j: [i, (i + j) % 12]),
        "limit", ("transform_layout", "B", "i, (i + j) % 12")),
    case("three_dimensions_in_dram", transform(lambda i, j: [i, AXIS_SEPARATOR, j // 4, AXIS_SEPARATOR, j % 4]),
        "machine", ("buffer", "B", "dram", 2, "(8, 3, 4)")),
    case("two_dimensions_in_a_scratchpad", transform(lambda i, j: [i, AXIS_SEPARATOR, j]),
        "machine", ("buffer", "B", "acc", 1, 2, "(8, 12)"), lambda s: s[B].set_scope("acc")),
    case("a_scratchpad_for_two_dimensions", lambda s: s[B].set_scope("acc"),
        "machine", ("buffer", "B", "acc", 1, 2, "(8, 12)"), transform(lambda i, j: [i, AXIS_SEPARATOR, j])),
    case("a_loop_that_was_split", transform(lambda i, j: [i // 4, j, i % 4]),
        "limit", ("axis i", "transform_layout", "B", "i // 4, j, i % 4", "split"), lambda s: s[B].split("i", factor=4)),
    case("a_loop_that_was_fused", transform(lambda i, j: [i // 4, j, i % 4]),
        "limit", ("axis i", "transform_layout", "B", "i // 4, j, i % 4", "fused"), lambda s: s[B].fuse("i", "j")),
    case("a_loop_that_was_reversed", transform(lambda i, j: [i // 4, j, i % 4]),
        "limit", ("axis i", "transform_layout", "B", "i // 4, j, i % 4", "reverse"), lambda s: s[B].reverse("i")),
    case("a_loop_that_is_unrolled", transform(lambda i, j: [i // 4, j, i % 4]),
        "limit", ("axis i", "transform_layout", "B", "i // 4, j, i % 4", "unrolled"), lambda s: s[B].unroll("i")),
    case("a_loop_that_is_marked", transform(lambda i, j: [i // 4, j, i % 4]),
        "limit", ("axis i", "transform_layout", "B", "i // 4, j, i % 4", "parallelize"),
        lambda s: s[B].parallelize("i")),
    case("a_loop_that_a_rule_takes", transform(lambda i, j: [i // 4, j, i % 4]),
        "limit", ("axis i", "transform_layout", "B", "i // 4, j, i % 4", "emit_insn"),
        lambda s: s[B].emit_insn("i", "alu")),
    case("a_loop_that_another_stage_is_computed_in", transform(lambda i, j: [i, j // 4, j % 4], C),
        "limit", ("axis j", "transform_layout", "C", "i, j // 4, j % 4", "B"), lambda s: s[B].compute_at(s[C], "j")),
    case("a_stage_of_several_outputs", lambda s: s[low].transform_layout(lambda i, j: [j, i]),
        "argument", ("transform_layout", "pair.0, pair.1"), output=(low, high)),
    case("one_of_several_outputs_in_whose_loops_another_stage_runs", transform(lambda i, j: [j, i], low),
        "limit", ("transform_layout", "pair.0", 2, "B"), lambda s: s[low].after(s[B], "i"), output=(B, low, high)),
    case("one_of_several_outputs_with_a_map_that_is_none", transform(lambda i, j: [i, j // 2], low),
        "argument", ("transform_layout", "pair.0", "(0, 0)", "(0, 1)"), output=(low, high)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal_and_schedule_unchanged(case):
    check_refused(case)


def test_the_layout_of_what_is_no_tensor_of_the_program():
    s = create_schedule(C)
    s.transform_layout(A, lambda i, j: [j, i])
    for stranger, name in ((ELSEWHERE, "elsewhere"), (None, None)):
        raises(ScheduleError, s.layout, stranger, kind="argument", mentions=("layout", name))


def test_an_index_outside_the_tensor():
    s = create_schedule(C)
    for index in ((8, 0), (0, -1), (0,), (0, 1.0)):
        raises(ScheduleError, s.layout(A).physical_index, *index, kind="argument", mentions=("A", "(8, 12)", index))


def test_a_map_too_hard_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr("lathe.scheduler.rewriting.index_maps.limited_operations", partial(limited_operations, 10))
    s = create_schedule(C)
    mentions = ("transform_layout", "B", 2000000, "[i, (i + j) % 12]")
    raises(ScheduleError, s.transform_layout, B, lambda i, j: [i, (i + j) % 12], kind="limit", mentions=mentions)
