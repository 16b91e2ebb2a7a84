"""The NumPy meaning of whole programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import overload

import numpy as np

from lathe.configs.arrays import array_of
from lathe.configs.host_memory import check_room, within_memory
from lathe.frontend.binding import bound_program
from lathe.frontend.circular_reference import evaluate_cycle
from lathe.frontend.contraction import as_contraction, contract
from lathe.frontend.cycles import cycles
from lathe.frontend.dense import Box, DenseEvaluator, Span, whole
from lathe.frontend.dtypes import DTYPES
from lathe.frontend.errors import InputError, shown
from lathe.frontend.evaluation import REDUCTIONS, Array
from lathe.frontend.expressions import Axis, Reduce
from lathe.frontend.programs import placeholders, topological
from lathe.frontend.substitution import SplitAxes
from lathe.frontend.tensors import Computation, Tensor

_BLOCK = 1 << 20
"""Points of a reduction that are evaluated at once."""


_TASK = "the program's meaning in NumPy"


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
    """What the program yields: an array for one tensor, a dictionary by name for a sequence of tensors.

    ``inputs`` holds one array per placeholder, by name, of exactly its shape and dtype. Arithmetic is on integers and
    wraps around at the width of each dtype; the result is exact. ``parameters`` gives numbers for those of the program.
    Raises InputError when an input is missing, unknown or of another shape or dtype, MemoryLimitError when arrays do
    not fit into memory.
    """
    wanted, _ = bound_program(outputs, parameters, "reference")
    check_room(sum(map(_nbytes, {*placeholders(wanted), *wanted})), _TASK)
    arrays = checked_inputs(wanted, inputs)
    order = topological(wanted)
    uses = Counter(tensor for each in order for tensor in _read_by(each))
    uses.update(wanted)
    circles = {each: cycle for cycle in cycles(order) for each in cycle.computations}
    for computation in order:
        cycle = circles.get(computation)
        if cycle is None:
            arrays.update(zip(computation.outputs, evaluate_computation(computation, arrays), strict=True))
        elif computation is cycle.computations[0]:
            arrays.update(evaluate_cycle(cycle, arrays))
        for tensor in _read_by(computation):
            uses[tensor] -= 1
            if not uses[tensor]:
                del arrays[tensor]
    if isinstance(outputs, Tensor):
        (output,) = wanted
        return arrays[output].copy() if output.computation is None else arrays[output]
    return {tensor.name: arrays[tensor] for tensor in wanted}


def _nbytes(tensor: Tensor) -> int:
    return prod(tensor.shape) * DTYPES[tensor.dtype].numpy.itemsize


def _read_by(computation: Computation) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(read.tensor for read in computation.reads))


def checked_inputs(outputs: Tensor | Sequence[Tensor], inputs: Mapping[str, Array]) -> dict[Tensor, Array]:
    """The arrays of the program's placeholders, contiguous.

    Raises InputError when one is missing, unknown, or of another shape or dtype than its placeholder.
    """
    needed = {tensor.name: tensor for tensor in placeholders(outputs)}
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs of the program must be a dictionary of arrays by name, not {shown(inputs)}.")
    expected = f"It needs {', '.join(map(repr, needed)) or 'no input'}."
    unknown = [name for name in inputs if name not in needed]
    if unknown:
        raise InputError(f"inputs of the program must be its placeholders only, not {unknown[0]!r}. {expected}")
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise InputError(f"inputs of the program must hold an array for {missing[0]!r}, which is missing. {expected}")
    return {tensor: checked_input(tensor, inputs[name]) for name, tensor in needed.items()}


def checked_input(tensor: Tensor, array: object) -> Array:
    """``array`` when it has exactly the tensor's shape and dtype, contiguous; raises InputError otherwise.

    A list of integers that the dtype holds is as good as an array.
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
    return np.ascontiguousarray(array)


def evaluate_computation(computation: Computation, arrays: Mapping[Tensor, Array]) -> tuple[Array, ...]:
    """The arrays of a computation's outputs, given those of all tensors that it reads (contiguous).

    Elements outside the computation's domain are 0.
    """
    exists = (
        None if computation.where is None else DenseEvaluator(whole(computation.axes), arrays).full(computation.where)
    )
    split = SplitAxes((*computation.axes, *computation.reduce_axes), computation.bodies)
    axes = tuple(part for axis in computation.axes for part in split.parts[axis])
    results = []
    for body in split.bodies:
        if isinstance(body, Reduce):
            reduce_axes = tuple(part for axis in computation.reduce_axes for part in split.parts[axis])
            value = _reduced(axes, Reduce(body.kind, body.body, reduce_axes), arrays)
        else:
            value = DenseEvaluator(whole(axes), arrays).value(body)
        result = _stored(value, tuple(axis.extent for axis in axes)).reshape(computation.shape)
        results.append(result if exists is None else np.where(exists, result, result.dtype.type(0)))
    return tuple(results)


def _stored(value: Array, shape: tuple[int, ...]) -> Array:
    """The value as an array of its own."""
    if value.shape == shape and value.base is None and value.flags.c_contiguous:
        return value
    return np.array(np.broadcast_to(value, shape), order="C")


def _reduced(axes: tuple[Axis, ...], reduction: Reduce, arrays: Mapping[Tensor, Array]) -> Array:
    contraction = as_contraction(axes, reduction)
    if contraction is not None:
        return contract(contraction, axes, reduction.dtype, arrays)
    combine = REDUCTIONS[reduction.kind]
    dtype = DTYPES[reduction.dtype].numpy
    result: Array | None = None
    # Reduction axes come first, so that NumPy combines whole rows of data points.
    for box in _reduction_blocks(axes, reduction.axes):
        value = DenseEvaluator(box, arrays).value(reduction.body)
        value = _over_reduction(value, box, reduction.axes)
        part = combine.reduce(value, axis=tuple(range(len(reduction.axes))), dtype=dtype)
        result = part if result is None else combine(result, part)
    assert result is not None, "a reduction has at least one point"
    return np.asarray(result, dtype)


def _over_reduction(value: Array, box: Box, reduce_axes: tuple[Axis, ...]) -> Array:
    """The value repeated along the reduction axes that it does not depend on."""
    counts = tuple(box[axis].count for axis in reduce_axes)
    return np.broadcast_to(value, (*counts, *value.shape[len(counts) :]))


def _reduction_blocks(axes: tuple[Axis, ...], reduce_axes: tuple[Axis, ...]) -> Iterator[dict[Axis, Span]]:
    """Boxes that cover the reduction, each over all data points and at most ``_BLOCK`` points if possible."""
    data = whole(axes)
    room = max(1, _BLOCK // max(1, prod(axis.extent for axis in axes)))
    steps: dict[Axis, int] = {}
    for axis in reversed(reduce_axes):
        steps[axis] = min(axis.extent, room)
        room = max(1, room // steps[axis])
    ranges = [range(axis.start, axis.stop, steps[axis]) for axis in reduce_axes]
    for starts in product(*ranges):
        block = {
            axis: Span(start, min(steps[axis], axis.stop - start))
            for axis, start in zip(reduce_axes, starts, strict=True)
        }
        yield {**block, **data}
