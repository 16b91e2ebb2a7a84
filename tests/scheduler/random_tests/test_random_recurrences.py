"""Random recurrences under random schedules: NumPy, the loop nest and the machine agree; refusals are justified."""

from unittest import mock

import numpy as np
import pytest
from executions import confirm
from meanings import built
from random_commands import ORDER, commands
from random_programs import Choice, random_inputs
from random_recurrences import recurrences
from seeds import check_each, note
from shares import BUILD, COMMAND, Shares, check_shares

from lathe.configs import load_config
from lathe.frontend import format_program, placeholders, reference
from lathe.isa import verify
from lathe.scheduler import (
    LegalityError,
    ParallelismError,
    create_schedule,
    interpret,
)
from lathe.sim import simulate_program

KINDS = (
    *("split", "tile", "reorder", "reorder", "fuse", "compute_at", "compute_root", "set_scope", "cache_write"),
    *("cache_read", "reuse_at", "emit_insn", "reverse", "skew", "skew", *ORDER),
)
MACHINES = [load_config(name) for name in ("tiny", "vta", "batch4")]


def plain_meaning(outputs, inputs):
    """The values of a program, evaluated point by point in the order that the frontend specifies."""
    from itertools import product

    from lathe.frontend import evaluate, find_recurrences, topological
    from lathe.frontend.expr.nodes import Reduce

    values = {tensor: inputs[tensor.name] for tensor in placeholders(outputs)}
    order = topological(outputs)
    inside = {each: cycle for cycle in find_recurrences(order) for each in cycle.computations}
    for computation in order:
        for tensor in computation.outputs:
            values[tensor] = np.full(tensor.shape, 77, tensor.dtype)

    def execute(computation, point):
        env = {**values, **{axis: np.asarray(value) for axis, value in zip(computation.axes, point, strict=True)}}
        for tensor, body in zip(computation.outputs, computation.bodies, strict=True):
            assert not isinstance(body, Reduce) or body.kind == "sum"
            values[tensor][point] = evaluate(body, env)

    done = set()
    for computation in order:
        cycle = inside.get(computation)
        if cycle is None:
            for point in np.ndindex(*computation.shape):
                execute(computation, point)
        elif cycle not in done:
            done.add(cycle)
            for outer in product(*(range(extent) for extent in cycle.computations[0].shape[: cycle.depth])):
                for each in cycle.computations:
                    for rest in np.ndindex(*each.shape[cycle.depth :]):
                        execute(each, (*outer, *rest))
    return {tensor.name: values[tensor] for tensor in outputs}


def equal(found, expected):
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, f"{name} differs")


def check_random_circle(seed: int, most_commands: int) -> None:
    choice = Choice(seed)
    outputs = recurrences(choice)
    note(format_program(outputs))
    inputs = random_inputs(outputs, seed=1)
    expected = reference(outputs, inputs)
    equal(expected, plain_meaning(outputs, inputs))
    schedule = create_schedule(outputs)
    equal(interpret(schedule, inputs), expected)
    for _ in range(choice.number(1, most_commands)):
        command = commands(choice, schedule, KINDS)
        before = schedule.fork()
        states = [(stage, stage.state) for stage in schedule.stages]
        for error in command.attempt(schedule):
            assert [(stage, stage.state) for stage in schedule.stages] == states
            if isinstance(error, LegalityError) and not isinstance(error, ParallelismError):
                with mock.patch("lathe.scheduler.primitives.transaction.check_schedule"):
                    command.run(before)
                if "may execute iterations in any order" not in str(error):  # executed in one order, which may be right
                    confirm(error.witness, before)
    equal(interpret(schedule, inputs), expected)


def check_circle_on_machine(seed: int, most_commands: int) -> None:
    choice = Choice(seed)
    outputs = recurrences(choice)
    schedule = create_schedule(outputs)
    for _ in range(choice.number(0, most_commands)):
        commands(choice, schedule, ("split", "reorder", "skew", "tile", "reverse", "shift")).attempt(schedule)
    config = choice.pick(MACHINES)
    note(f"{format_program(outputs)} {config.name}")
    inputs = random_inputs(outputs, seed=1)
    program = built(schedule, config)
    if program is None:
        return
    assert verify(program) == []
    equal(simulate_program(program, inputs, trace=False).outputs, reference(outputs, inputs))


@pytest.mark.seeds(16, slow=284, block=40)
def test_every_accepted_order_keeps_the_meaning_and_every_refusal_has_a_true_witness(seeds):
    happened = check_each(seeds, check_random_circle, 6)
    check_shares(happened, COMMAND, Shares(0.38, {"argument": 0.3, "legality": 0.25, "machine": 0.05, "limit": 0.14}))


@pytest.mark.seeds(4, slow=96, block=10)
def test_circles_on_the_machine(seeds):
    happened = check_each(seeds, check_circle_on_machine, 3)
    check_shares(happened, COMMAND, Shares(0.38, {"argument": 0.4, "legality": 0.3, "limit": 0.05}))
    check_shares(happened, BUILD, Shares(0.98, {"machine": 0.02}))


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_the_same_for_many_more(seeds):
    check_each(seeds, check_random_circle, 10)
    check_each(seeds, check_circle_on_machine, 4)
