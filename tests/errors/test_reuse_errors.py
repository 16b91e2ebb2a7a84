"""Every refusal of ``reuse_at``: kind and mentions, and an unchanged schedule."""

from collections.abc import Callable

import pytest
from error_checks import raises
from refused_primitives import Refused, check_refused, text_of

from lathe.frontend import Tensor, compute, placeholder, reduce_axis, sum
from lathe.scheduler import LegalityError, Schedule, ScheduleError, create_schedule

A = placeholder((10, 10), "int32", "A")
r = reduce_axis(3, "r")
along_x = compute((10, 8), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
squared = compute((10, 3), lambda y, x: sum(A[y, x * x + r], axis=r), "B")
growing = compute((10, 5), lambda y, x: A[y, x] + A[y, 2 * x], "B")
still = compute((10, 8), lambda y, x: A[y, 0 * x] + A[y, 1], "B")
slanted = compute(8, lambda i: A[i, i] + A[i + 2, i + 2], "B")
turning = compute((10, 8), lambda y, x: A[y, x % 4] + A[y, x % 4 + 1], "B")
strided = compute((10, 3), lambda y, x: A[y, 3 * x] + A[y, 3 * x + 2], "B")
produced = compute((10, 10), lambda y, x: A[y, x] * 2, "P")
of_produced = compute((8, 10), lambda y, x: produced[y, x] + produced[y + 2, x], "B")
later = compute((8, 10), lambda y, x: of_produced[y, x] + produced[y, x], "C")
other = create_schedule(along_x)


def at(axis: str, tensor: Tensor = A, **options: str) -> Callable[[Schedule], object]:
    return lambda s: s.reuse_at(tensor, s[s.outputs[0]], axis, **options)  # type: ignore[arg-type]


# fmt: off
CASES = [
    Refused("no_overlap", along_x, at("y"), "argument", ("A", "y", "B", "reuse_at", 1, 0)),
    Refused("a_stride_as_wide_as_the_window", strided, at("x"), "argument", ("A", "x", "B", "reuse_at", 3, 1)),
    Refused("an_index_that_is_not_affine", squared, at("x"), "limit", ("A", "B", "reuse_at", "x * x + r")),
    Refused("a_remainder", turning, at("x"), "limit", ("A", "B", "reuse_at", "x % 4")),
    Refused("a_size_that_is_not_constant", growing, at("x"), "limit", ("buffer", "A", "B", "x + 1")),
    Refused("the_same_cells_in_all_iterations", still, at("x"), "argument", ("A", "x", "B", "reuse_at")),
    Refused("a_window_that_moves_in_two_dimensions", slanted, at("i"), "limit", ("i", "A.reuse", "0, 1")),
    Refused("an_unknown_form", along_x, at("x", form="round"),
        "argument", ("form", "reuse_at", "A", "ring, shift", "round")),
    Refused("an_unknown_prologue", along_x, at("x", prologue="none"),
        "argument", ("prologue", "reuse_at", "A", "loop, first", "none")),
    Refused("an_unknown_scope", along_x, at("x", scope="fifo"),
        "argument", ("scope", "reuse_at", "A", "dram", "inp", "wgt", "acc", "fifo")),
    Refused("a_buffer_in_dram", along_x, at("x", scope="dram"), "argument", ("reuse_at of A", "dram")),
    Refused("a_tensor_that_is_not_read", along_x, at("x", produced), "argument", ("reuse_at", "x", "B", "A", "P")),
    Refused(
        "no_tensor",
        along_x,
        at("x", "A"),  # type: ignore[arg-type]
        "argument", ("reuse_at", "x", "B", "A"),
    ),
    Refused("an_unknown_axis", along_x, at("z"), "argument", ("axis", "reuse_at", "B", "y", "x", "z")),
    Refused(
        "no_consumer",
        along_x,
        lambda s: s.reuse_at(A, along_x, "x"),  # type: ignore[arg-type]
        "argument", ("reuse_at of A", "Tensor(B: int32[10, 8])"),
    ),
    Refused("a_consumer_of_another_schedule", along_x, lambda s: s.reuse_at(A, other[along_x], "x"),
        "argument", ("reuse_at of A", "Stage(B)")),
    Refused("own_values_in_dram", of_produced, lambda s: s[produced].reuse_at(s[of_produced], "y"),
        "argument", ("P", "reuse_at", "dram")),
    Refused("own_values_in_a_loop_that_does_not_read_them", of_produced,
        lambda s: s[produced].reuse_at(s[produced], "y"),
        "argument", ("reuse_at", "P", "y")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal_and_schedule_unchanged(case):
    check_refused(case)


def test_values_that_are_read_after_the_loop_are_refused_with_a_witness():
    s = create_schedule(later)
    s[produced].set_scope("acc")
    before = text_of(s)
    mentions = ("P", "loop y of B", "reuse_at", "C(y=0, x=0)", "P[0, 0]", "P(y=0, x=0)")
    error = raises(LegalityError, s[produced].reuse_at, s[of_produced], "y", kind="legality", mentions=mentions)
    assert error.witness is not None
    assert text_of(s) == before


def test_a_reuse_buffer_cannot_be_moved_to_dram():
    s = create_schedule(along_x)
    buffer = s.reuse_at(A, s[along_x], "x")
    before = text_of(s)
    mentions = ("scope", "A.reuse", "dram", "reuse buffer")
    raises(ScheduleError, s[buffer].set_scope, "dram", kind="argument", mentions=mentions)
    assert text_of(s) == before
