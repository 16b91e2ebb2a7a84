"""Constants of a model, computed before layers are looked for: by the host, as it would compute them in every run.

So the bits are the same. What is computed is small, or no larger than what it is made of; loops are left alone, and so
is DequantizeLinear, by which layers are found.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.rename_values import bodies_of
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.frontend.onnx.value_types import LEAST_IR, TensorType, bytes_of, type_of

SMALL = 1 << 20
"""Bytes that a constant may always have."""
KEPT = frozenset(
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
"""Operators that are never folded: what is random, and what says that bytes are numbers."""

WEIGHTS = {"MatMul": 1, "Gemm": 1, "Conv": 1, "ConvTranspose": 1, "LSTM": 2, "GRU": 2, "RNN": 2}
"""Operators with weights, behind their first input so many."""
FLOATS = (1, 10, 11, 16)
"""Element types (TensorProto.DataType) whose sums depend on their order."""


def with_constants_held(proto: Any) -> bool:
    """Make initializers of nodes that hold a constant, and of shapes that are known; whether there were any."""
    graph = proto.graph
    outputs = {each.name for each in graph.output}
    types = {each.name: found for each in (*graph.input, *graph.value_info) if (found := type_of(each))}
    types |= {each.name: TensorType("", tuple(each.dims)) for each in graph.initializer}
    kept, held = [], []
    for node in graph.node:
        made = None
        if len(node.output) == 1 and node.output[0] not in outputs and node.domain in ("", "ai.onnx"):
            made = _constant(node) if node.op_type == "Constant" else _size(node, types)
        if made is None:
            kept.append(node)
        else:
            made.name = node.output[0]
            held.append(made)
    _replace(graph, kept, held)
    return bool(held)


def _constant(node: Any) -> Any:
    """The tensor that a node of operator Constant holds; None for what is no dense one."""
    onnx = extra("onnx")
    if len(node.attribute) != 1:
        return None
    (told,) = node.attribute
    if told.name == "value" and told.HasField("t"):
        found = onnx.TensorProto()
        found.CopyFrom(told.t)
        return found
    dtypes = {"float": np.float32, "int": np.int64, "string": object}
    kind = told.name.removeprefix("value_").removesuffix("s")
    if kind not in dtypes:
        return None
    return onnx.numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(told), dtypes[kind]), "")


def _size(node: Any, types: Mapping[str, TensorType]) -> Any:
    """What Shape or Size make of a tensor whose shape is known, as a tensor."""
    known = types.get(node.input[0]) if node.op_type in ("Shape", "Size") and node.input else None
    if known is None:
        return None
    from_array = extra("onnx.numpy_helper").from_array
    if node.op_type == "Size":
        return from_array(np.array(np.prod(known.shape, dtype=object), np.int64), "")
    told = {each.name: each.i for each in node.attribute}
    rank = len(known.shape)
    start, end = (min(max(n + rank if n < 0 else n, 0), rank) for n in (told.get("start", 0), told.get("end", rank)))
    return from_array(np.array(known.shape[start:end], np.int64), "")


def with_constants_computed(proto: Any) -> bool:
    """Make initializers of what nodes make of initializers alone; whether there were any."""
    graph = proto.graph
    outputs = {each.name for each in graph.output}
    sizes = {each.name: each.ByteSize() for each in graph.initializer}
    types = {each.name: each for each in graph.value_info}
    chosen: list[Any] = []
    for node in graph.node:
        read, made = names_read(node), [name for name in node.output if name]
        if node.op_type in KEPT or node.domain not in ("", "ai.onnx") or any(True for _ in bodies_of(node)):
            continue
        if not made or any(name in outputs for name in made) or any(name not in sizes for name in read):
            continue
        wanted = [_bytes(types.get(name)) for name in made]
        most = max(SMALL, sum(sizes[name] for name in read))
        if any(each is None or each > most for each in wanted):
            continue
        sizes |= dict(zip(made, (each or 0 for each in wanted), strict=True))
        chosen.append(node)
    chosen = _without_weights(graph, chosen, types)
    found = _computed(proto, chosen, {}) if chosen else {}
    if not found:
        return False
    done = [node for node in chosen if all(name in found for name in node.output if name)]
    kept = [node for node in graph.node if all(node is not each for each in done)]
    from_array = extra("onnx.numpy_helper").from_array
    wanted_later = {name for node in kept for name in names_read(node)}
    names = [name for node in done for name in node.output if name in wanted_later]
    _replace(graph, kept, [from_array(np.asarray(found[name]), name) for name in names])
    return True


def _without_weights(graph: Any, chosen: Sequence[Any], types: Mapping[str, Any]) -> list[Any]:
    """The chosen nodes but for those that make float weights of a product.

    onnxruntime packs weights that are constants, and adds in another order then: other bits.
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
    return SMALL if kind == extra("onnx").TensorProto.STRING else bytes_of(kind, known.shape)


def _computed(proto: Any, nodes: Sequence[Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What the host makes of nodes that read constants, in their order; nothing for those at which it fails."""
    onnx = extra("onnx")
    read = {name for node in nodes for name in names_read(node)}
    made = [name for node in nodes for name in node.output if name]
    held = [each for each in proto.graph.initializer if each.name in read]
    held += [onnx.numpy_helper.from_array(np.asarray(values), name) for name, values in known.items() if name in read]
    if read - {each.name for each in held} - {*made}:
        if len(nodes) == 1:
            return {}
    elif (found := computed(proto, nodes, held)) or len(nodes) == 1:
        return found
    half = len(nodes) // 2
    first = _computed(proto, nodes[:half], known)
    return first | _computed(proto, nodes[half:], {**known, **first})


def computed(proto: Any, nodes: Sequence[Any], held: Sequence[Any]) -> dict[str, Any]:
    """What the host makes of nodes of a model, in their order, that read each other and what is ``held`` (TensorProto).

    Nothing where it fails: whoever runs them says what is wrong.
    """
    onnx = extra("onnx")
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
    """Leave these nodes, and add initializers."""
    if len(nodes) == len(graph.node):
        return
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    graph.initializer.extend(held)
