"""End-to-end check: simulates a program on inputs of several kinds, and compares its outputs with NumPy's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, placeholders, reference
from lathe.isa import MachineFault, Program
from lathe.scheduler.errors import ValidationError
from lathe.sim.simulate import simulate_program

Arrays = dict[str, NDArray[Any]]

KINDS = ("full-range", "extreme", "small")


def validate_runs(
    program: Program, outputs: Sequence[Tensor], constants: Mapping[str, NDArray[Any]], seed: int = 0
) -> None:
    """Raise ValidationError for the first element of an output that differs from NumPy's, or for a fault."""
    for kind in KINDS:
        inputs = inputs_of(outputs, kind, seed)
        given = {name: array for name, array in inputs.items() if name not in constants}
        fixed = {name: array for name, array in constants.items() if name in inputs}
        expected = reference(list(outputs), {**inputs, **fixed})
        try:
            actual = simulate_program(program, given, trace=False).outputs
        except MachineFault as fault:
            raise ValidationError(f"The program faults on {kind} inputs (seed {seed}). {fault}") from None
        for tensor in outputs:
            wrong = np.argwhere(actual[tensor.name] != expected[tensor.name])
            if len(wrong):
                at = tuple(int(n) for n in wrong[0])
                raise ValidationError(
                    f"{tensor.name}[{', '.join(map(str, at))}] of the program must be {expected[tensor.name][at]} on "
                    f"{kind} inputs (seed {seed}), as in NumPy, not {actual[tensor.name][at]}; {len(wrong)} elements "
                    "differ. The instructions of each lowered stage are correct, so a pass has changed the meaning of "
                    'the program; build(..., check="passes") names it.'
                )


def inputs_of(outputs: Sequence[Tensor], kind: str, seed: int) -> Arrays:
    """Random inputs: values of the full range, the extremes of each type and 0, or values near 0."""
    generator = np.random.default_rng([seed, KINDS.index(kind)])
    inputs: Arrays = {}
    for tensor in placeholders(list(outputs)):
        if tensor.dtype == "bool":
            inputs[tensor.name] = generator.integers(0, 2, tensor.shape).astype(np.bool_)
            continue
        limits = np.iinfo(tensor.dtype)
        if kind == "extreme":
            inputs[tensor.name] = generator.choice(np.array([limits.min, limits.max, 0], tensor.dtype), tensor.shape)
            continue
        low, high = (limits.min, limits.max) if kind == "full-range" else (max(limits.min, -4), 4)
        inputs[tensor.name] = generator.integers(low, high, tensor.shape, tensor.dtype, endpoint=True)
    return inputs
