"""Every refusal of ``transform_layout``: the whole message, and the schedule as it was before."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from refused_commands import Refused, check_refused

from lathe.frontend import Axis, Tensor, compute, placeholder
from lathe.frontend.arith.polyhedra import limited_operations
from lathe.scheduler import AXIS_SEPARATOR, Schedule, ScheduleError, create_schedule

A = placeholder((8, 12), "int8", "A")
B = compute(A.shape, lambda i, j: A[i, j] + 1, "B")
C = compute(A.shape, lambda i, j: B[i, j] * 2, "C")
low, high = compute(A.shape, lambda i, j: (A[i, j] + 1, A[i, j] - 1), "pair")
ELSEWHERE = placeholder((8, 12), "int8", "elsewhere")
OTHER = Axis("other", 4)
INDEX = "index in the list that the function of transform_layout of B returns must be an expression of its parameters, "


def transform(function: Any, tensor: Tensor = B) -> Callable[[Schedule], object]:
    return lambda s: s.transform_layout(tensor, function)


def case(
    name: str,
    mistake: Callable[[Schedule], object],
    message: str,
    prepared: Callable[[Schedule], object] = lambda _: None,
    output: Tensor | tuple[Tensor, ...] = C,
) -> Refused:
    return Refused(name, output, mistake, message, prepared)


def whole(axis: str, tensor: str, indices: str, why: str) -> str:
    """A loop that has been changed, of an axis that the layout takes apart."""
    return (
        f"axis {axis} of transform_layout of {tensor} must be an index of its own in {indices}, since {why}: its loops "
        f"cannot follow. Call transform_layout before that command, or leave {axis} whole."
    )


# fmt: off
CASES = [
    case("a_tensor_of_another_program", transform(lambda i, j: [j, i], ELSEWHERE),
        "tensor of transform_layout must be one that the program reads or computes, not 'elsewhere'."),
    case(
        "no_tensor",
        transform(lambda i, j: [j, i], "B"),  # type: ignore[arg-type]
        "tensor of transform_layout must be one that the program reads or computes, not 'B'.",
    ),
    case("no_function", transform([1, 0]),
        "function of transform_layout of B must take an index and return the new one, not be [1, 0]. Pass it as in "
        "lambda i, j: [j, i]."),
    case("too_few_parameters", transform(lambda i: [i]),
        "parameters of the function of transform_layout of B must be 2, one per axis of its present layout (8, 12), "
        "not 1. Write lambda *indices to take any number."),
    case("as_many_parameters_as_the_tensor_had_axes_before_the_first_map", transform(lambda i, j: [j, i]),
        "parameters of the function of transform_layout of B must be 3, one per axis of its present layout (8, 3, 4), "
        "not 2. Write lambda *indices to take any number.", transform(lambda i, j: [i, j // 4, j % 4])),
    case("something_else_than_a_list", transform(lambda i, j: i * 12 + j),
        "function of transform_layout of B must return a list of index expressions, not i * 12 + j. Return the new "
        "index, as in [i // 4, i % 4]."),
    case("nothing", transform(lambda *_: []),
        "function of transform_layout of B must return a list of index expressions, not []. Return the new index, as "
        "in [i // 4, i % 4]."),
    case("a_string", transform(lambda i, j: [i + j, "j"]), INDEX + "not 'j'."),
    case("a_fraction", transform(lambda i, j: [i + j, 0.5]), INDEX + "not 0.5."),
    case("a_condition", transform(lambda i, j: [i, j < 4]), INDEX + "not j < 4."),
    case("an_element", transform(lambda i, j: [i, A[i, j]]), INDEX + "not A[i, j]."),
    case("another_axis", transform(lambda i, j: [i, j + OTHER]),
        INDEX + "not of axis 'other', which is none of them."),
    case("a_mistake_in_the_function", transform(lambda i, j: [i, j / 4]),
        "function of transform_layout of B must return index expressions, which failed: division of expressions must "
        "be written //, which rounds down, not /."),
    case("a_separator_at_the_end", transform(lambda i, j: [i, j, AXIS_SEPARATOR]),
        "AXIS_SEPARATOR of transform_layout of B must stand between two indices, not at an end or beside another "
        "one. Leave it out."),
    case("two_separators_in_a_row", transform(lambda i, j: [i, AXIS_SEPARATOR, AXIS_SEPARATOR, j]),
        "AXIS_SEPARATOR of transform_layout of B must stand between two indices, not at an end or beside another "
        "one. Leave it out."),
    case("only_a_separator", transform(lambda *_: [AXIS_SEPARATOR]),
        "AXIS_SEPARATOR of transform_layout of B must stand between two indices, not at an end or beside another "
        "one. Leave it out."),
    case("two_indices_of_one_cell", transform(lambda i, j: [i, j // 4]),
        "index map of transform_layout of B must send different indices to different cells, not (0, 0) and (0, 1) "
        "both to (0, 0). Keep what tells them apart in an index of its own."),
    case("digits_that_overlap", transform(lambda i, j: [i, j // 6, j % 4]),
        "index map of transform_layout of B must send different indices to different cells, not (0, 0) and (0, 4) "
        "both to (0, 0, 0). Keep what tells them apart in an index of its own."),
    case("rows_that_overlap", transform(lambda i, j: [i * 11 + j]),
        "index map of transform_layout of B must send different indices to different cells, not (0, 11) and (1, 0) "
        "both to (11,). Keep what tells them apart in an index of its own."),
    case("cells_of_no_index", transform(lambda i, j: [i, i + j]),
        "index map of transform_layout of B must fill the whole of (8, 19), not leave out cell (0, 12), which is "
        "that of no index. Padding may stand beside an axis or a digit of one, not along diagonals."),
    case("an_offset", transform(lambda i, j: [i + j + 2, j]),
        "index map of transform_layout of B must fill the whole of (21, 12), not leave out cell (0, 0), which is "
        "that of no index. Padding may stand beside an axis or a digit of one, not along diagonals."),
    case("a_negative_index", transform(lambda i, j: [i, j - 3]),
        "index map of transform_layout of B must give indices from 0 on, not -3 as index 1. Add 3 to it."),
    case("a_product_of_axes", transform(lambda i, j: [i * j, j]),
        "index map of transform_layout of B must be made of sums, floor divisions and remainders of its axes by "
        "constants, not i * j."),
    case("a_skewed_axis", transform(lambda i, j: [i, (i + j) % 12]),
        "index map of transform_layout of B must write each index as a number whose digits are axes or digits of "
        "axes, not [i, (i + j) % 12], although it gives each element a cell of its own. Skewed axes are beyond what "
        "the host packs."),
    case("three_dimensions_in_dram", transform(lambda i, j: [i, AXIS_SEPARATOR, j // 4, AXIS_SEPARATOR, j % 4]),
        "physical buffer of B in dram must have at most 2 dimensions, not 3 as (8, 3, 4) has. Leave out an "
        "AXIS_SEPARATOR of its layout."),
    case("two_dimensions_in_a_scratchpad", transform(lambda i, j: [i, AXIS_SEPARATOR, j]),
        "physical buffer of B in acc must have at most 1 dimension, not 2 as (8, 12) has. Leave out an AXIS_SEPARATOR "
        "of its layout.",
        lambda s: s[B].set_scope("acc")),
    case("a_scratchpad_for_two_dimensions", lambda s: s[B].set_scope("acc"),
        "physical buffer of B in acc must have at most 1 dimension, not 2 as (8, 12) has. Leave out an AXIS_SEPARATOR "
        "of its layout.", transform(lambda i, j: [i, AXIS_SEPARATOR, j])),
    case("a_loop_that_was_split", transform(lambda i, j: [i // 4, j, i % 4]),
        whole("i", "B", "[i // 4, j, i % 4]", "i has been split"), lambda s: s[B].split("i", factor=4)),
    case("a_loop_that_was_fused", transform(lambda i, j: [i // 4, j, i % 4]),
        whole("i", "B", "[i // 4, j, i % 4]", "i and j have been fused"), lambda s: s[B].fuse("i", "j")),
    case("a_loop_that_was_reversed", transform(lambda i, j: [i // 4, j, i % 4]),
        whole("i", "B", "[i // 4, j, i % 4]", "reverse has changed i"), lambda s: s[B].reverse("i")),
    case("a_loop_that_is_unrolled", transform(lambda i, j: [i // 4, j, i % 4]),
        whole("i", "B", "[i // 4, j, i % 4]", "i is unrolled"), lambda s: s[B].unroll("i")),
    case("a_loop_that_is_marked", transform(lambda i, j: [i // 4, j, i % 4]),
        whole("i", "B", "[i // 4, j, i % 4]", "i is marked by parallelize"), lambda s: s[B].parallelize("i")),
    case("a_loop_that_a_rule_takes", transform(lambda i, j: [i // 4, j, i % 4]),
        whole("i", "B", "[i // 4, j, i % 4]", "emit_insn is on loop i"), lambda s: s[B].emit_insn("i", "alu")),
    case("a_loop_that_another_stage_is_computed_in", transform(lambda i, j: [i, j // 4, j % 4], C),
        whole("j", "C", "[i, j // 4, j % 4]", "B is computed at loop j"), lambda s: s[B].compute_at(s[C], "j")),
    case("a_stage_of_several_outputs", lambda s: s[low].transform_layout(lambda i, j: [j, i]),
        "tensor of transform_layout must be one output of pair (pair.0, pair.1), not all of them.",
        output=(low, high)),
    case("one_of_several_outputs_in_whose_loops_another_stage_runs", transform(lambda i, j: [j, i], low),
        "tensor of transform_layout must be the only output of its computation, not 'pair.0', one of 2 of pair, in "
        "whose loops stage B would have to be once for each. Call transform_layout before that stage is placed there.",
        lambda s: s[low].after(s[B], "i"), output=(B, low, high)),
    case("one_of_several_outputs_with_a_map_that_is_none", transform(lambda i, j: [i, j // 2], low),
        "index map of transform_layout of pair.0 must send different indices to different cells, not (0, 0) and (0, "
        "1) both to (0, 0). Keep what tells them apart in an index of its own.", output=(low, high)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)


def test_the_layout_of_what_is_no_tensor_of_the_program():
    s = create_schedule(C)
    s.transform_layout(A, lambda i, j: [j, i])
    for stranger, name in ((ELSEWHERE, "elsewhere"), (None, None)):
        with pytest.raises(ScheduleError) as caught:
            s.layout(stranger)
        assert str(caught.value) == f"tensor of layout must be one that the program reads or computes, not {name!r}."


def test_an_index_outside_the_tensor():
    s = create_schedule(C)
    for index in ((8, 0), (0, -1), (0,), (0, 1.0)):
        with pytest.raises(ScheduleError) as caught:
            s.layout(A).physical_index(*index)
        assert str(caught.value) == (
            f"index of the layout of A must be one of an element of shape (8, 12), not {index}."
        )


def test_a_map_too_hard_is_refused_with_the_limit(monkeypatch):
    monkeypatch.setattr("lathe.scheduler.rewriting.index_maps.limited_operations", partial(limited_operations, 10))
    s = create_schedule(C)
    with pytest.raises(ScheduleError) as caught:
        s.transform_layout(B, lambda i, j: [i, (i + j) % 12])
    assert str(caught.value) == (
        "index map of transform_layout of B must be one that can be checked within 2000000 isl operations, not "
        "[i, (i + j) % 12]. Transform the layout in several steps."
    )
