"""Random schedules of random programs: accepted ones compute what NumPy does, and every refusal is justified."""

import pytest
from meanings import check_machine
from random_programs import Choice, programs
from random_schedules import MOST_ON_MACHINE, any_schedule
from schedule_checks import check_schedules_of
from seeds import check_each, note
from shares import BUILD, COMMAND, Shares, check_shares

from lathe.configs import load_config
from lathe.scheduler import ScheduleError


def check_random_schedule(seed: int, most_computations: int, most_commands: int) -> None:
    choice = Choice(seed)
    check_schedules_of(programs(choice, choice.number(1, most_computations)), choice, most_commands)


@pytest.mark.seeds(40, slow=1460, block=50)
def test_every_accepted_schedule_keeps_the_meaning_and_every_refusal_is_right(seeds):
    happened = check_each(seeds, check_random_schedule, 5, 12)
    check_shares(happened, COMMAND, Shares(0.45, {"argument": 0.35, "legality": 0.12, "machine": 0.08, "limit": 0.12}))


@pytest.mark.nightly
@pytest.mark.seeds(20000, first=1_000_000, block=100)
def test_the_same_for_many_more_and_larger_ones(seeds):
    check_each(seeds, check_random_schedule, 7, 20)


def check_on_machine(seed: int, most_commands: int) -> None:
    """After random commands, a machine computes what NumPy does, or ``build`` names a constraint."""
    choice = Choice(seed)
    schedule = any_schedule(choice, most_commands)
    name = choice.pick(["tiny", "vta", "batch4", "wide", "lathe16"])
    note(name)
    if sum(each.executed for each in schedule.count().stages.values()) > MOST_ON_MACHINE:
        return
    try:
        check_machine(schedule, load_config(name))
    except ScheduleError as error:
        if not str(error).startswith("Cannot match the tokens of queue"):  # only complete schedules match
            raise


@pytest.mark.seeds(8, slow=392)
def test_any_schedule_on_a_machine_is_right_or_refused(seeds):
    happened = check_each(seeds, check_on_machine, 8)
    check_shares(happened, COMMAND, Shares(0.45, {"argument": 0.35, "legality": 0.15, "machine": 0.08, "limit": 0.1}))
    check_shares(happened, BUILD, Shares(0.62, {"machine": 0.35, "limit": 0.08}))


@pytest.mark.nightly
@pytest.mark.seeds(10000, first=1_000_000, block=100)
def test_many_more_schedules_on_machines_are_right_or_refused(seeds):
    check_each(seeds, check_on_machine, 12)
