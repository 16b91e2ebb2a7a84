"""Values for a program's inputs: zeros, random ones, or those of a file."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import LatheError
from lathe.isa import Program
from lathe.npz import UNREADABLE, reason_of
from lathe.sim.simulate import form


class InputsFileError(LatheError):
    """A file of inputs that cannot be read, or arguments that say twice where the inputs come from."""


def read_inputs(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (*UNREADABLE, TypeError) as error:
        reason = reason_of(error)
        if isinstance(error, ValueError) and zipfile.is_zipfile(path):
            reason = "one of them holds Python objects, or is damaged"
        raise InputsFileError(
            f"The inputs {str(path)!r} must be an .npz file of arrays, and cannot be read: {reason}. "
            "Make it with numpy.savez."
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
