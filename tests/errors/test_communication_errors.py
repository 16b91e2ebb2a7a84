"""Every refusal of a command on buffers in turn and on queues: the whole message, and the schedule as before."""

from collections.abc import Callable

import pytest

from lathe.configs import load_config
from lathe.frontend import compute, placeholder, placeholders
from lathe.scheduler import Schedule, ScheduleError, create_schedule, lower

CONFIG = load_config("vta")

A = placeholder(60, "int8", "A")
B = compute(60, lambda i: A[i] + 1, "B")
C = compute(60, lambda i: B[i] * 2, "C")


def placed(*, slots: int | None = None) -> Schedule:
    """B in acc, in tiles of C."""
    s = create_schedule(C)
    outer, _ = s[C].split("i", factor=16)
    s[B].set_scope("acc")
    s[B].compute_at(s[C], outer)
    if slots is not None:
        s[B].double_buffer(slots)
    return s


CASES: list[tuple[str, Schedule, Callable[[Schedule], object], str]] = [
    (
        "no_buffer_at_all",
        placed(),
        lambda s: s[B].double_buffer(0),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not 0.",
    ),
    (
        "too_many_buffers",
        placed(),
        lambda s: s[B].double_buffer(17),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not 17.",
    ),
    (
        "a_truth_value_of_buffers",
        placed(),
        lambda s: s[B].double_buffer(True),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not True.",
    ),
    (
        "buffers_of_a_stage_in_dram",
        create_schedule(C),
        lambda s: s[B].double_buffer(),
        "stage of double_buffer must live in a scratchpad, not 'B' in dram, where all values have places of their own. "
        "Use set_scope first, or undo it with s[B].double_buffer(None).",
    ),
    (
        "to_dram_afterwards",
        placed(slots=1),
        lambda s: s[B].set_scope("dram"),
        "stage of double_buffer must live in a scratchpad, not 'B' in dram (set_scope), where all values have places "
        "of their own. Use set_scope first, or undo it with s[B].double_buffer(None).",
    ),
    (
        "to_the_root_afterwards",
        placed(slots=2),
        lambda s: s[B].compute_root(),
        "stage of double_buffer must be computed in a loop, whose iterations take turns, not 'B' at the root "
        "(compute_root). Use compute_at first, or undo it with s[B].double_buffer(None).",
    ),
]


def text_of(s: Schedule) -> str:
    tensors = [*placeholders(s.outputs), *s.outputs]
    return "".join(lower(s, tensors, CONFIG, stage) for stage in ("order", "loops", "chunks"))


@pytest.mark.parametrize(
    ("schedule", "mistake", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_message_and_schedule_unchanged(schedule, mistake, message):
    before, states = text_of(schedule), [stage.state for stage in schedule.stages]
    with pytest.raises(ScheduleError) as caught:
        mistake(schedule)
    assert str(caught.value) == message
    assert text_of(schedule) == before
    assert [stage.state for stage in schedule.stages] == states
