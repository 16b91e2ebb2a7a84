"""Reading of ONNX models: checked, with static shapes and access to constants.

Only files in the model's folder are read. Nothing larger than the file is allocated: constants are decoded on access.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lathe.configs.errors import shown
from lathe.frontend.onnx.binding import bind_shapes
from lathe.frontend.onnx.check_model import check_model, words_of
from lathe.frontend.onnx.check_utf8 import check_texts
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.host_process import PROCESS
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.inline_limits import check_inlined_size
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.simplify import simplified
from lathe.frontend.onnx.tensor_data import load_external_data
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES, LEAST_IR, TensorType, type_of


@dataclass(eq=False)
class Model:
    """A model with static shapes; ``proto`` is its simplified ModelProto.

    ``infos`` has the ValueInfoProto of each input, output and intermediate value. ``original`` is the ModelProto before
    simplification.
    """

    proto: Any
    name: str
    types: dict[str, TensorType]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: Mapping[str, Any]
    infos: Mapping[str, Any] = field(default_factory=dict)
    original: Any = None
    _constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def nodes(self) -> Sequence[Any]:
        """The nodes in topological order."""
        found: Sequence[Any] = self.proto.graph.node
        return found

    def constant(self, name: str) -> NDArray[Any] | None:
        """The values of an initializer; None for any other tensor."""
        if name not in self._constants:
            if name not in self.initializers:
                return None
            self._constants[name] = optional_import("onnx.numpy_helper").to_array(self.initializers[name])
        return self._constants[name]


def read_model(source: object, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Read a model from a path or a ModelProto, with static shapes for its inputs.

    Raises ModelError for a source that is no model, is damaged, has an unknown opset, or has inputs with dynamic shapes
    that ``shapes`` does not bind.
    """
    onnx = optional_import("onnx")
    PROCESS.prepare()
    proto, name, folder = _loaded(onnx, source)
    check_texts(proto, name)
    load_external_data(proto, name, folder)
    check_inlined_size(proto, name)
    check_model(proto, name)
    bind_shapes(proto, name, shapes or {})
    proto = sort_nodes(proto)
    return _model(proto, simplified(proto, name), name)


def _model(original: Any, proto: Any, name: str) -> Model:
    graph = proto.graph
    initializers = {each.name: each for each in graph.initializer}
    given = [each for each in graph.input if each.name not in initializers]
    infos = {each.name: each for each in (*given, *graph.value_info, *graph.output)}
    types = {name: found for name, each in infos.items() if (found := type_of(each))}
    for each in graph.initializer:
        types[each.name] = TensorType(DTYPES_OF_TYPES.get(each.data_type, "other"), tuple(each.dims))
    inputs, outputs = (tuple(each.name for each in chosen) for chosen in (given, graph.output))
    return Model(proto, name, types, inputs, outputs, initializers, infos, original)


def _loaded(onnx: Any, source: object) -> tuple[Any, str, Path | None]:
    """A ModelProto, its name, and the folder of its external data."""
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy, source.graph.name or "model", None
    if not isinstance(source, str | PathLike):
        raise ModelError(f"source of from_onnx must be a path or a ModelProto, not {shown(source)}.")
    path = Path(source)
    if not isfile(path):  # a path may be too long for the system to ask
        raise ModelError(f"Cannot read model {str(path)!r}: there is no such file.")
    try:
        return onnx.load(str(path), load_external_data=False), path.name, path.parent
    except Exception as error:  # the parser raises a dozen types
        raise ModelError(f"Cannot read file {str(path)!r} as an ONNX model: {words_of(error)}.") from None


def sort_nodes(proto: Any) -> Any:
    """The model with its nodes in topological order; onnxruntime accepts any order."""
    nodes = proto.graph.node
    source = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    reads = {number: {source[name] for name in names_read(node) if name in source} for number, node in enumerate(nodes)}
    if all(each < number for number, before in reads.items() for each in before):
        return proto
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        node = nodes[error.args[1][0]]
        raise ModelError(f"node {node.name or node.output[0]!r} must not depend on its own outputs.") from None
    ordered = [deepcopy(nodes[number]) for number in order]
    del proto.graph.node[:]
    proto.graph.node.extend(ordered)
    return proto


def attributes_of(node: Any) -> dict[str, Any]:
    """A node's attributes as Python values; bytes are decoded, with replacement of invalid UTF-8."""
    helper = optional_import("onnx.helper")
    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {
        name: value.decode(errors="replace") if isinstance(value, bytes) else value for name, value in found.items()
    }


def submodel(model: Model, nodes: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """Some nodes as a separate model (a ModelProto)."""
    onnx = optional_import("onnx")
    chosen = [model.nodes[number] for number in nodes]
    names = {name for node in chosen for name in names_read(node)}
    graph = onnx.helper.make_graph(
        chosen,
        "part",
        [_info(onnx, model, name) for name in inputs],
        [_info(onnx, model, name) for name in outputs],
        [each for name, each in model.initializers.items() if name in names],
    )
    made = onnx.helper.make_model(
        graph, opset_imports=list(model.proto.opset_import), ir_version=max(model.proto.ir_version, LEAST_IR)
    )
    made.functions.extend(model.proto.functions)
    return made


def _info(onnx: Any, model: Model, name: str) -> Any:
    known = model.infos.get(name)
    if known is not None and known.type.WhichOneof("value"):
        return known
    found = model.types.get(name)
    if found is None:
        return onnx.helper.make_empty_tensor_value_info(name)
    number = next(number for number, dtype in DTYPES_OF_TYPES.items() if dtype == found.dtype)
    return onnx.helper.make_tensor_value_info(name, number, found.shape)
