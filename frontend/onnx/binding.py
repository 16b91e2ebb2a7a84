"""Binding of dynamic shapes of a model's inputs to static ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from lathe.configs.errors import shown
from lathe.frontend.onnx.errors import ModelError


def bind_shapes(proto: Any, name: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the shapes of a model's inputs; dimensions with the same name must have the same size.

    Raises ModelError for shapes that do not match, or of unknown inputs, and for inputs that stay dynamic.
    """
    initializers = {each.name for each in proto.graph.initializer}
    inputs = {each.name: each for each in proto.graph.input if each.name not in initializers}
    sizes: dict[str, int] = {}
    for given, shape in shapes.items():
        if given not in inputs:
            raise ModelError(f"shapes of model {name!r} must name inputs ({', '.join(inputs)}), not {given!r}.")
        _bind_one(inputs[given].type, shape, f"shape of input {given!r} of model {name!r}", sizes)
    for each in inputs.values():
        if not each.type.HasField("tensor_type"):
            continue
        tensor = each.type.tensor_type
        for dim in tensor.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
        if not tensor.HasField("shape") or any(_is_open(dim) for dim in tensor.shape.dim):
            raise ModelError(
                f"shape of input {each.name!r} of model {name!r} must be static, not {_shown_shape(tensor)}. Pass "
                f"shapes={{{each.name!r}: [...]}}, or --shape {each.name}=... on the command line."
            )
    del proto.graph.value_info[:]  # may have the dynamic shapes; inferred again later
    for each in proto.graph.output:
        if each.type.HasField("tensor_type") and any(
            not dim.HasField("dim_value") or dim.dim_value < 0 for dim in each.type.tensor_type.shape.dim
        ):
            each.type.tensor_type.ClearField("shape")


def _bind_one(kind: Any, shape: Sequence[int], what: str, sizes: dict[str, int]) -> None:
    if not kind.HasField("tensor_type"):
        raise ModelError(f"Cannot bind {what} to {shown(list(shape))}: this input is not a tensor. Omit its shape.")
    tensor = kind.tensor_type
    whole = all(isinstance(size, int) and 1 <= size < 1 << 63 for size in shape)  # ONNX's sizes are int64
    if whole and not tensor.HasField("shape"):
        for size in shape:
            tensor.shape.dim.add(dim_value=size)
        tensor.shape.SetInParent()
        return
    dims = tensor.shape.dim
    if (
        not whole
        or len(dims) != len(shape)
        or any(not _is_open(dim) and dim.dim_value != size for dim, size in zip(dims, shape, strict=True))
        or any(sizes.get(dim.dim_param, size) != size for dim, size in zip(dims, shape, strict=True) if dim.dim_param)
    ):
        raise ModelError(f"{what} must match {_shown_shape(tensor)}, not {shown(list(shape))}.")
    for dim, size in zip(dims, shape, strict=True):
        if dim.dim_param:
            sizes[dim.dim_param] = size
        dim.dim_value = size


def _is_open(dim: Any) -> bool:
    return not dim.HasField("dim_value") or dim.dim_value < 0


def _shown_shape(tensor: Any) -> str:
    if not tensor.HasField("shape"):
        return "of any rank"
    dims = tensor.shape.dim
    return "[" + ", ".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dims) + "]"
