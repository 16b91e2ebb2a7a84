"""ONNX's shape inference as the host's process runs it: models come and go serialised.

It follows what a model's file tells it to: lists that are doubled node by node have more values than any memory holds.
So it runs where memory and time have limits, and this file has nothing of Lathe: the process loads it alone.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

LONGEST_LIST = 1 << 20
"""Of tensors of one dimension, in values: no shape is that long."""


def inferred(model: bytes, strict: bool) -> tuple[bytes, str]:
    """The model with all shapes that can be inferred, and what is wrong with it, if ``strict``; empty: it is not.

    Not ``strict``, what cannot be inferred is left out.
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
    """Whether inference may follow values of shapes, for which it holds a number for each index of every list.

    A list of 2^40 values, which a model of a hundred bytes declares, would take all memory there is.
    """
    try:
        graph = _infer(onnx, model).graph
    except errors:
        graph = onnx.load_model_from_string(model).graph
    return max(_lengths(graph), default=0) <= LONGEST_LIST


def _lengths(graph: Any) -> Iterator[int]:
    """Of the tensors of one dimension of a graph, and of the bodies in it, the values."""
    types = (each.type.tensor_type for each in (*graph.input, *graph.output, *graph.value_info))
    yield from (each.shape.dim[0].dim_value for each in types if len(each.shape.dim) == 1)
    yield from (each.dims[0] for each in graph.initializer if len(each.dims) == 1)
    for node in graph.node:
        for each in node.attribute:
            for body in (*([each.g] if each.HasField("g") else []), *each.graphs):
                yield from _lengths(body)
