"""Validation of models by ONNX's checker and shape inference; models that onnxruntime accepts are always valid."""

from collections.abc import Iterator
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.run_host_nodes import host_takes
from lathe.frontend.onnx.shapes import inferred

OFFICIAL = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.training")
"""Domains whose operators ONNX itself defines."""


def check_model(proto: Any, name: str) -> None:
    """Raise ModelError for an unknown opset, and for a model that both ONNX's checker and onnxruntime refuse."""
    onnx = optional_import("onnx")
    newest = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": onnx.defs.onnx_ml_opset_version()}
    for each in proto.opset_import:
        domain = "" if each.domain == "ai.onnx" else each.domain
        if domain in newest and each.version > newest[domain]:
            raise ModelError(
                f"opset {each.version} of model {name!r} must be at most {newest[domain]}, the newest that package "
                f"onnx has for domain {domain or 'ai.onnx'!r}. Install a newer version of onnx."
            )
    wrong = _what_is_wrong(onnx, proto)
    if wrong is None or host_takes(proto.SerializeToString()):
        return
    _check_operators(onnx, proto, name)
    raise ModelError(f"model {name!r} is not valid ONNX: {words_of(wrong)}.") from None


def _what_is_wrong(onnx: Any, proto: Any) -> Exception | None:
    """The error of ONNX's checker; outputs without shapes, which it refuses, are allowed, as shapes are inferred."""
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
    """The model with inferred shapes. Raises ModelError if inference fails and onnxruntime refuses the model, too."""
    found, wrong = inferred(proto, name, strict=True)
    if not wrong:
        return found
    if not host_takes(proto.SerializeToString()):
        raise ModelError(f"shapes of model {name!r} are inconsistent: {in_short(wrong)}.")
    return inferred(proto, name, strict=False)[0]


def _check_operators(onnx: Any, proto: Any, name: str) -> None:
    versions = {each.domain if each.domain != "ai.onnx" else "": each.version for each in proto.opset_import}
    own = {(each.domain, each.name) for each in proto.functions}
    for node in _nodes_of(proto.graph):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in OFFICIAL or (node.domain, node.op_type) in own or domain not in versions:
            continue
        if not onnx.defs.has(node.op_type, versions[domain], domain):
            raise ModelError(
                f"operator of node {node.name or next(iter(node.output), '')!r} of model {name!r} must be defined in "
                f"opset {versions[domain]} of domain {domain or 'ai.onnx'!r}, unlike {node.op_type!r}."
            )


def _nodes_of(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for each in node.attribute:
            for body in (*([each.g] if each.HasField("g") else []), *each.graphs):
                yield from _nodes_of(body)


def words_of(error: Exception) -> str:
    """The message of a library's error, on one short line."""
    return in_short(str(error)) or type(error).__name__


def in_short(text: str) -> str:
    """A library's message, on one short line."""
    return " ".join(text.replace("==> Context:", "Context:").split())[:250].rstrip(".: ")
