"""Elimination of ``Identity``, and of ``Dropout`` outside of training."""

from typing import Any

from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import rename

FIRST_PLAIN_DROPOUT, FIRST_TRAINING_DROPOUT = 7, 12
"""Opsets since which Dropout is an identity in inference, and since which an input enables training."""


def eliminate_identities(proto: Any) -> bool:
    """Remove identities that are no outputs of the model; whether there was any."""
    graph = proto.graph
    opset = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), 1)
    outputs = {each.name for each in graph.output}
    read = {name for node in graph.node for name in names_read(node)} | outputs
    held = {each.name: each for each in graph.initializer}
    names: dict[str, str] = {}
    remaining = []
    for node in graph.node:
        if node.output[:1] and node.output[0] not in outputs and _copies(node, opset, held, read):
            names[node.output[0]] = names.get(node.input[0], node.input[0])
        else:
            remaining.append(node)
    if not names:
        return False
    for node in remaining:
        rename(node, names)
    copies = [type(node).FromString(node.SerializeToString()) for node in remaining]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def _copies(node: Any, opset: int, held: dict[str, Any], read: set[str]) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Identity":
        return bool(node.input[0])
    if node.op_type != "Dropout" or opset < FIRST_PLAIN_DROPOUT or any(name in read for name in node.output[1:]):
        return False
    if opset < FIRST_TRAINING_DROPOUT or len(node.input) < 3 or not node.input[2]:
        return True
    training = held.get(node.input[2])
    return training is not None and not optional_import("onnx.numpy_helper").to_array(training).reshape(-1)[0]
