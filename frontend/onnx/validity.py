"""Whether a model is valid: to ONNX's checker and shape inference, or else to onnxruntime, which is less strict.

Any model that onnxruntime runs is taken, so its word is the last.
"""

from collections.abc import Iterator
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.extra import extra
from lathe.frontend.onnx.host import host_takes

OFFICIAL = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.training")
"""Domains whose operators ONNX itself defines."""

LONGEST_LIST = 1 << 20
"""Of tensors of one dimension, in values: no shape is that long."""


def check_model(proto: Any, name: str) -> None:
    """Raises ModelError for a model of an opset that is not known, and for one that neither takes."""
    onnx = extra("onnx")
    newest = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": onnx.defs.onnx_ml_opset_version()}
    for each in proto.opset_import:
        domain = "" if each.domain == "ai.onnx" else each.domain
        if domain in newest and each.version > newest[domain]:
            raise ModelError(
                f"opset {each.version} of model {name!r} must be at most {newest[domain]}, the newest of domain "
                f"{domain or 'ai.onnx'!r} that package onnx knows. Install a newer one."
            )
    wrong = _what_is_wrong(onnx, proto)
    if wrong is None or host_takes(proto.SerializeToString()):
        return
    _check_operators(onnx, proto, name)
    raise ModelError(f"model {name!r} must be valid ONNX, and is not: {words_of(wrong)}.") from None


def _what_is_wrong(onnx: Any, proto: Any) -> Exception | None:
    """What ONNX's checker says, but for outputs of open shapes, which it does not want and shape inference finds."""
    open_ones = [each.type.tensor_type for each in proto.graph.output if each.type.HasField("tensor_type")]
    open_ones = [each for each in open_ones if not each.HasField("shape")]
    for each in open_ones:
        each.shape.SetInParent()
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        return error
    finally:
        for each in open_ones:
            each.ClearField("shape")
    return None


def with_shapes(proto: Any, name: str) -> Any:
    """The model with the shapes of all tensors that can be inferred.

    Raises ModelError where shapes disagree, and onnxruntime says so, too.
    """
    onnx = extra("onnx")
    errors = (onnx.shape_inference.InferenceError, RuntimeError, ValueError)
    values = values_may_be_known(proto)
    try:
        return onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=values)
    except errors as error:
        if not host_takes(proto.SerializeToString()):
            raise ModelError(f"shapes of model {name!r} must agree, and do not: {words_of(error)}.") from None
    for options in ({"data_prop": values}, {}):
        try:
            return onnx.shape_inference.infer_shapes(proto, **options)
        except errors:
            continue
    return proto


def values_may_be_known(proto: Any) -> bool:
    """Whether inference may follow values of shapes, for which it holds a number for each index of every list.

    A list of 2^40 values, which a model of a hundred bytes declares, would take all memory there is.
    """
    onnx = extra("onnx")
    try:
        graph = onnx.shape_inference.infer_shapes(proto).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        graph = proto.graph
    types = [each.type.tensor_type for each in (*graph.input, *graph.output, *graph.value_info)]
    lists = [each.shape.dim[0].dim_value for each in types if len(each.shape.dim) == 1]
    lists += [each.dims[0] for each in graph.initializer if len(each.dims) == 1]
    return max(lists, default=0) <= LONGEST_LIST


def _check_operators(onnx: Any, proto: Any, name: str) -> None:
    versions = {each.domain if each.domain != "ai.onnx" else "": each.version for each in proto.opset_import}
    own = {(each.domain, each.name) for each in proto.functions}
    for node in _nodes_of(proto.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in OFFICIAL or (node.domain, node.op_type) in own or domain not in versions:
            continue
        if not onnx.defs.has(node.op_type, versions[domain], domain):
            raise ModelError(
                f"operator of node {node.name or next(iter(node.output), '')!r} of model {name!r} must be one that "
                f"opset {versions[domain]} of domain {domain or 'ai.onnx'!r} has, not {node.op_type!r}."
            )


def _nodes_of(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for each in node.attribute:
            for body in (*([each.g] if each.HasField("g") else []), *each.graphs):
                yield from _nodes_of(body)


def words_of(error: Exception) -> str:
    """What an error of a library says, on one short line."""
    text = " ".join(str(error).replace("==> Context:", "Context:").split())
    return (text or type(error).__name__)[:250].rstrip(".: ")
