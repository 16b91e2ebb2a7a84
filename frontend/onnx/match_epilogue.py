"""What follows a product, number for number: biases, normalisation, factors. Together they are a gain and an offset.

MatMul, Add, BatchNormalization with constants for each filter compute ``gain * product + offset``, with which the
product's own scale and bias are multiplied and added to.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.reading import attributes_of

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AfterProduct:
    """A product ``core``, and for all its filters, or each, what its results are multiplied by and what is added.

    ``numbers`` are those of its node and of the nodes behind it.
    """

    core: Any
    numbers: tuple[int, ...]
    gain: Floats
    offset: Floats


def after_product(values: Values, name: str, *, shared: bool = True) -> AfterProduct | None:
    """What makes a tensor of the result of a product; None where anything else does.

    Without ``shared`` only of nodes whose results nobody else reads.
    """
    above: list[tuple[int, Any, str]] = []
    made = name
    while (found := values.node_of(made)) is not None:
        number, node = found
        if node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type in PRODUCTS:
            return _together(values, number, node, above)
        data = _data_of(values, node)
        if data is None or (not shared and values.readers[data] > 1):
            return None
        above.append((number, node, data))
        made = data
    return None


def _data_of(values: Values, node: Any) -> str | None:
    """Which operand of a node is no constant, if all others are."""
    if node.op_type == "BatchNormalization":
        return str(node.input[0]) if len([name for name in node.output if name]) == 1 else None
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2:
        return None
    variable = [name for name in node.input if values.numbers_behind(name) is None]
    if len(variable) != 1 or (node.op_type == "Div" and variable[0] != node.input[0]):
        return None
    return str(variable[0])


def _together(values: Values, number: int, core: Any, above: list[tuple[int, Any, str]]) -> AfterProduct | None:
    known = values.model.types.get(core.output[0])
    if known is None:
        return None
    axis = 1 if core.op_type in ("Conv", "ConvTranspose") else len(known.shape) - 1
    second = values.model.types.get(core.input[1])
    if core.op_type == "MatMul" and (second is None or len(second.shape) == 1):
        axis = -1  # a product with a vector has no dimension of filters
    gain, offset = np.ones(1), np.zeros(1)
    for _, node, data in reversed(above):
        made = values.model.types.get(node.output[0])
        step = _gain_and_offset(values, node, data, known.shape, axis)
        if step is None or made is None or made.shape != known.shape:
            return None
        gain, offset = gain * step[0], offset * step[0] + step[1]
    if not (np.all(np.isfinite(gain)) and np.all(np.isfinite(offset)) and np.all(gain != 0)):
        return None
    return AfterProduct(core, (number, *(each for each, *_ in above)), gain, offset)


def _gain_and_offset(
    values: Values, node: Any, data: str, shape: tuple[int, ...], axis: int
) -> tuple[Floats, Floats] | None:
    """What one node multiplies by and adds, (1,) or for each index of a dimension."""
    if node.op_type == "BatchNormalization":
        attributes = attributes_of(node)
        held = [values.numbers_behind(name) for name in node.input[1:5]]
        if axis != 1 or attributes.get("training_mode", 0) or any(each is None for each in held):
            return None
        factor, added, mean, variance = (each.reshape(-1) for each in held if each is not None)
        with np.errstate(all="ignore"):  # what is not finite then is no layer
            gain = factor / np.sqrt(variance + attributes.get("epsilon", 1e-5))
            return gain, added - mean * gain
    other = next(name for name in node.input if name != data)
    found = values.numbers_behind(other)
    if found is None or found.ndim > len(shape):
        return None
    wide = (1,) * (len(shape) - found.ndim) + found.shape
    if any(size > 1 and (place != axis or size != shape[axis]) for place, size in enumerate(wide)):
        return None
    held_numbers = found.reshape(-1)
    one, none = np.ones(1), np.zeros(1)
    if node.op_type == "Add":
        return one, held_numbers
    if node.op_type == "Sub":
        return (one, -held_numbers) if data == node.input[0] else (-one, held_numbers)
    with np.errstate(all="ignore"):
        return (held_numbers if node.op_type == "Mul" else 1 / held_numbers), none
