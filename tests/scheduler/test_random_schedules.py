"""Random schedules of random programs: what is accepted means what NumPy means, and every refusal is right."""

from contextlib import suppress

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from meanings import check_machine
from random_domains import programs_with_domains
from random_programs import Choice, programs
from random_recurrences import recurrences
from random_schedules import any_command
from schedule_checks import check_schedules_of

from lathe.configs import load_config
from lathe.frontend import format_program
from lathe.scheduler import Schedule, ScheduleError, create_schedule

SEEDS = st.integers(0, 2**40)


def check_random_schedule(seed: int, most_computations: int, most_commands: int) -> None:
    choice = Choice(seed)
    check_schedules_of(programs(choice, choice.number(1, most_computations)), choice, most_commands)


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_every_accepted_schedule_keeps_the_meaning_and_every_refusal_is_right(seed):
    check_random_schedule(seed, 5, 12)


@pytest.mark.nightly
@settings(max_examples=20000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_the_same_for_many_more_and_larger_ones(seed):
    check_random_schedule(seed, 7, 20)


MOST_ON_MACHINE = 4_000
"""Instances of a schedule that is built and simulated: compiling one by one takes long."""


def any_schedule(choice: Choice, most_commands: int) -> Schedule:
    """A program of any kind, with those of some commands that are accepted."""
    kind = choice.number(0, 4)
    if kind == 0:
        outputs = recurrences(choice)
    else:
        outputs = (programs if kind < 3 else programs_with_domains)(choice, choice.number(2, 4))
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    for _ in range(choice.number(1, most_commands)):
        command = any_command(choice, schedule)
        with suppress(ScheduleError):
            command.run(schedule)
            note(command.text)
    return schedule


def check_on_machine(seed: int, most_commands: int) -> None:
    """Whatever commands make of a program, a machine computes what NumPy does, or ``build`` names a constraint."""
    choice = Choice(seed)
    schedule = any_schedule(choice, most_commands)
    name = choice.pick(["tiny", "vta", "batch4", "wide", "lathe16"])
    note(name)
    if sum(each.executed for each in schedule.count().stages.values()) > MOST_ON_MACHINE:
        return
    try:
        check_machine(schedule, load_config(name))
    except ScheduleError as error:
        if "tokens by hand" not in str(error):  # these are counted when all of them are there
            raise


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_any_schedule_on_a_machine_is_right_or_refused(seed):
    check_on_machine(seed, 8)


@pytest.mark.nightly
@settings(max_examples=10000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_many_more_schedules_on_machines_are_right_or_refused(seed):
    check_on_machine(seed, 12)
