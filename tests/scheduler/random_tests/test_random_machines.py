"""Random programs on random machines: NumPy, the loop nest and the machine agree, or ``build`` names a constraint."""

import pytest
from meanings import check_machine, check_values
from random_hand_schedules import hand_schedules
from random_networks import loops, machines, networks, orders
from random_programs import Choice, random_inputs
from seeds import check_each, note
from shares import BUILD, Shares, check_shares

from lathe.configs import HardwareConfig
from lathe.frontend import format_program, placeholders
from lathe.scheduler import Schedule, build, create_schedule
from lathe.sim import simulate_program


def network_on_a_machine(seed: int, most_layers: int) -> tuple[Choice, Schedule, HardwareConfig]:
    choice = Choice(seed)
    config = machines(choice)
    outputs = networks(choice, choice.number(1, most_layers))
    schedule = create_schedule(outputs)
    note(f"{config}\n{format_program(outputs)}")
    return choice, schedule, config


def check_random_build(seed: int, most_layers: int, most_commands: int) -> None:
    """Simulate a program of operators on a random machine, with a random tiling of its stored stage."""
    choice, schedule, config = network_on_a_machine(seed, most_layers)
    note(str(loops(choice, schedule, most_commands)))
    check_machine(schedule, config)


def check_hand_schedule(seed: int) -> None:
    """Simulate a matmul or convolution whose compute locations and scopes are set by a manual schedule."""
    choice = Choice(seed)
    config = machines(choice)
    schedule, done = hand_schedules(choice, config)
    note(f"{config}\n{format_program(schedule.outputs)}\n{done}")
    check_machine(schedule, config)


@pytest.mark.slow
@pytest.mark.seeds(12, slow=788)
def test_numpy_the_nest_and_the_machine_agree(seeds):
    happened = check_each(seeds, check_random_build, 2, 4)
    check_shares(happened, BUILD, Shares(0.97, {"machine": 0.03}))


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_numpy_the_nest_and_the_machine_agree_on_many_more(seeds):
    check_each(seeds, check_random_build, 4, 8)


def check_random_order(seed: int, most_layers: int) -> None:
    """Simulate a program of operators on a random machine, with a random loop order of its stored stage."""
    choice, schedule, config = network_on_a_machine(seed, most_layers)
    note(str(orders(choice, schedule, 3)))
    check_machine(schedule, config)


@pytest.mark.seeds(6, slow=144, block=10)
def test_other_orders_reach_the_machine_too(seeds):
    happened = check_each(seeds, check_random_order, 1)
    check_shares(happened, BUILD, Shares(0.62, {"machine": 0.36, "limit": 0.02}))


@pytest.mark.nightly
@pytest.mark.seeds(2000, first=1_000_000, block=100)
def test_many_more_orders_reach_the_machine(seeds):
    check_each(seeds, check_random_order, 3)


@pytest.mark.seeds(8, slow=292)
def test_schedules_by_hand_agree_too(seeds):
    happened = check_each(seeds, check_hand_schedule)
    check_shares(happened, BUILD, Shares(0.82, {"machine": 0.18, "limit": 0.02}))


@pytest.mark.nightly
@pytest.mark.seeds(3000, first=1_000_000, block=100)
def test_many_more_schedules_by_hand_agree_too(seeds):
    check_each(seeds, check_hand_schedule)


def test_a_loop_that_ends_within_a_group_of_elements_is_cut_where_the_group_ends():
    """Regression: the loop was first split along the lanes of another operand."""
    choice = Choice(55)
    config = machines(choice)
    schedule, _ = hand_schedules(choice, config)
    outputs = list(schedule.outputs)
    inputs = random_inputs(outputs, seed=1)
    program = build(schedule, [*placeholders(outputs), *outputs], config)
    check_values(simulate_program(program, inputs, trace=False).outputs, outputs, inputs)
