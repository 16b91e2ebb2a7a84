"""Self-check of a schedule: the loop-nest interpreter against the NumPy meaning, on random inputs."""

from typing import TYPE_CHECKING

import numpy as np

from lathe.frontend import placeholders, reference
from lathe.scheduler.interpret import interpret

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule


def check_against_reference(schedule: "Schedule", seed: int = 0) -> None:
    """Execute the partitioned loop nest on random inputs; an assertion fails where it differs from NumPy."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for tensor in placeholders(schedule.program):
        if tensor.dtype == "bool":
            inputs[tensor.name] = generator.integers(0, 2, tensor.shape).astype(np.bool_)
        else:
            limits = np.iinfo(tensor.dtype)
            inputs[tensor.name] = generator.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)
    found = interpret(schedule, inputs)
    expected = reference(list(schedule.program), inputs)
    for name, array in found.items():
        wanted = expected[name] if isinstance(expected, dict) else expected
        assert np.array_equal(array, wanted), f"{name} of the loop nest differs from its NumPy meaning (seed {seed})"
