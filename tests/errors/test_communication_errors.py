"""Every refusal of a command on buffers in turn and on queues: the whole message, and the schedule as before."""

from collections.abc import Callable

import pytest
from refused_commands import B, C, Refused, check_refused

from lathe.scheduler import Schedule


def placed(slots: int | None = None) -> Callable[[Schedule], None]:
    """B in acc, in tiles of C."""

    def prepare(s: Schedule) -> None:
        outer, _ = s[C].split("i", factor=16)
        s[B].set_scope("acc")
        s[B].compute_at(s[C], outer)
        s[B].double_buffer(slots)

    return prepare


CASES = [
    Refused(
        "no_buffer_at_all",
        C,
        lambda s: s[B].double_buffer(0),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not 0.",
        placed(),
    ),
    Refused(
        "too_many_buffers",
        C,
        lambda s: s[B].double_buffer(17),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not 17.",
        placed(),
    ),
    Refused(
        "a_truth_value_of_buffers",
        C,
        lambda s: s[B].double_buffer(True),
        "number of buffers of stage B must be from 1 to 16, or None to leave it open, not True.",
        placed(),
    ),
    Refused(
        "buffers_of_a_stage_in_dram",
        C,
        lambda s: s[B].double_buffer(),
        "stage of double_buffer must live in a scratchpad, not 'B' in dram, where all values have places of their own. "
        "Use set_scope first, or undo it with s[B].double_buffer(None).",
    ),
    Refused(
        "to_dram_afterwards",
        C,
        lambda s: s[B].set_scope("dram"),
        "stage of double_buffer must live in a scratchpad, not 'B' in dram (set_scope), where all values have places "
        "of their own. Use set_scope first, or undo it with s[B].double_buffer(None).",
        placed(1),
    ),
    Refused(
        "to_the_root_afterwards",
        C,
        lambda s: s[B].compute_root(),
        "stage of double_buffer must be computed in a loop, whose iterations take turns, not 'B' at the root "
        "(compute_root). Use compute_at first, or undo it with s[B].double_buffer(None).",
        placed(2),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message_and_schedule_unchanged(case):
    check_refused(case)
