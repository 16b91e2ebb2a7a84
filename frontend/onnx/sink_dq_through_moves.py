"""Sink DequantizeLinear of constants through data movement, which is then folded into the constant.

Weights are matched if their producer is a DequantizeLinear, not a Transpose of one. With per-channel scales, the index
of each value's scale is moved as the constant is: if these indices then vary along a single dimension, it becomes the
axis of the scales; otherwise the nodes stay as they are.
"""

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.fold_constants import SMALL, evaluate
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import all_names, unique_name
from lathe.frontend.onnx.value_types import type_of

MOVED = frozenset(
    {
        "DepthToSpace", "Expand", "Flatten", "Gather", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
        "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose results are elements of their first input."""
_TYPES = (2, 3, 4, 5, 6)
"""Element types (TensorProto.DataType) of constants that are moved: integers of 8, 16 and 32 bits."""


def sink_dequantise(proto: Any) -> bool:
    """Sink DequantizeLinear of constants through data movement; whether there was any.

    Only through nodes whose other inputs are constants, and whose results are small or not larger than the constant.
    """
    graph = proto.graph
    rewriter = _Rewriter(proto)
    nodes: list[Any] = []
    for node in graph.node:
        nodes += rewriter.rewritten(node)
    if not rewriter.held:
        return False
    read = {name for node in nodes for name in names_read(node)} | {each.name for each in graph.output}
    live = [node for node in nodes if node.output[0] not in rewriter.moved or node.output[0] in read]
    copies = [type(node).FromString(node.SerializeToString()) for node in live]
    del graph.node[:]
    graph.node.extend(copies)
    graph.initializer.extend(rewriter.held.values())
    return True


@dataclass(eq=False)
class _Dequantised:
    """A dequantised constant: its node, its shape, and the index of each value's scale; None: a single scale."""

    node: Any
    shape: tuple[int, ...]
    indices: NDArray[np.int32] | None = None


@dataclass(eq=False)
class _Rewriter:
    proto: Any
    held: dict[str, Any] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    """Results of DequantizeLinear with moved consumers."""

    def __post_init__(self) -> None:
        graph = self.proto.graph
        self.taken = all_names(graph)
        self.constants = {each.name: each for each in graph.initializer}
        self.types = {each.name: found for each in (*graph.value_info, *graph.output) if (found := type_of(each))}
        self.dequantised: dict[str, _Dequantised] = {}

    def rewritten(self, node: Any) -> list[Any]:
        """The node, or if it moves a dequantised constant, a DequantizeLinear for each of its results."""
        if node.domain not in ("", "ai.onnx"):
            return [node]
        if node.op_type == "DequantizeLinear":
            found = self._dequantised(node)
            if found is not None:
                self.dequantised[node.output[0]] = found
        elif node.op_type in MOVED and node.input[0] in self.dequantised:
            return self._moved(node, self.dequantised[node.input[0]]) or [node]
        return [node]

    def _dequantised(self, node: Any) -> _Dequantised | None:
        source, scale, zero = (*node.input, "")[:3]
        attrs = {each.name: each.i for each in node.attribute}
        if any(name and name not in self.constants for name in (source, scale, zero)) or attrs.get("block_size", 0):
            return None
        if self.constants[source].data_type not in _TYPES:
            return None
        shape = tuple(self.constants[source].dims)
        counts = {prod(self.constants[name].dims) for name in (scale, zero) if name}
        if counts == {1}:
            return _Dequantised(node, shape)
        axis = attrs.get("axis", 1)
        if not -len(shape) <= axis < len(shape) or counts != {shape[axis]}:
            return None
        along = [-1 if n == axis % len(shape) else 1 for n in range(len(shape))]
        indices = np.broadcast_to(np.arange(shape[axis], dtype=np.int32).reshape(along), shape)
        return _Dequantised(node, shape, indices)

    def _moved(self, node: Any, data: _Dequantised) -> list[Any]:
        """The DequantizeLinear nodes that replace a node; none if it cannot be folded."""
        outputs = [name for name in node.output if name]
        if any(name and name not in self.constants for name in node.input[1:]):
            return []
        sizes = [prod(self.types[name].shape) if name in self.types else None for name in outputs]
        if not outputs or any(size is None or not 0 < size <= max(SMALL, prod(data.shape)) for size in sizes):
            return []
        values = self._results(node, self.constants[data.node.input[0]], outputs)
        scales: dict[str, _Scales | None] = dict.fromkeys(values, _ONE)
        if data.indices is not None:
            stored_indices = optional_import("onnx.numpy_helper").from_array(np.ascontiguousarray(data.indices))
            scales = {name: _scales_of(each) for name, each in self._results(node, stored_indices, outputs).items()}
        found = {name: each for name, each in scales.items() if each is not None and name in values}
        if len(found) < len(outputs):
            return []
        self.moved.add(data.node.output[0])
        return [self._node(node, data, name, values[name], each) for name, each in found.items()]

    def _results(self, node: Any, data: Any, outputs: list[str]) -> dict[str, NDArray[Any]]:
        """The results of a node with other data (a TensorProto), by their names; none if it fails."""
        copy, given = (type(each).FromString(each.SerializeToString()) for each in (node, data))
        copy.input[0] = given.name = unique_name(f"{node.input[0]}/data", self.taken)
        names = {name: unique_name(f"{name}/moved", self.taken) for name in outputs}
        for index, name in enumerate(node.output):
            copy.output[index] = names.get(name, "")
        others = [self.constants[name] for name in {*node.input[1:]} if name]
        made = evaluate(self.proto, [copy], [given, *others])
        return {name: np.asarray(made[inner]) for name, inner in names.items() if inner in made}

    def _node(self, node: Any, data: _Dequantised, output: str, values: NDArray[Any], scales: "_Scales") -> Any:
        """A DequantizeLinear of moved values and their scales."""
        made = type(data.node).FromString(data.node.SerializeToString())
        made.name, made.output[0] = f"{node.name or output}/dequantised", output
        made.input[0] = self._hold(f"{output}/held", values)
        indices = None
        if data.indices is not None:
            for index, name in enumerate(data.node.input[1:], 1):
                if name:
                    numbers = optional_import("onnx.numpy_helper").to_array(self.constants[name]).reshape(-1)
                    made.input[index] = self._hold(f"{output}/{_SUFFIXES[index]}", numbers[scales.indices])
            axis = [each for each in made.attribute if each.name == "axis"]
            for each in axis:
                made.attribute.remove(each)
            if scales.indices.ndim:
                made.attribute.append(optional_import("onnx.helper").make_attribute("axis", scales.axis))
                along = [-1 if n == scales.axis else 1 for n in range(values.ndim)]
                own = np.arange(len(scales.indices), dtype=np.int32)
                indices = np.broadcast_to(own.reshape(along), values.shape)
        self.dequantised[output] = _Dequantised(made, values.shape, indices)
        return made

    def _hold(self, name: str, values: NDArray[Any]) -> str:
        """Add a constant; its name."""
        own = unique_name(name, self.taken)
        self.held[own] = self.constants[own] = optional_import("onnx.numpy_helper").from_array(
            np.ascontiguousarray(values), own
        )
        return own


@dataclass(frozen=True, eq=False)
class _Scales:
    """The scales of moved values, as indices of the original ones: one for each index of ``axis``, or a single one."""

    indices: NDArray[np.int32]
    axis: int = 0


_ONE = _Scales(np.zeros((), np.int32))
_SUFFIXES = "", "scale", "zero"


def _scales_of(indices: NDArray[np.int32]) -> _Scales | None:
    """Scales of values from the index of each value's scale; None if these vary along several dimensions."""
    if np.all(indices == indices.flat[0]):
        return _Scales(indices.reshape(-1)[0])
    for axis in range(indices.ndim):
        whole = np.moveaxis(indices, axis, 0).reshape(indices.shape[axis], -1)
        if np.all(whole == whole[:, :1]):
            return _Scales(whole[:, 0], axis)
    return None
