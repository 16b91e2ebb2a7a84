"""Random programs under random schedules: NumPy, the loop nest and the machine agree; refusals are justified."""

from collections.abc import Mapping
from unittest import mock

import numpy as np
import pytest
from executions import confirm
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from random_commands import ORDER, commands
from random_hand_schedules import hand_schedules
from random_networks import loops, machines, networks, orders
from random_programs import Choice, programs, random_inputs

from lathe.configs import HardwareConfig, LatheError, load_config
from lathe.frontend import Tensor, format_program, placeholders, reference
from lathe.isa import verify
from lathe.scheduler import (
    BuildError,
    CapacityError,
    EmitError,
    LegalityError,
    ParallelismError,
    Schedule,
    ScheduleError,
    build,
    create_schedule,
    interpret,
    lower,
)
from lathe.scheduler.completion import copied
from lathe.sim import simulate_program

ALL = (
    "split",
    "split",
    "tile",
    "reorder",
    "fuse",
    "unroll",
    "compute_at",
    "compute_at",
    "compute_root",
    "reuse_at",
    "reuse_at",
    "emit_insn",
    "set_scope",
    "cache_write",
    "cache_read",
)
CONFIG = load_config("tiny")


def text_of(schedule: Schedule) -> str:
    tensors = [*placeholders(schedule.outputs), *schedule.outputs]
    return "".join(lower(schedule, tensors, CONFIG, stage) for stage in ("order", "loops"))


def check_random_schedule(seed: int, most_computations: int, most_commands: int, kinds: tuple[str, ...] = ALL) -> None:
    choice = Choice(seed)
    outputs = programs(choice, choice.number(1, most_computations))
    schedule = create_schedule(outputs)
    for _ in range(choice.number(1, most_commands)):
        command = commands(choice, schedule, kinds)
        before, kept = copied(schedule), text_of(schedule)
        try:
            command.run(schedule)
            note(command.text)
        except ParallelismError:
            assert text_of(schedule) == kept
        except LegalityError as error:
            event("a command refused with a witness")
            note(f"refused: {command.text}: {error}")
            with mock.patch("lathe.scheduler.legality.check_schedule"):
                command.run(before)
            confirm(error.witness, before)
            assert text_of(schedule) == kept
        except ScheduleError:
            assert text_of(schedule) == kept
    check_values(interpret(schedule, inputs := random_inputs(outputs, seed=1)), outputs, inputs)


def check_values(found: Mapping[str, np.ndarray], outputs: list[Tensor], inputs: Mapping[str, np.ndarray]) -> None:
    expected = reference(outputs, inputs)
    for tensor in outputs:
        wanted = expected[tensor.name] if isinstance(expected, dict) else expected
        np.testing.assert_array_equal(found[tensor.name], wanted, f"{tensor.name} differs from its NumPy meaning")


SEEDS = st.integers(0, 2**40)


@settings(max_examples=800, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_every_accepted_schedule_keeps_the_meaning_and_every_refusal_has_a_true_witness(seed):
    check_random_schedule(seed, 5, 12)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_so_does_every_schedule_with_another_order_of_loops_and_stages(seed):
    check_random_schedule(seed, 5, 12, (*ALL, *ORDER))


@pytest.mark.nightly
@settings(max_examples=20000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_the_same_for_many_more_and_larger_ones(seed):
    check_random_schedule(seed, 7, 20, (*ALL, *ORDER))


REFUSALS = (CapacityError, EmitError, BuildError)


def check_random_build(seed: int, most_layers: int, most_commands: int) -> None:
    """A program of operators on a random machine, its stored stage tiled at random, down to the simulator."""
    choice = Choice(seed)
    config = machines(choice)
    outputs = networks(choice, choice.number(1, most_layers))
    schedule = create_schedule(outputs)
    note(f"{config}\n{format_program(outputs)}")
    note(str(loops(choice, schedule, most_commands)))
    check_machine(schedule, config)


def check_hand_schedule(seed: int) -> None:
    """A product or convolution with every stage placed and tagged by hand, down to the simulator."""
    choice = Choice(seed)
    config = machines(choice)
    schedule, done = hand_schedules(choice, config)
    note(f"{config}\n{format_program(schedule.outputs)}\n{done}")
    check_machine(schedule, config)


def check_machine(schedule: Schedule, config: HardwareConfig) -> None:
    """NumPy, the interpreter of the nest and the simulator agree, or ``build`` refuses with a constraint."""
    outputs = list(schedule.outputs)
    inputs = random_inputs(outputs, seed=1)
    check_values(interpret(schedule, inputs), outputs, inputs)
    try:
        program = build(schedule, [*placeholders(outputs), *outputs], config)
    except REFUSALS as error:
        event(f"refused by build: {type(error).__name__}")
        check_refusal(error)
        return
    assert verify(program) == []
    check_values(simulate_program(program, inputs, trace=False).outputs, outputs, inputs)


def check_refusal(error: LatheError) -> None:
    """A refusal names a thing and a constraint: "… must …"."""
    assert " must " in str(error), f"no constraint in {error}"


@settings(max_examples=620, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_numpy_the_nest_and_the_machine_agree(seed):
    check_random_build(seed, 2, 4)


@pytest.mark.nightly
@settings(max_examples=5000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_numpy_the_nest_and_the_machine_agree_on_many_more(seed):
    check_random_build(seed, 4, 8)


def check_random_order(seed: int, most_layers: int) -> None:
    """A program of operators on a random machine, its stored stage in another order, down to the simulator."""
    choice = Choice(seed)
    config = machines(choice)
    outputs = networks(choice, choice.number(1, most_layers))
    schedule = create_schedule(outputs)
    note(f"{config}\n{format_program(outputs)}")
    note(str(orders(choice, schedule, 3)))
    check_machine(schedule, config)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_other_orders_reach_the_machine_too(seed):
    check_random_order(seed, 1)


@pytest.mark.nightly
@settings(max_examples=2000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_many_more_orders_reach_the_machine(seed):
    check_random_order(seed, 3)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_schedules_by_hand_agree_too(seed):
    check_hand_schedule(seed)


@pytest.mark.nightly
@settings(max_examples=3000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_many_more_schedules_by_hand_agree_too(seed):
    check_hand_schedule(seed)


def test_a_loop_that_ends_within_a_group_of_elements_is_cut_where_the_group_ends():
    """Found at random: the loop had been split along another operand's lanes before."""
    choice = Choice(55)
    config = machines(choice)
    schedule, _ = hand_schedules(choice, config)
    outputs = list(schedule.outputs)
    inputs = random_inputs(outputs, seed=1)
    program = build(schedule, [*placeholders(outputs), *outputs], config)
    check_values(simulate_program(program, inputs, trace=False).outputs, outputs, inputs)
