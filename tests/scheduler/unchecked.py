"""Execution of refused commands, to examine the schedules that they would produce."""

from contextlib import suppress
from typing import Any
from unittest import mock

from random_commands import Command

from lathe.scheduler import Schedule, ScheduleError
from lathe.scheduler.legality.verify_schedule import check_schedule
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState


class _EnoughError(Exception):
    """The refused change has been applied."""


def carry_out(command: Command, schedule: Schedule) -> None:
    """Apply a command up to the change that the check of the schedule refuses, and nothing after it."""
    kept: ScheduleState | None = None

    def check(changed: Edit, *arguments: Any) -> None:
        nonlocal kept
        if kept is not None:
            raise _EnoughError
        try:
            check_schedule(changed, *arguments)
        except ScheduleError:
            kept = changed.state

    with (
        mock.patch("lathe.scheduler.primitives.transaction.check_schedule", check),
        suppress(_EnoughError, ScheduleError),
    ):
        command.run(schedule)
    assert kept is not None, f"{command.text} is not refused on a copy of the schedule"
    Edit.reset_to(schedule, kept)
