"""Random schedules of random programs: what is accepted means what NumPy means, and every refusal is right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import Choice, programs
from schedule_checks import check_schedules_of

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
