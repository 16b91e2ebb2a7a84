"""Every refusal of ``reuse_at``: the whole message, and the schedule as it was before."""

from collections.abc import Callable

import pytest
from refused_commands import Refused, check_refused, text_of

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
    Refused("no_overlap", along_x, at("y"),
        "reads of A in neighbouring iterations of loop y of stage B must overlap for reuse_at, not be 1 wide along "
        "dimension 0 and move by 1. Reuse at a loop along which windows overlap."),
    Refused("a_stride_as_wide_as_the_window", strided, at("x"),
        "reads of A in neighbouring iterations of loop x of stage B must overlap for reuse_at, not be 3 wide along "
        "dimension 1 and move by 3. Reuse at a loop along which windows overlap."),
    Refused("an_index_that_is_not_affine", squared, at("x"),
        "indices of A in stage B must be affine in the loops for reuse_at, not x * x + r: what an iteration reads "
        "would not move as a window. Read A as it is, or copy it with cache_read."),
    Refused("a_remainder", turning, at("x"),
        "indices of A in stage B must be affine in the loops for reuse_at, not x % 4: what an iteration reads would "
        "not move as a window. Read A as it is, or copy it with cache_read."),
    Refused("a_size_that_is_not_constant", growing, at("x"),
        "size of the reuse buffer of A in loop x of stage B must be constant, not x + 1 along dimension 1. Use "
        "cache_read and compute_at, or reuse at another loop."),
    Refused("the_same_cells_in_all_iterations", still, at("x"),
        "reads of A in loop x of stage B must move for reuse_at, not be the same in all iterations. Use cache_read, "
        "and compute_at at a loop outside."),
    Refused("a_window_that_moves_in_two_dimensions", slanted, at("i"),
        "window of reuse buffer A.reuse must move along one dimension from one iteration of loop i to the next, not "
        "along dimensions 0, 1. Reuse at a loop that moves one of them."),
    Refused("an_unknown_form", along_x, at("x", form="round"),
        "form of reuse_at of A must be one of ring, shift, not 'round'."),
    Refused("an_unknown_prologue", along_x, at("x", prologue="none"),
        "prologue of reuse_at of A must be one of loop, first, not 'none'."),
    Refused("an_unknown_scope", along_x, at("x", scope="fifo"),
        "scope of reuse_at of A must be one of dram (or global or ''), inp, wgt, acc (or out), par, lut, not 'fifo'."),
    Refused("a_buffer_in_dram", along_x, at("x", scope="dram"),
        "scope of reuse_at of A must be a scratchpad, not dram, from where values would be fetched again."),
    Refused("a_tensor_that_is_not_read", along_x, at("x", produced),
        "tensor of reuse_at must be one that is read in loop x of stage B (A), not 'P'."),
    Refused(
        "no_tensor",
        along_x,
        at("x", "A"),  # type: ignore[arg-type]
        "tensor of reuse_at must be one that is read in loop x of stage B (A), not 'A'.",
    ),
    Refused("an_unknown_axis", along_x, at("z"),
        "axis of reuse_at on stage B must be one of its present loops (y, x), not 'z'. Take it from s[B].axis, "
        ".reduce_axis or from what a command on this stage returned."),
    Refused(
        "no_consumer",
        along_x,
        lambda s: s.reuse_at(A, along_x, "x"),  # type: ignore[arg-type]
        "consumer of reuse_at of A must be a stage of the same schedule, as in s[B], not Tensor(B: int32[10, 8]).",
    ),
    Refused("a_consumer_of_another_schedule", along_x, lambda s: s.reuse_at(A, other[along_x], "x"),
        "consumer of reuse_at of A must be a stage of the same schedule, as in s[B], not Stage(B)."),
    Refused("own_values_in_dram", of_produced, lambda s: s[produced].reuse_at(s[of_produced], "y"),
        "scope of stage P must be a scratchpad for reuse_at of stage P, not dram, which keeps all values anyway. Use "
        "set_scope first."),
    Refused("own_values_in_a_loop_that_does_not_read_them", of_produced,
        lambda s: s[produced].reuse_at(s[produced], "y"),
        "loop of reuse_at of stage P must be one in which its values are read, not loop y of 'P'."),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)


def test_values_that_are_read_after_the_loop_are_refused_with_a_witness():
    s = create_schedule(later)
    s[produced].set_scope("acc")
    before = text_of(s)
    with pytest.raises(LegalityError) as caught:
        s[produced].reuse_at(s[of_produced], "y")
    assert str(caught.value) == (
        "place of stage P must be a loop that all its readers are in, not loop y of B (reuse_at): stage C reads the "
        "values after the loop iteration that makes them has ended. For example, C(y=0, x=0) reads P[0, 0] that "
        "P(y=0, x=0) writes."
    )
    assert caught.value.witness is not None
    assert text_of(s) == before


def test_a_reuse_buffer_cannot_be_moved_to_dram():
    s = create_schedule(along_x)
    buffer = s.reuse_at(A, s[along_x], "x")
    before = text_of(s)
    with pytest.raises(ScheduleError) as caught:
        s[buffer].set_scope("dram")
    assert str(caught.value) == (
        "scope of stage A.reuse must be a scratchpad, not 'dram', because it is a reuse buffer. Undo that with "
        "compute_root or compute_at first."
    )
    assert text_of(s) == before
