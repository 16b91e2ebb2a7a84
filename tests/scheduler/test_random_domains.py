"""Random programs whose domains are no boxes, under random schedules: NumPy, brute force, loop nest, machine agree."""

from contextlib import suppress
from itertools import product

import numpy as np
import pytest
from executions import Instance, execution
from hypothesis import given, note, settings
from hypothesis import strategies as st
from meanings import check_machine
from random_commands import ORDER
from random_domains import programs_with_domains
from random_networks import machines
from random_programs import Choice, random_inputs
from random_schedules import NEIGHBOURS, QUEUES, commands_of
from schedule_checks import MOST_INSTANCES, check_schedules_of

from lathe.configs import load_config
from lathe.frontend import Tensor, evaluate, format_program, placeholders, reference, topological
from lathe.frontend.reference import checked_inputs
from lathe.scheduler import ScheduleError, create_schedule

SEEDS = st.integers(0, 2**40)


def point_by_point(outputs: list[Tensor], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The meaning of a program, one element at a time: those that do not exist are 0."""
    arrays: dict[object, np.ndarray] = dict(checked_inputs(outputs, inputs))
    for computation in topological(outputs):
        for tensor, body in zip(computation.outputs, computation.bodies, strict=True):
            values = np.zeros(tensor.shape, tensor.dtype)
            for cell in product(*map(range, tensor.shape)):
                env = arrays | dict(zip(computation.axes, cell, strict=True))
                if computation.where is None or bool(evaluate(computation.where, env)):
                    values[cell] = evaluate(body, env)
            arrays[tensor] = values
    return {tensor.name: arrays[tensor] for tensor in placeholders(outputs)} | {t.name: arrays[t] for t in outputs}


def check_domains(seed: int, most_computations: int, most_commands: int) -> None:
    choice = Choice(seed)
    outputs = programs_with_domains(choice, choice.number(1, most_computations))
    note(format_program(outputs))
    inputs = random_inputs(outputs, seed=1)
    expected = point_by_point(outputs, inputs)
    for name, values in reference(outputs, inputs).items():
        np.testing.assert_array_equal(values, expected[name])
    schedule = check_schedules_of(outputs, choice, most_commands)
    instances: dict[str, list[tuple[int, ...]]] = {stage.name: [] for stage in schedule.stages}
    for event in execution(schedule):
        if isinstance(event, Instance) and event.node.role != "init":
            instances[event.node.placement.stage.name].append(tuple(event.point.values()))
    for name, counted in schedule.count().stages.items():
        assert counted.executed == len(instances[name])
        assert counted.distinct == len(set(instances[name]))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_every_accepted_schedule_of_a_domain_keeps_its_meaning_and_counts_are_exact(seed):
    check_domains(seed, 4, 8)


@pytest.mark.nightly
@settings(max_examples=10000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_the_same_for_many_more_domains(seed):
    check_domains(seed, 6, 15)


def check_build(seed: int, most_computations: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    outputs = programs_with_domains(choice, choice.number(1, most_computations))
    note(f"{config}\n{format_program(outputs)}")
    check_machine(create_schedule(outputs), config)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_domains_reach_the_machine(seed):
    check_build(seed, 3)


@pytest.mark.nightly
@settings(max_examples=5000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_many_more_domains_reach_the_machine(seed):
    check_build(seed, 5)


def check_orders(seed: int, most_commands: int) -> None:
    choice = Choice(seed)
    schedule = create_schedule(programs_with_domains(choice, choice.number(2, 3)))
    for _ in range(choice.number(1, most_commands)):
        kinds = choice.pick([ORDER, NEIGHBOURS, QUEUES, ("split", "reorder", "fuse", "cache_read", "cache_write")])
        command = commands_of(choice, schedule, kinds)
        with suppress(ScheduleError):
            command.run(schedule)
            note(command.text)
    config = load_config(choice.pick(["tiny", "vta", "batch4", "wide", "lathe16"]))
    note(f"{config.name}\n{format_program(list(schedule.program))}")
    if sum(each.executed for each in schedule.count().stages.values()) < MOST_INSTANCES:
        check_machine(schedule, config)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_domains_in_any_order_reach_the_machine(seed):
    check_orders(seed, 6)


@pytest.mark.nightly
@settings(max_examples=5000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_many_more_orders_of_domains_reach_the_machine(seed):
    check_orders(seed, 8)
