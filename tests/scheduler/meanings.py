"""Checks of random programs: values equal NumPy's, or ``build`` refuses with a constraint."""

from collections.abc import Mapping

import numpy as np
from random_programs import random_inputs
from shares import BUILD, counted

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor, placeholders, reference
from lathe.isa import Program, verify
from lathe.scheduler import Schedule, build, interpret
from lathe.sim import simulate_program


def check_values(found: Mapping[str, np.ndarray], outputs: list[Tensor], inputs: Mapping[str, np.ndarray]) -> None:
    expected = reference(outputs, inputs)
    for tensor in outputs:
        wanted = expected[tensor.name] if isinstance(expected, dict) else expected
        np.testing.assert_array_equal(found[tensor.name], wanted, f"{tensor.name} differs from its NumPy meaning")


def check_machine(schedule: Schedule, config: HardwareConfig) -> None:
    """NumPy, the interpreter of the nest and the simulator agree, or ``build`` refuses with a constraint."""
    outputs = list(schedule.program)
    inputs = random_inputs(outputs, seed=1)
    check_values(interpret(schedule, inputs), outputs, inputs)
    program = built(schedule, config)
    if program is None:
        return
    assert verify(program) == []
    check_values(simulate_program(program, inputs, trace=False).outputs, outputs, inputs)


def built(schedule: Schedule, config: HardwareConfig) -> Program | None:
    """The program of a schedule on a machine; None if ``build`` refuses it; both are counted, refusals by kind."""
    outputs = list(schedule.program)
    with counted(BUILD):
        return build(schedule, [*placeholders(outputs), *outputs], config)
    return None
