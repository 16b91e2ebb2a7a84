"""Random programs in random layouts: NumPy, the loop nest and the machine agree."""

import pytest
from meanings import check_machine, check_values
from padded import check_poisoned
from random_commands import LOOPS, commands
from random_layouts import conditions, layouts
from random_networks import loops, machines, networks
from random_programs import Choice, programs, random_inputs
from seeds import check_each, note
from shares import BUILD, COMMAND, Shares, check_shares

from lathe.frontend import format_program
from lathe.scheduler import create_schedule, interpret


def check_meaning(seed: int, most_computations: int, most_commands: int) -> None:
    """Apply layouts and other commands in any order to a program: its loop nest computes what NumPy does."""
    choice = Choice(seed)
    outputs = programs(choice, choice.number(1, most_computations))
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    for _ in range(choice.number(1, most_commands)):
        kind = choice.number(0, 3)
        if kind == 3:
            command = conditions(choice, schedule)
        else:
            command = layouts(choice, schedule) if kind else commands(choice, schedule, LOOPS)
        command.attempt(schedule)
    inputs = random_inputs(outputs, seed=1)
    check_values(interpret(schedule, inputs), outputs, inputs)
    check_poisoned(schedule)


def check_random_build(seed: int, most_layers: int) -> None:
    """Simulate a program of operators in random layouts, or check that ``build`` names a constraint."""
    choice = Choice(seed)
    config = machines(choice)
    outputs = networks(choice, choice.number(1, most_layers))
    schedule = create_schedule(outputs)
    note(f"{config}\n{format_program(outputs)}")
    for _ in range(choice.number(1, 4)):
        command = conditions(choice, schedule) if choice.number(0, 2) == 2 else layouts(choice, schedule)
        command.attempt(schedule)
    if choice.number(0, 1):
        note(str(loops(choice, schedule, 2)))
    check_machine(schedule, config)


@pytest.mark.seeds(12, slow=388, block=30)
def test_layouts_among_other_commands_keep_the_meaning(seeds):
    happened = check_each(seeds, check_meaning, 4, 10)
    check_shares(happened, COMMAND, Shares(0.65, {"argument": 0.27, "legality": 0.05, "machine": 0.03, "limit": 0.06}))


@pytest.mark.slow
@pytest.mark.seeds(4, slow=146, block=10)
def test_layouts_reach_machines(seeds):
    happened = check_each(seeds, check_random_build, 2)
    check_shares(happened, COMMAND, Shares(0.58, {"argument": 0.38, "legality": 0.1, "limit": 0.05}))
    check_shares(happened, BUILD, Shares(0.95, {"machine": 0.05}))


def test_sums_begin_once_where_two_loops_move_results_along_one_dimension():
    """Rows of a padded convolution in two loops: results that one partition skips meet data in another."""
    check_each(range(130, 131), check_random_build, 2)


@pytest.mark.slow
def test_lanes_come_to_an_end_where_a_product_is_left_without():
    """Regression: a convolution was given a layout for its consumer, conflicted with its padding again, and so on."""
    check_each(range(38, 39), check_random_build, 2)


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_layouts_of_many_more_keep_the_meaning(seeds):
    check_each(seeds, check_meaning, 7, 20)


@pytest.mark.nightly
@pytest.mark.seeds(1000, first=1_000_000, block=100)
def test_layouts_of_many_more_reach_machines(seeds):
    check_each(seeds, check_random_build, 4)
