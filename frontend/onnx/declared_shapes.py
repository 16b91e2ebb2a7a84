"""Declared shapes of a model's outputs, which are used only if shape inference gives none.

A model whose input has a dynamic batch often declares outputs with the old static one; onnxruntime only warns.
"""

from collections.abc import Mapping
from typing import Any


def clear_output_shapes(graph: Any) -> dict[str, Any]:
    """Remove the shapes of outputs, and return them by name."""
    given = {each.name for each in graph.input}
    declared = {}
    for each in graph.output:
        tensor = each.type.tensor_type
        if each.type.HasField("tensor_type") and tensor.HasField("shape") and each.name not in given:
            declared[each.name] = type(tensor.shape).FromString(tensor.shape.SerializeToString())
            tensor.ClearField("shape")
    return declared


def restore_output_shapes(graph: Any, declared: Mapping[str, Any]) -> bool:
    """Restore declared dimensions of outputs that inference does not determine; whether there was any."""
    found = False
    for each in graph.output:
        shape, tensor = declared.get(each.name), each.type.tensor_type
        if shape is None:
            continue
        if not tensor.HasField("shape"):
            tensor.shape.CopyFrom(shape)
            found = True
        elif len(tensor.shape.dim) == len(shape.dim):
            for known, other in zip(tensor.shape.dim, shape.dim, strict=True):
                if not known.HasField("dim_value") and other.HasField("dim_value"):
                    known.CopyFrom(other)
                    found = True
    return found
