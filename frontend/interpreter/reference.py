"""NumPy reference interpreter of whole programs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import overload

import numpy as np

from lathe.configs.array_args import array_of
from lathe.configs.host_memory import check_fits_memory, within_memory
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import InputError, shown
from lathe.frontend.expr.evaluation import Array
from lathe.frontend.expr.nodes import Computation, Tensor
from lathe.frontend.interpreter.computation_arrays import evaluate_computation
from lathe.frontend.interpreter.recurrence_interpreter import evaluate_recurrence
from lathe.frontend.tensor.bind_parameters import bound_program
from lathe.frontend.tensor.programs import placeholders, topological
from lathe.frontend.tensor.recurrences import find_recurrences

_TASK = "the program's NumPy reference"


@overload
def reference(outputs: Tensor, inputs: Mapping[str, Array], *, parameters: Mapping[str, int] | None = ...) -> Array: ...


@overload
def reference(
    outputs: Sequence[Tensor], inputs: Mapping[str, Array], *, parameters: Mapping[str, int] | None = ...
) -> dict[str, Array]: ...


@within_memory(_TASK)
def reference(
    outputs: Tensor | Sequence[Tensor], inputs: Mapping[str, Array], *, parameters: Mapping[str, int] | None = None
) -> Array | dict[str, Array]:
    """Execute a program in NumPy: returns an array for one tensor, a dictionary by name for a sequence of tensors.

    ``inputs`` holds one array per placeholder, by name, of exactly its shape and dtype. Arithmetic is on integers and
    wraps around at the width of each dtype; the result is exact. ``parameters`` are values of the program's parameters.
    Raises InputError when an input is missing, unknown or of another shape or dtype, MemoryLimitError when arrays do
    not fit into memory.
    """
    tensors, _ = bound_program(outputs, parameters, "reference")
    check_fits_memory(sum(map(_nbytes, {*placeholders(tensors), *tensors})), _TASK)
    arrays = checked_inputs(tensors, inputs)
    order = topological(tensors)
    uses = Counter(tensor for each in order for tensor in _tensors_read_by(each))
    uses.update(tensors)
    recurrences = {each: recurrence for recurrence in find_recurrences(order) for each in recurrence.computations}
    for computation in order:
        recurrence = recurrences.get(computation)
        if recurrence is None:
            arrays.update(zip(computation.outputs, evaluate_computation(computation, arrays), strict=True))
        elif computation is recurrence.computations[0]:
            arrays.update(evaluate_recurrence(recurrence, arrays))
        for tensor in _tensors_read_by(computation):
            uses[tensor] -= 1
            if not uses[tensor]:
                del arrays[tensor]
    if isinstance(outputs, Tensor):
        (output,) = tensors
        return arrays[output].copy() if output.computation is None else arrays[output]
    return {tensor.name: arrays[tensor] for tensor in tensors}


def _nbytes(tensor: Tensor) -> int:
    return prod(tensor.shape) * DTYPES[tensor.dtype].numpy.itemsize


def _tensors_read_by(computation: Computation) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(read.tensor for read in computation.reads))


def checked_inputs(outputs: Tensor | Sequence[Tensor], inputs: Mapping[str, Array]) -> dict[Tensor, Array]:
    """The arrays of the program's placeholders, contiguous.

    Raises InputError when one is missing, unknown, or of another shape or dtype than its placeholder.
    """
    needed = {tensor.name: tensor for tensor in placeholders(outputs)}
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs of the program must be a dictionary of arrays by name, not {shown(inputs)}.")
    expected = f"The program needs {', '.join(map(repr, needed)) or 'no input'}."
    unknown = [name for name in inputs if name not in needed]
    if unknown:
        raise InputError(f"inputs of the program must be its placeholders only, not {unknown[0]!r}. {expected}")
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise InputError(f"inputs of the program must hold an array for {missing[0]!r}, which is missing. {expected}")
    return {tensor: checked_input(tensor, inputs[name]) for name, tensor in needed.items()}


def checked_input(tensor: Tensor, array: object) -> Array:
    """``array`` as a contiguous array of exactly the tensor's shape and dtype; raises InputError otherwise.

    A list of integers that the dtype holds is converted.
    """
    try:
        array = array_of(array, DTYPES[tensor.dtype].numpy)
    except ValueError as error:
        raise InputError(f"input {tensor.name!r} must be an array of {tensor.dtype}, not {error}.") from None
    if array.shape != tensor.shape:
        raise InputError(f"shape of input {tensor.name!r} must be {tensor.shape}, not {array.shape}.")
    if array.dtype != DTYPES[tensor.dtype].numpy:
        raise InputError(
            f"dtype of input {tensor.name!r} must be {tensor.dtype}, not {array.dtype}. "
            f'Convert it, as in array.astype("{tensor.dtype}").'
        )
    return np.asarray(array, order="C")
