"""ONNX's shape inference, as the host worker process runs it on serialised models.

A malicious model can double a list node by node until no memory holds it, so inference runs within the worker's memory
and time limits. The worker loads this file alone, so it must not import Lathe.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

LONGEST_LIST = 1 << 20
"""The longest 1-D tensor whose values inference may track: no shape is that long."""


def inferred(model: bytes, strict: bool) -> tuple[bytes, str]:
    """The model with inferred shapes, and an error message, which is empty unless ``strict`` inference fails.

    Without ``strict``, shapes that cannot be inferred are missing.
    """
    onnx: Any = import_module("onnx")
    errors = (onnx.shape_inference.InferenceError, RuntimeError, ValueError)
    values = _values_may_be_known(onnx, model, errors)
    if strict:
        try:
            return _infer(onnx, model, strict_mode=True, data_prop=values).SerializeToString(), ""
        except errors as error:
            return b"", str(error) or type(error).__name__
    for options in ({"data_prop": values}, {}):
        try:
            return _infer(onnx, model, **options).SerializeToString(), ""
        except errors:
            continue
    return model, ""


def _infer(onnx: Any, model: bytes, **options: bool) -> Any:
    return onnx.shape_inference.infer_shapes(bytes(model), **options)


def _values_may_be_known(onnx: Any, model: bytes, errors: tuple[type[Exception], ...]) -> bool:
    """Whether inference may track the values of 1-D tensors, each of which it stores.

    A model of a hundred bytes can declare a tensor of 2^40 values, which no memory holds.
    """
    try:
        graph = _infer(onnx, model).graph
    except errors:
        graph = onnx.load_model_from_string(model).graph
    return max(_lengths(graph), default=0) <= LONGEST_LIST


def _lengths(graph: Any) -> Iterator[int]:
    """The lengths of the 1-D tensors of a graph and its bodies."""
    types = (each.type.tensor_type for each in (*graph.input, *graph.output, *graph.value_info))
    yield from (each.shape.dim[0].dim_value for each in types if len(each.shape.dim) == 1)
    yield from (each.dims[0] for each in graph.initializer if len(each.dims) == 1)
    for node in graph.node:
        for each in node.attribute:
            for body in (*([each.g] if each.HasField("g") else []), *each.graphs):
                yield from _lengths(body)
