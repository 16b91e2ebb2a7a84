"""Regions that are cached from one command to the next equal those computed for a new schedule."""

from contextlib import suppress

import pytest
from random_commands import LOOPS, ORDER, commands
from random_programs import Choice, programs
from seeds import check_each, note

from lathe.frontend import compute, placeholder
from lathe.scheduler import ScheduleError, create_schedule
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.printer import format_nest
from lathe.scheduler.schedule_ir.edit import Edit


@pytest.mark.parametrize("host", ["Q", "R"])
def test_only_regions_that_depend_on_a_change_are_computed_again(host: str) -> None:
    A = placeholder((8, 12), "int32", "A")
    P = compute(A.shape, lambda i, j: A[i, j] + 1, "P")
    Q = compute(A.shape, lambda i, j: P[i, j] * 3, "Q")
    R = compute(A.shape, lambda i, j: Q[i, j] * 2, "R")
    s = create_schedule(R)
    s[Q].compute_at(s[R], "i")
    s[P].compute_at(s[{"Q": Q, "R": R}[host]], "i")
    before = place_stages(s)
    s[Q].split("j", factor=4)
    after = place_stages(s)
    assert after[s[R]] is before[s[R]]
    assert after[s[Q]] is not before[s[Q]]
    assert after[s[P]] is not before[s[P]]


def test_random_commands_one_by_one() -> None:
    def check(seed: int) -> None:
        choice = Choice(seed)
        schedule = create_schedule(programs(choice, choice.number(2, 4)))
        for _ in range(8):
            with suppress(ScheduleError):
                commands(choice, schedule, (*LOOPS, *ORDER)).run(schedule)
                kept = place_stages(schedule)
                note(format_nest(build_nest(schedule)))
                assert format_nest(build_nest(schedule)) == format_nest(build_nest(Edit(schedule.state)))
                assert [*kept] == [*reversed(schedule.stages)]

    check_each(range(60), check)
