"""Refused commands carried out all the same, so that what they would do can be looked at."""

from contextlib import nullcontext, suppress
from typing import Any
from unittest import mock

from random_commands import Command

from lathe.scheduler import Schedule, ScheduleError
from lathe.scheduler.legality.check import check_schedule


class _EnoughError(Exception):
    """What was refused has been done."""


def carry_out(command: Command, schedule: Schedule) -> None:
    """Do what a command is refused for by the check of the schedule, and nothing of it that would come after."""
    done = False

    def check(*arguments: Any) -> None:
        nonlocal done
        if done:
            raise _EnoughError
        try:
            check_schedule(*arguments)
        except ScheduleError:
            done = True

    parts = mock.patch.object(Schedule, "all_or_nothing", return_value=nullcontext())
    with (
        mock.patch("lathe.scheduler.legality.check.check_schedule", check),
        parts,
        suppress(_EnoughError, ScheduleError),
    ):
        command.run(schedule)
    assert done, f"{command.text} is not refused on a copy of the schedule"
