"""Rewriting of a model to the canonical forms of its nodes (``canonical_nodes.py``), which mean the same everywhere."""

from typing import Any

from lathe.frontend.onnx.canonical_nodes import canonical_nodes
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.rename_values import all_names, unique_name
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES, TensorType, type_of


def canonicalize(proto: Any) -> bool:
    """Rewrite nodes that have a canonical form and inputs of known shapes; whether there was any.

    All inferred shapes are removed then, and nodes that depend on a rewritten one are left to the next round.
    """
    graph = proto.graph
    opset = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), 0)
    infos = [*graph.input, *graph.value_info, *graph.output]
    known = {each.name: found for each in infos if (found := type_of(each)) is not None}
    known |= {each.name: TensorType(DTYPES_OF_TYPES[each.data_type], tuple(each.dims)) for each in graph.initializer}
    taken, nodes, changed = all_names(graph), list[Any](), set[str]()
    for node in graph.node:
        made = None
        if not changed.intersection(names_read(node)):
            made = canonical_nodes(node, opset, known, lambda hint: unique_name(hint, taken))
        if made is not None or changed.intersection(names_read(node)):
            changed.update(node.output)
        nodes += [node] if made is None else made
    if not changed:
        return False
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    del graph.value_info[:]
    for each in graph.output:
        if each.name in changed:
            each.type.tensor_type.ClearField("shape")
    return True
