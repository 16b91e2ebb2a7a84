"""Shapes that a model's outputs are declared with: believed only where inference says nothing.

A batch that somebody has opened at the input often stays as it was at the output; onnxruntime warns, and computes.
"""

from collections.abc import Mapping
from typing import Any


def open_outputs(graph: Any) -> dict[str, Any]:
    """Take the shapes of outputs away, and return them by name."""
    given = {each.name for each in graph.input}
    declared = {}
    for each in graph.output:
        tensor = each.type.tensor_type
        if each.type.HasField("tensor_type") and tensor.HasField("shape") and each.name not in given:
            declared[each.name] = type(tensor.shape).FromString(tensor.shape.SerializeToString())
            tensor.ClearField("shape")
    return declared


def close_outputs(graph: Any, declared: Mapping[str, Any]) -> bool:
    """Give outputs what was declared, where nothing else is known; whether there was such an output."""
    found = False
    for each in graph.output:
        told, tensor = declared.get(each.name), each.type.tensor_type
        if told is None:
            continue
        if not tensor.HasField("shape"):
            tensor.shape.CopyFrom(told)
            found = True
        elif len(tensor.shape.dim) == len(told.dim):
            for known, other in zip(tensor.shape.dim, told.dim, strict=True):
                if not known.HasField("dim_value") and other.HasField("dim_value"):
                    known.CopyFrom(other)
                    found = True
    return found
