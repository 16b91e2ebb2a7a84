"""Functions of one tensor of 8 bits: nodes that work element by element, tabulated at all 256 values.

``x · sigmoid(x)`` is one, hard swish as well, however many nodes it is made of: what matters is that all they read are
the tensor and single numbers. The host computes the table once, by the nodes themselves.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.extra import extra
from lathe.frontend.onnx.host import run_on_host
from lathe.frontend.onnx.layers import Layer, Lookup
from lathe.frontend.onnx.quantised_values import Values
from lathe.frontend.onnx.reading import DTYPES_OF_TYPES, Model

ELEMENTWISE = frozenset(
    {
        "Abs",
        "Add",
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
"""Operators whose results depend on one element of each operand."""
MOST_NODES = 64


def function_above(values: Values, last: int, known: Mapping[str, Layer]) -> tuple[str, tuple[int, ...]] | None:
    """The tensor of 8 bits that node number ``last`` is a function of, and the nodes between; None if it is none.

    Of two tensors, one may be a function of the other: ``known`` layers tell.
    """
    found = _sources_above(values, last)
    if found is None:
        return None
    sources, numbers = found
    while len(sources) > 1:
        inner = next((known[name] for name in sources if isinstance(known.get(name), Lookup)), None)
        if inner is None:
            return None
        sources = (sources - {inner.output}) | {*inner.inputs}
        numbers |= {*inner.nodes}
    return (sources.pop(), tuple(sorted(numbers))) if sources else None


def _sources_above(values: Values, last: int) -> tuple[set[str], set[int]] | None:
    """The tensors of 8 bits that a node is made of, element by element, and the nodes between."""
    model = values.model
    sources: set[str] = set()
    numbers: set[int] = set()
    ahead = [last]
    while ahead:
        number = ahead.pop()
        if number in numbers:
            continue
        node = model.nodes[number]
        if node.op_type not in ELEMENTWISE or node.domain not in ("", "ai.onnx") or len(numbers) > MOST_NODES:
            return None
        numbers.add(number)
        for place, name in enumerate(node.input):
            constant = model.constant(name) if name else None
            if not name or (constant is not None and constant.size == 1):
                continue
            if constant is not None or name not in values.producer:
                known = model.types.get(name)
                if constant is not None or known is None or place or not _dequantises(node):
                    return None
                sources.add(name)
            elif place == 0 and _dequantises(node):
                sources.add(name)
            else:
                ahead.append(values.producer[name])
    return sources, numbers


def _dequantises(node: Any) -> bool:
    return str(node.op_type) == "DequantizeLinear"


def tabulated(model: Model, source: str, nodes: tuple[int, ...], output: str) -> NDArray[Any] | None:
    """What the nodes make of each value of ``source``, from the least on; None where the host cannot say."""
    onnx = extra("onnx")
    dtype = model.types[source].dtype
    limits = np.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(dtype)
    chosen = [model.nodes[number] for number in nodes]
    read = {name for node in chosen for name in node.input}
    kind = next(number for number, name in DTYPES_OF_TYPES.items() if name == dtype)
    constants = [
        onnx.helper.make_tensor(name, each.data_type, [], _flat(model.constant(name)))
        for name, each in model.initializers.items()
        if name in read
    ]
    given = [onnx.helper.make_tensor_value_info(source, kind, [every.size])]
    made = [onnx.helper.make_empty_tensor_value_info(output)]
    graph = onnx.helper.make_graph(chosen, "function", given, made, constants)
    proto = onnx.helper.make_model(
        graph, opset_imports=list(model.proto.opset_import), ir_version=model.proto.ir_version
    )
    table = run_on_host(proto.SerializeToString(), {source: every}, (output,))[output]
    return table if table.shape == every.shape and str(table.dtype) in ("int8", "uint8") else None


def _flat(values: NDArray[Any] | None) -> list[Any]:
    assert values is not None, "a constant has values"
    return list(values.reshape(-1).tolist())
