"""Match the per-channel epilogue of a convolution or matmul: biases, BatchNormalization, factors.

MatMul, Add, BatchNormalization with constants for each output channel compute ``gain * matmul + offset``, which is
folded into the scale and bias of the layer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.reading import attributes_of

MAC_OPS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Epilogue:
    """A convolution or matmul ``core`` whose results are multiplied by ``gain`` and added to ``offset``.

    Both are (1,) or one for each output channel. ``numbers``: node numbers of the core and the epilogue.
    """

    core: Any
    numbers: tuple[int, ...]
    gain: Floats
    offset: Floats


def match_epilogue(values: Values, name: str, *, shared: bool = True) -> Epilogue | None:
    """The convolution or matmul and epilogue that compute a tensor; None if other nodes do.

    Without ``shared``, only nodes whose results have a single consumer belong to the epilogue.
    """
    epilogue: list[tuple[int, Any, str]] = []
    tensor = name
    while (found := values.node_of(tensor)) is not None:
        number, node = found
        if node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type in MAC_OPS:
            return _together(values, number, node, epilogue)
        data = _data_of(values, node)
        if data is None or (not shared and values.use_counts[data] > 1):
            return None
        epilogue.append((number, node, data))
        tensor = data
    return None


def _data_of(values: Values, node: Any) -> str | None:
    """The operand of an epilogue node that is not constant, if it is the only one."""
    if node.op_type == "BatchNormalization":
        return str(node.input[0]) if len([name for name in node.output if name]) == 1 else None
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.input) != 2:
        return None
    variable = [name for name in node.input if values.constant_floats(name) is None]
    if len(variable) != 1 or (node.op_type == "Div" and variable[0] != node.input[0]):
        return None
    return str(variable[0])


def _together(values: Values, number: int, core: Any, epilogue: list[tuple[int, Any, str]]) -> Epilogue | None:
    known = values.model.types.get(core.output[0])
    if known is None:
        return None
    axis = 1 if core.op_type in ("Conv", "ConvTranspose") else len(known.shape) - 1
    second = values.model.types.get(core.input[1])
    if core.op_type == "MatMul" and (second is None or len(second.shape) == 1):
        axis = -1  # a matrix times a vector has no output channels
    gain, offset = np.ones(1), np.zeros(1)
    for _, node, data in reversed(epilogue):
        result = values.model.types.get(node.output[0])
        one_step = _gain_and_offset(values, node, data, known.shape, axis)
        if one_step is None or result is None or result.shape != known.shape:
            return None
        gain, offset = gain * one_step[0], offset * one_step[0] + one_step[1]
    if not (np.all(np.isfinite(gain)) and np.all(np.isfinite(offset)) and np.all(gain != 0)):
        return None
    return Epilogue(core, (number, *(each for each, *_ in epilogue)), gain, offset)


def _gain_and_offset(
    values: Values, node: Any, data: str, shape: tuple[int, ...], axis: int
) -> tuple[Floats, Floats] | None:
    """The gain and offset of one node, (1,) or one for each index of ``axis``."""
    if node.op_type == "BatchNormalization":
        attributes = attributes_of(node)
        constants = [values.constant_floats(name) for name in node.input[1:5]]
        if axis != 1 or attributes.get("training_mode", 0) or any(each is None for each in constants):
            return None
        factor, added, mean, variance = (each.reshape(-1) for each in constants if each is not None)
        with np.errstate(all="ignore"):  # the caller rejects infinite and NaN values
            gain = factor / np.sqrt(variance + attributes.get("epsilon", 1e-5))
            return gain, added - mean * gain
    other = next(name for name in node.input if name != data)
    found = values.constant_floats(other)
    if found is None or found.ndim > len(shape):
        return None
    aligned = (1,) * (len(shape) - found.ndim) + found.shape
    if any(size > 1 and (dim != axis or size != shape[axis]) for dim, size in enumerate(aligned)):
        return None
    flat = found.reshape(-1)
    one, zero = np.ones(1), np.zeros(1)
    if node.op_type == "Add":
        return one, flat
    if node.op_type == "Sub":
        return (one, -flat) if data == node.input[0] else (-one, flat)
    with np.errstate(all="ignore"):
        return (flat if node.op_type == "Mul" else 1 / flat), zero
