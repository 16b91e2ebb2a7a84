"""Tabulation of element-wise functions of one 8-bit tensor, such as ``x · sigmoid(x)``, as tables of 256 values.

A function may have many nodes, whose other operands must be single numbers or constants for each channel. The host
worker computes the table at compile time by running the nodes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.quant_graph import Layer, Lookup
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES

ELEMENTWISE = frozenset(
    {
        "Abs",
        "Add",
        "BatchNormalization",
        "Celu",
        "Ceil",
        "Clip",
        "Cos",
        "Div",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "LeakyRelu",
        "Log",
        "Max",
        "Min",
        "Mish",
        "Mul",
        "Neg",
        "PRelu",
        "Pow",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Tanh",
        "ThresholdedRelu",
        "QuantizeLinear",
        "DequantizeLinear",
    }
)
"""Element-wise operators."""
MOST_NODES = 64


def match_unary_function(values: Values, last: int, known: Mapping[str, Layer]) -> tuple[str, tuple[int, ...]] | None:
    """The 8-bit tensor that node number ``last`` is a function of, and the function's nodes; None if there is none.

    The function may read several tensors if all are functions of one, as the ``known`` layers by output show.
    """
    found = _sources_above(values, last)
    if found is None:
        return None
    sources, numbers = found
    while len(sources) > 1:
        constant = {name for name in sources if name in values.model.initializers}
        if constant:
            sources -= constant
            continue
        tables = [known[name] for name in sources if _is_function_of_nodes(values, known.get(name))]
        if not tables:
            return None
        inner = max(tables, key=lambda table: max(table.nodes))  # it may be a function of the others
        sources = (sources - {inner.output}) | {*inner.inputs}
        numbers |= {*inner.nodes}
    return (sources.pop(), tuple(sorted(numbers))) if sources else None


def _is_function_of_nodes(values: Values, layer: Layer | None) -> bool:
    """Whether a layer is a table whose nodes read its input, not a tensor that matching has introduced."""
    if not isinstance(layer, Lookup):
        return False
    return any(layer.inputs[0] in values.model.nodes[number].input for number in layer.nodes)


def _sources_above(values: Values, last: int) -> tuple[set[str], set[int]] | None:
    """The 8-bit tensors that a node is an element-wise function of, and the function's nodes."""
    model = values.model
    sources: set[str] = set()
    numbers: set[int] = set()
    worklist = [last]
    while worklist:
        number = worklist.pop()
        if number in numbers:
            continue
        node = model.nodes[number]
        if node.op_type not in ELEMENTWISE or node.domain not in ("", "ai.onnx") or len(numbers) > MOST_NODES:
            return None
        numbers.add(number)
        for index, name in enumerate(node.input):
            if not name or name in model.initializers:
                continue
            if index == 0 and node.op_type == "DequantizeLinear":
                sources.add(name)
            elif name in values.producer:
                worklist.append(values.producer[name])
            else:
                return None
    return sources, numbers


def tabulate(model: Model, source: str, nodes: tuple[int, ...], output: str) -> tuple[NDArray[Any], int] | None:
    """The results of nodes for each value of ``source``, from the smallest on, and an axis; None if they fail.

    The table is (256,), or (256, C) if constants make the function differ along the axis: channels of images, or the
    last dimension.
    """
    shape = model.types[source].shape
    if output not in model.types or model.types[output].shape != shape:
        return None  # a constant broadcasts it
    chosen = [model.nodes[number] for number in nodes]
    constants = {name for node in chosen for name in node.input if name in model.initializers}
    sizes = {size for name in constants for size in model.types[name].shape if size > 1}
    if not sizes:
        table = _run(model, source, chosen, output, (256,), constants)
        return None if table is None else (table, 1)
    for axis in dict.fromkeys((1, len(shape) - 1) if len(shape) in (3, 4) else (len(shape) - 1,)):
        if axis < 1 or sizes != {shape[axis]}:
            continue
        wide = tuple(256 if n == 0 else size if n == axis else 1 for n, size in enumerate(shape))
        table = _run(model, source, chosen, output, wide, constants)
        if table is not None:
            table = table.reshape(256, shape[axis])
            return (table[:, 0] if np.all(table == table[:, :1]) else table), axis
    return None


def _run(
    model: Model, source: str, chosen: list[Any], output: str, shape: tuple[int, ...], constants: set[str]
) -> NDArray[Any] | None:
    """Run nodes on all values of the source's dtype, along the first dimension."""
    onnx = optional_import("onnx")
    dtype = model.types[source].dtype
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    every = np.ascontiguousarray(np.broadcast_to(every.reshape(-1, *(1,) * (len(shape) - 1)), shape))
    kind = next(number for number, name in DTYPES_OF_TYPES.items() if name == dtype)
    held = []
    for name in constants:
        each = model.initializers[name]
        values = model.constant(name)
        assert values is not None, "a constant must have values"
        flat = len(shape) == 1 and values.size == 1
        held.append(onnx.helper.make_tensor(name, each.data_type, [], values.reshape(-1).tolist()) if flat else each)
    given = [onnx.helper.make_tensor_value_info(source, kind, list(shape))]
    made = [onnx.helper.make_empty_tensor_value_info(output)]
    graph = onnx.helper.make_graph(chosen, "function", given, made, held)
    proto = onnx.helper.make_model(
        graph, opset_imports=list(model.proto.opset_import), ir_version=model.proto.ir_version
    )
    try:
        table = run_on_host(proto.SerializeToString(), {source: every}, (output,))[output]
    except ModelError:
        return None  # the error is reported when the model runs
    return table if table.shape == every.shape and str(table.dtype) in ("int8", "uint8") else None
