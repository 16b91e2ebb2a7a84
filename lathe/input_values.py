"""Values for a program's inputs: zeros, random ones, or those of a file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import LatheError
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.isa import Program
from lathe.sim.simulate import form


class InputsFileError(LatheError):
    """A file of inputs that cannot be read, or arguments that name two sources of inputs."""


def read_inputs(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name."""
    try:
        return read_arrays(path)
    except UnreadableArchiveError as error:
        raise InputsFileError(
            f"Cannot read inputs from {str(path)!r}: {error}. Name an .npz file, as numpy.savez writes it."
        ) from None


def blank_inputs(program: Program) -> dict[str, NDArray[Any]]:
    """Zeros for each input."""
    forms = {segment.tensor: form(segment) for segment in program.inputs}
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in forms.items()}


def random_inputs(program: Program, seed: int) -> dict[str, NDArray[Any]]:
    """An array for each input, with values from the whole range of its dtype."""
    rng = np.random.default_rng(seed)
    values = {}
    for segment in program.inputs:
        shape, dtype = form(segment)
        bounds = np.iinfo(dtype)
        values[segment.tensor] = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    return values
