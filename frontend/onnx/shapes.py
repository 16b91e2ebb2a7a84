"""Shape inference in the host worker process, which gets no values of large constants."""

from pathlib import Path
from typing import Any

from lathe.frontend.onnx import inference
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.worker_tasks import TaskError, run_task

MOST_VALUES = 4096
"""The largest number of values of a constant that shapes may depend on."""


def inferred(proto: Any, name: str, *, strict: bool) -> tuple[Any, str]:
    """The model with inferred shapes, and an error message, which is empty unless ``strict`` inference fails.

    Raises ModelError if inference exceeds the memory or time limit.
    """
    what = f"shape inference of model {name!r}"
    bare = _without_values(proto)
    try:
        made, wrong = run_task(
            Path(inference.__file__), "inferred", what, model=bare.SerializeToString(), strict=strict
        )
    except TaskError as error:
        raise ModelError(f"{what} failed: {error}.") from None
    if wrong:
        return proto, wrong
    found = type(proto).FromString(made)
    del found.graph.input[len(proto.graph.input) :]
    del found.graph.initializer[:]
    found.graph.initializer.extend(proto.graph.initializer)
    return found, ""


def _without_values(proto: Any) -> Any:
    """The model with inputs instead of its large constants."""
    onnx = optional_import("onnx")
    graph = proto.graph
    large = [each for each in graph.initializer if _count(each) > MOST_VALUES]
    if not large:
        return proto
    names, given = {each.name for each in large}, {each.name for each in graph.input}
    bare = type(proto)(ir_version=proto.ir_version)
    bare.opset_import.extend(proto.opset_import)
    bare.functions.extend(proto.functions)
    bare.graph.name = graph.name
    for field in ("node", "input", "output", "value_info", "sparse_initializer", "quantization_annotation"):
        getattr(bare.graph, field).extend(getattr(graph, field))
    bare.graph.initializer.extend(each for each in graph.initializer if each.name not in names)
    bare.graph.input.extend(
        onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        for each in large
        if each.name not in given
    )
    return bare


def _count(tensor: Any) -> int:
    count = 1
    for extent in tensor.dims:
        count *= extent
    return count
