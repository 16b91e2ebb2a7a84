"""Constant folding by the host worker, to the same bits as if it computed the constants in every run.

Results must be small or not larger than the operands. Control flow is not folded, nor is DequantizeLinear, by which
layers are matched.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import bodies_of
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.frontend.onnx.value_types import LEAST_IR, TensorType, bytes_of, type_of

SMALL = 1 << 20
"""Constants up to this number of bytes are always folded."""
NEVER_FOLDED = frozenset(
    {
        "Bernoulli",
        "DequantizeLinear",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators that are never folded: random ones, and DequantizeLinear."""

WEIGHTS = {"MatMul": 1, "Gemm": 1, "Conv": 1, "ConvTranspose": 1, "LSTM": 2, "GRU": 2, "RNN": 2}
"""Operators with weights, and the number of weight inputs, which follow the first input."""
FLOATS = (1, 10, 11, 16)
"""Element types (TensorProto.DataType) whose addition is not associative."""


def fold_constant_nodes(proto: Any) -> bool:
    """Fold Constant nodes, and Shape and Size of tensors with known shapes; whether there was any."""
    graph = proto.graph
    outputs = {each.name for each in graph.output}
    types = {each.name: found for each in (*graph.input, *graph.value_info) if (found := type_of(each))}
    types |= {each.name: TensorType("", tuple(each.dims)) for each in graph.initializer}
    remaining, folded = [], []
    for node in graph.node:
        constant = None
        if len(node.output) == 1 and node.output[0] not in outputs and node.domain in ("", "ai.onnx"):
            constant = _constant(node) if node.op_type == "Constant" else _size(node, types)
        if constant is None:
            remaining.append(node)
        else:
            constant.name = node.output[0]
            folded.append(constant)
    _replace(graph, remaining, folded)
    return bool(folded)


def _constant(node: Any) -> Any:
    """The tensor of a Constant node; None if it is sparse."""
    onnx = optional_import("onnx")
    if len(node.attribute) != 1:
        return None
    (attribute,) = node.attribute
    if attribute.name == "value" and attribute.HasField("t"):
        found = onnx.TensorProto()
        found.CopyFrom(attribute.t)
        return found
    dtypes = {"float": np.float32, "int": np.int64, "string": object}
    kind = attribute.name.removeprefix("value_").removesuffix("s")
    if kind not in dtypes:
        return None
    return onnx.numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(attribute), dtypes[kind]), "")


def _size(node: Any, types: Mapping[str, TensorType]) -> Any:
    """The result of a Shape or Size of a tensor with a known shape; None for other nodes."""
    known = types.get(node.input[0]) if node.op_type in ("Shape", "Size") and node.input else None
    if known is None:
        return None
    from_array = optional_import("onnx.numpy_helper").from_array
    if node.op_type == "Size":
        return from_array(np.array(np.prod(known.shape, dtype=object), np.int64), "")
    attrs = {each.name: each.i for each in node.attribute}
    rank = len(known.shape)
    start, end = (min(max(n + rank if n < 0 else n, 0), rank) for n in (attrs.get("start", 0), attrs.get("end", rank)))
    return from_array(np.array(known.shape[start:end], np.int64), "")


def fold_constants(proto: Any) -> bool:
    """Fold nodes whose inputs are all initializers; whether there was any."""
    graph = proto.graph
    outputs = {each.name for each in graph.output}
    sizes = {each.name: each.ByteSize() for each in graph.initializer}
    types = {each.name: each for each in graph.value_info}
    chosen: list[Any] = []
    for node in graph.node:
        read, made = names_read(node), [name for name in node.output if name]
        if node.op_type in NEVER_FOLDED or node.domain not in ("", "ai.onnx") or any(True for _ in bodies_of(node)):
            continue
        if not made or any(name in outputs for name in made) or any(name not in sizes for name in read):
            continue
        result_sizes = [_bytes(types.get(name)) for name in made]
        most = max(SMALL, sum(sizes[name] for name in read))
        if any(each is None or each > most for each in result_sizes):
            continue
        sizes |= dict(zip(made, (each or 0 for each in result_sizes), strict=True))
        chosen.append(node)
    chosen = _without_weights(graph, chosen, types)
    found = _computed(proto, chosen, {}) if chosen else {}
    if not found:
        return False
    done = [node for node in chosen if all(name in found for name in node.output if name)]
    remaining = [node for node in graph.node if all(node is not each for each in done)]
    from_array = optional_import("onnx.numpy_helper").from_array
    read_later = {name for node in remaining for name in names_read(node)}
    names = [name for node in done for name in node.output if name in read_later]
    _replace(graph, remaining, [from_array(np.asarray(found[name]), name) for name in names])
    return True


def _without_weights(graph: Any, chosen: Sequence[Any], types: Mapping[str, Any]) -> list[Any]:
    """The chosen nodes except those that compute float weights of a matmul or convolution.

    onnxruntime packs constant weights, and then adds in another order, which changes bits.
    """
    made = {name for node in chosen for name in node.output if name}
    weights = set()
    for node in graph.node:
        if node.op_type in WEIGHTS and not made & {*node.output}:
            weights |= {name for name in node.input[1 : 1 + WEIGHTS[node.op_type]] if name in types}
    numbers = {name for name in weights if types[name].type.tensor_type.elem_type in FLOATS}
    return [node for node in chosen if not numbers & {*node.output}]


def _bytes(info: Any) -> int | None:
    known = None if info is None else type_of(info)
    if known is None:
        return None
    kind = info.type.tensor_type.elem_type
    return SMALL if kind == optional_import("onnx").TensorProto.STRING else bytes_of(kind, known.shape)


def _computed(proto: Any, nodes: Sequence[Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate nodes with constant inputs, in topological order; without the results of those that fail."""
    onnx = optional_import("onnx")
    read = {name for node in nodes for name in names_read(node)}
    made = [name for node in nodes for name in node.output if name]
    held = [each for each in proto.graph.initializer if each.name in read]
    held += [onnx.numpy_helper.from_array(np.asarray(values), name) for name, values in known.items() if name in read]
    if read - {each.name for each in held} - {*made}:
        if len(nodes) == 1:
            return {}
    elif (found := evaluate(proto, nodes, held)) or len(nodes) == 1:
        return found
    half = len(nodes) // 2
    first = _computed(proto, nodes[:half], known)
    return first | _computed(proto, nodes[half:], {**known, **first})


def evaluate(proto: Any, nodes: Sequence[Any], held: Sequence[Any]) -> dict[str, Any]:
    """Evaluate nodes, in topological order, whose inputs are each other's results and ``held`` (TensorProto).

    Empty if they fail: the error is then reported when the model runs.
    """
    onnx = optional_import("onnx")
    made = [name for node in nodes for name in node.output if name]
    infos = [onnx.helper.make_empty_tensor_value_info(name) for name in made]
    graph = onnx.helper.make_graph(list(nodes), "constants", [], infos, list(held))
    opsets, version = list(proto.opset_import), max(proto.ir_version, LEAST_IR)
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=version)
    model.functions.extend(proto.functions)
    try:
        return run_on_host(model.SerializeToString(), {}, tuple(made))
    except ModelError:
        return {}


def _replace(graph: Any, nodes: Sequence[Any], held: Sequence[Any]) -> None:
    """Replace the nodes of a graph, and add initializers."""
    if len(nodes) == len(graph.node):
        return
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    graph.initializer.extend(held)
