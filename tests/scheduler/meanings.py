"""What random programs are held against: NumPy, and on the machine a refusal that names a constraint."""

from collections.abc import Mapping

import numpy as np
from random_programs import random_inputs
from seeds import event

from lathe.configs import HardwareConfig, LatheError
from lathe.frontend import Tensor, placeholders, reference
from lathe.isa import verify
from lathe.scheduler import BuildError, CapacityError, EmitError, Schedule, build, interpret
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
    try:
        program = build(schedule, [*placeholders(outputs), *outputs], config)
    except (CapacityError, EmitError, BuildError) as error:
        event(f"refused by build: {type(error).__name__}")
        check_names_a_constraint(error)
        return
    assert verify(program) == []
    check_values(simulate_program(program, inputs, trace=False).outputs, outputs, inputs)


def check_names_a_constraint(error: LatheError) -> None:
    """A refusal names a thing and a constraint: "… must …"."""
    assert " must " in str(error), f"no constraint in {error}"
