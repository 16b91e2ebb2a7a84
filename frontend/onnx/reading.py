"""A model of ONNX as it is compiled: checked, its shapes known, with its constants at hand.

Nothing outside of the model's folder is read, and nothing is allocated that the file does not hold: shapes are numbers
until somebody asks for the values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.errors import shown
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.extra import extra

Shape = tuple[int, ...]
DTYPES_OF_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
"""NumPy's names of ONNX's element types (onnx.proto, TensorProto.DataType)."""


@dataclass(frozen=True)
class TensorType:
    """Element type and shape of a tensor of a model."""

    dtype: str
    shape: Shape


@dataclass(eq=False)
class Model:
    """A model whose shapes are known; ``proto`` is its ModelProto."""

    proto: Any
    name: str
    types: dict[str, TensorType]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, Any]
    _constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def nodes(self) -> Sequence[Any]:
        """The nodes, in an order in which each comes behind what it reads."""
        found: Sequence[Any] = self.proto.graph.node
        return found

    def constant(self, name: str) -> NDArray[Any] | None:
        """The values of an initializer; None for any other tensor."""
        if name not in self._constants:
            if name not in self.initializers:
                return None
            self._constants[name] = extra("onnx.numpy_helper").to_array(self.initializers[name])
        return self._constants[name]


def read_model(source: object, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """The model of a file, or a ModelProto, with fixed shapes for its inputs.

    Raises ModelError for what is no model, damaged, of an opset that is not known, or has inputs of open shapes that
    ``shapes`` does not bind.
    """
    onnx = extra("onnx")
    proto, name = _loaded(onnx, source)
    try:
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise ModelError(f"model {name!r} must be valid ONNX, and is not: {_first_line(error)}.") from None
    newest = onnx.defs.onnx_opset_version()
    for each in proto.opset_import:
        if each.domain in ("", "ai.onnx") and each.version > newest:
            raise ModelError(
                f"opset of model {name!r} must be at most {newest}, the newest that package onnx knows, not "
                f"{each.version}. Install a newer one."
            )
    _bind(proto, name, shapes or {})
    try:
        proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError) as error:
        raise ModelError(f"shapes of model {name!r} must agree, and do not: {_first_line(error)}.") from None
    graph = proto.graph
    initializers = {each.name: each for each in graph.initializer}
    given = [each for each in graph.input if each.name not in initializers]
    types = {each.name: found for each in (*given, *graph.value_info, *graph.output) if (found := type_of(each))}
    for each in graph.initializer:
        types[each.name] = TensorType(DTYPES_OF_TYPES.get(each.data_type, "other"), tuple(each.dims))
    return Model(
        proto, name, types, tuple(each.name for each in given), tuple(each.name for each in graph.output), initializers
    )


def _loaded(onnx: Any, source: object) -> tuple[Any, str]:
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy, source.graph.name or "model"
    if not isinstance(source, str | PathLike):
        raise ModelError(f"source of from_onnx must be a path or a ModelProto, not {shown(source)}.")
    path = Path(source)
    if not path.is_file():
        raise ModelError(f"file of model must be one that there is, not {str(path)!r}.")
    try:
        return onnx.load(str(path)), path.name
    except Exception as error:  # parser and external data raise a dozen types
        raise ModelError(
            f"file {str(path)!r} must be an ONNX model, and cannot be read: {_first_line(error)}."
        ) from None


def _bind(proto: Any, name: str, shapes: Mapping[str, Sequence[int]]) -> None:
    initializers = {each.name for each in proto.graph.initializer}
    inputs = {each.name: each for each in proto.graph.input if each.name not in initializers}
    for given, shape in shapes.items():
        if given not in inputs:
            raise ModelError(f"shapes of model {name!r} must name inputs ({', '.join(inputs)}), not {given!r}.")
        dims = inputs[given].type.tensor_type.shape.dim
        fits = len(dims) == len(shape) and all(
            each.dim_value in (size, 0) or each.dim_value < 0 for each, size in zip(dims, shape, strict=True)
        )
        if not fits or any(not isinstance(size, int) or size < 1 for size in shape):
            raise ModelError(
                f"shape of input {given!r} of model {name!r} must fit {_shown_dims(dims)}, not {shown(list(shape))}."
            )
        for each, size in zip(dims, shape, strict=True):
            each.dim_value = size
    for each in inputs.values():
        dims = each.type.tensor_type.shape.dim
        if any(not dim.HasField("dim_value") or dim.dim_value < 1 for dim in dims):
            raise ModelError(
                f"shape of input {each.name!r} of model {name!r} must be known, not {_shown_dims(dims)}. Say it with "
                f"shapes={{{each.name!r}: [...]}}, or --shape {each.name}=... on the command line."
            )
    del proto.graph.value_info[:]  # of the open shapes, perhaps; they are found again
    for each in proto.graph.output:
        if any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in each.type.tensor_type.shape.dim):
            each.type.tensor_type.ClearField("shape")


def _shown_dims(dims: Sequence[Any]) -> str:
    return "[" + ", ".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in dims) + "]"


def type_of(info: Any) -> TensorType | None:
    """What a ValueInfoProto says of a tensor, if that is all."""
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    if any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    dtype = DTYPES_OF_TYPES.get(tensor.elem_type, "other")
    return TensorType(dtype, tuple(dim.dim_value for dim in tensor.shape.dim))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]


def attributes_of(node: Any) -> dict[str, Any]:
    """A node's attributes as Python's values; bytes as text."""
    helper = extra("onnx.helper")
    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


def scalar(values: NDArray[Any]) -> float:
    """The number that an array of one element holds."""
    return float(np.asarray(values).reshape(-1)[0])


def names_read(node: Any) -> list[str]:
    """The tensors that a node reads, those included that the bodies of its control flow take from around it."""
    found = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        bodies = [attribute.g, *attribute.graphs] if attribute.HasField("g") or attribute.graphs else []
        for body in bodies:
            own = {each.name for each in (*body.input, *body.initializer)}
            for inner in body.node:
                found |= dict.fromkeys(name for name in names_read(inner) if name not in own)
                own |= set(inner.output)
            found |= dict.fromkeys(each.name for each in body.output if each.name not in own)
    return list(found)


def part_of(model: Model, nodes: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """Some nodes as a model of their own (a ModelProto)."""
    onnx = extra("onnx")
    chosen = [model.nodes[number] for number in nodes]
    read = {name for node in chosen for name in names_read(node)}
    graph = onnx.helper.make_graph(
        chosen,
        "part",
        [_info(onnx, model, name) for name in inputs],
        [_info(onnx, model, name) for name in outputs],
        [each for name, each in model.initializers.items() if name in read],
    )
    made = onnx.helper.make_model(
        graph, opset_imports=list(model.proto.opset_import), ir_version=model.proto.ir_version
    )
    made.functions.extend(model.proto.functions)
    return made


def _info(onnx: Any, model: Model, name: str) -> Any:
    known = model.types.get(name)
    if known is None:
        return onnx.helper.make_empty_tensor_value_info(name)
    number = next(number for number, dtype in DTYPES_OF_TYPES.items() if dtype == known.dtype)
    return onnx.helper.make_tensor_value_info(name, number, known.shape)
