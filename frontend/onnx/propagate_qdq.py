"""Q/DQ propagation through data movement, MaxPool, Relu and Clip, so that these run on 8-bit tensors.

An operator that only moves or selects values gives the same result on the quantised values. So a pair of QuantizeLinear
and DequantizeLinear is inserted between it and the operator that computes, which leaves results unchanged:

    DequantizeLinear · Transpose · MatMul      DequantizeLinear · Transpose · QuantizeLinear · DequantizeLinear · MatMul
    Conv · MaxPool · QuantizeLinear            Conv · QuantizeLinear · DequantizeLinear · MaxPool · QuantizeLinear

Then each operator is between such nodes, where layers are matched. This requires a single positive scale, and that
every byte is unchanged by DequantizeLinear and QuantizeLinear.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.data_movement import DATA_MOVEMENT, quantise_values
from lathe.frontend.onnx.match_clip import clip_bounds
from lathe.frontend.onnx.match_epilogue import match_epilogue
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.quant_graph import Quantisation
from lathe.frontend.onnx.reading import Model, attributes_of
from lathe.frontend.onnx.rename_values import unique_name
from lathe.frontend.onnx.rewritten_model import RewrittenModel
from lathe.frontend.onnx.tabulate_unary import ELEMENTWISE
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.value_types import TensorType
from lathe.frontend.onnx.windows import windows_of


@dataclass(frozen=True)
class _Grid:
    """A quantisation, and the names of its scale and zero point tensors."""

    quant: Quantisation
    scale: str = field(compare=False)
    zero: str = field(compare=False)


def propagate_qdq(view: RewrittenModel) -> RewrittenModel:
    """The model with QuantizeLinear and DequantizeLinear propagated through data movement."""
    writer = _Rewriter(view)
    writer.propagate_dequantise()
    writer.propagate_quantise()
    return writer.rewritten()


class _Rewriter:
    def __init__(self, view: RewrittenModel) -> None:
        self.view, self.model, self.values = view, view.model, Values(view.model)
        self.nodes = list(self.model.nodes)
        self.consumers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            for index, name in enumerate(node.input):
                self.consumers[name].append((number, index))
        self.taken = {*self.model.types, *self.values.producer}
        self.held: dict[str, Any] = {}
        self.types: dict[str, TensorType] = {}
        self.ways = {number: grid for number, node in enumerate(self.nodes) if (grid := self._grid(node)) is not None}
        """The quantisation of each QuantizeLinear and DequantizeLinear with a single constant scale."""
        self.grids: dict[str, _Grid] = {}
        self.inputs: dict[int, dict[int, str]] = defaultdict(dict)
        self.before: dict[int, list[Any]] = defaultdict(list)
        self.after: dict[int, list[Any]] = defaultdict(list)
        self.inner: set[str] = set()
        self.known_as: dict[str, str] = {}

    def rewritten(self) -> RewrittenModel:
        """The rewritten model; the original one if nothing was inserted."""
        nodes, origins = list[Any](), list[int]()
        for number, node in enumerate(self.nodes):
            new_nodes = [*self.before[number], self._with_inputs(node, self.inputs[number]), *self.after[number]]
            nodes += new_nodes
            origins += [self.view.origins[number]] * len(new_nodes)
        if len(nodes) == len(self.nodes):
            return self.view
        rewritten_view = self.view.with_nodes(nodes, origins, self.held, self.types)
        return RewrittenModel(
            rewritten_view.model, origins, self.view.inner | self.inner, {**self.view.known_as, **self.known_as}
        )

    def propagate_dequantise(self) -> None:
        """Propagate DequantizeLinear downwards: insert pairs after data movement, for consumers that need them."""
        for number, node in enumerate(self.nodes):
            if _is_plain(node, "DequantizeLinear"):
                if number in self.ways and self.values.dequantised_source(node.output[0]) is not None:
                    self.grids[node.output[0]] = self.ways[number]
                continue
            data = moved_inputs(node)
            if not data and clip_bounds(self.model, node) is not None:
                data = node.input[:1]
            grids = {self.grids.get(name) or self._grid_of_constant(name) for name in data}
            grid = grids.pop() if len(grids) == 1 and any(name in self.grids for name in data) else None
            outputs = [name for name in node.output if name]
            if grid is None or any(name not in self.model.types for name in outputs):
                continue
            if not self._is_closed(grid, node):
                continue
            for name in outputs:
                self.grids[name] = grid
                chosen = [each for each in self.consumers[name] if self._needs_dequantised(self.nodes[each[0]], node)]
                dequantised = self._add_pair(name, grid, self.after[number]) if chosen else ""
                for consumer, index in chosen:
                    self.inputs[consumer][index] = dequantised

    def propagate_quantise(self) -> None:
        """Propagate QuantizeLinear upwards: insert pairs before data movement, one for each consuming quantisation."""
        plans, ends = self._plans()
        versions: dict[tuple[str, _Grid], str] = {}

        def version(name: str, grid: _Grid) -> str:
            return versions.get((name, grid), name)

        for number, node in enumerate(self.nodes):
            data = moved_inputs(node)
            if number in plans and not data:  # Relu, Clip or QuantizeLinear
                own = version(node.input[0], plans[number][0])
                if own != node.input[0]:
                    self.inputs[number][0] = own
                continue
            outside = [
                name for name in dict.fromkeys(data)
                if name not in self.grids and name in ends and not self._is_constant(name)
            ]  # fmt: skip
            for count, grid in enumerate(plans.get(number, ()) if outside else ()):
                names = {name: version(name, grid) for name in outside}
                results = {name: self._add_pair(own, grid, self.before[number], name) for name, own in names.items()}
                own_inputs = {index: results[name] for index, name in enumerate(node.input) if name in results}
                if not count:
                    self.inputs[number] |= own_inputs
                    continue
                copy = self._with_inputs(node, {**self.inputs[number], **own_inputs})
                for index, name in enumerate(node.output):
                    if name:
                        copy.output[index] = versions[name, grid] = unique_name(f"{name}@{count}", self.taken)
                        self.types[copy.output[index]] = self.model.types[name]
                self.before[number].append(copy)

    def _plans(self) -> tuple[dict[int, tuple[_Grid, ...]], set[str]]:
        """The quantisations that each node's results go to, and the tensors that all consumers quantise."""
        demands: dict[str, list[tuple[_Grid, ...]]] = defaultdict(list)
        plans: dict[int, tuple[_Grid, ...]] = {}

        def demanded(name: str) -> tuple[_Grid, ...]:
            """The quantisations that all consumers apply to a tensor; none if a consumer needs floats."""
            known = demands[name]
            if len(known) != self.values.use_counts[name] or not all(known) or name not in self.model.types:
                return ()
            return tuple(dict.fromkeys(grid for each in known for grid in each))

        for number in reversed(range(len(self.nodes))):
            node = self.nodes[number]
            data, found = moved_inputs(node), tuple[_Grid, ...]()
            if _is_plain(node, "QuantizeLinear"):
                found = (self.ways[number],) if number in self.ways else ()
                data = node.input[:1]
            elif data:
                outputs = [name for name in node.output if self.values.use_counts[name]]
                ways = [demanded(name) for name in outputs]
                known = all(name in self.model.types and name not in self.model.initializers for name in data)
                found = tuple(dict.fromkeys(grid for each in ways for grid in each)) if known and all(ways) else ()
                if len(found) > 1 and not (node.op_type == "Split" and self._takes_filters(node)):
                    found = ()  # would compute the whole result once for each
            elif clip_bounds(self.model, node) is not None:
                found = demanded(node.output[0])
                found = found if len(found) == 1 else ()
                data = node.input[:1]
            if found:
                plans[number] = found
            for name in dict.fromkeys(data):
                demands[name].append(found)
        return plans, {name for name in demands if demanded(name)}

    def _takes_filters(self, node: Any) -> bool:
        """Whether a Split does not split a convolution or matmul, or only output channels of one without groups."""
        name, rank = node.input[0], len(self.model.types[node.input[0]].shape)
        while (found := self.values.node_of(name)) is not None and clip_bounds(self.model, found[1]) is not None:
            name = found[1].input[0]
        epilogue = match_epilogue(self.values, name)
        if epilogue is None:
            return True
        kind, attributes = epilogue.core.op_type, attributes_of(epilogue.core)
        weights = self.values.dequantised_constant(epilogue.core.input[1])
        if weights is None or kind == "ConvTranspose" or attributes.get("group", 1) != 1:
            return False
        along = attributes_of(node).get("axis", 0) % rank
        return along == 1 if kind == "Conv" else along == rank - 1 and weights.values.ndim == 2

    def _grid(self, node: Any) -> _Grid | None:
        """The quantisation of a QuantizeLinear or DequantizeLinear, if every byte survives the round trip."""
        if not any(_is_plain(node, kind) for kind in ("QuantizeLinear", "DequantizeLinear")):
            return None
        quant = self.values.quantisation(node)
        if quant is None or not np.array_equal(quantise_values(_numbers(quant), quant), _all_bytes(quant)):
            return None
        zero = node.input[2] if len(node.input) > 2 else ""
        return _Grid(quant, node.input[1], zero or self._zero(quant))

    def _zero(self, quant: Quantisation) -> str:
        """A zero point for nodes without one: it determines the result type of QuantizeLinear."""
        name = f"zero@{quant.dtype}"
        if name not in self.held:
            self.held[name] = optional_import("onnx.numpy_helper").from_array(np.zeros((), quant.dtype), name)
            self.types[name] = TensorType(quant.dtype, ())
        return name

    def _add_pair(self, tensor: str, grid: _Grid, nodes: list[Any], known_as: str = "") -> str:
        """Append a QuantizeLinear and DequantizeLinear pair of a tensor to ``nodes``; the name of its result."""
        known = self.types.get(tensor) or self.model.types[tensor]
        byte_name, float_name = (unique_name(f"{tensor}@{part}", self.taken) for part in ("bytes", "again"))
        make = optional_import("onnx.helper").make_node
        nodes.append(make("QuantizeLinear", [tensor, grid.scale, grid.zero], [byte_name]))
        nodes.append(make("DequantizeLinear", [byte_name, grid.scale, grid.zero], [float_name]))
        self.types |= {byte_name: TensorType(grid.quant.dtype, known.shape), float_name: known}
        self.inner.add(byte_name)
        self.known_as[float_name] = known_as or tensor
        return float_name

    def _with_inputs(self, node: Any, names: Mapping[int, str]) -> Any:
        """The node, or a copy of it with other inputs."""
        if not names:
            return node
        copy = type(node).FromString(node.SerializeToString())
        for index, name in names.items():
            copy.input[index] = name
        return copy

    def _needs_dequantised(self, consumer: Any, node: Any) -> bool:
        """Whether a consumer of a node's result matches as a layer only if that is a DequantizeLinear's result."""
        if self._ends_in_bytes(consumer):
            return False
        if not moved_inputs(node) and consumer.op_type in ELEMENTWISE:  # a table includes the Relu or Clip
            return len([name for name in consumer.input if name and not self._is_constant(name)]) > 1
        return True

    def _ends_in_bytes(self, node: Any) -> bool:
        """Whether a node is QuantizeLinear, or a chain of Relu and Clip up to one."""
        while clip_bounds(self.model, node) is not None:
            consumers = self.consumers[node.output[0]]
            if len(consumers) != 1 or self.values.use_counts[node.output[0]] != 1:
                return False
            node = self.nodes[consumers[0][0]]
        return _is_plain(node, "QuantizeLinear")

    def _is_constant(self, name: str) -> bool:
        found = self.values.node_of(name, "DequantizeLinear")
        return (name if found is None else found[1].input[0]) in self.model.initializers

    def _grid_of_constant(self, name: str) -> _Grid | None:
        """The quantisation of a dequantised constant; None for any other tensor."""
        found = self.values.node_of(name, "DequantizeLinear")
        return self.ways.get(found[0]) if found is not None and self._is_constant(name) else None

    def _is_closed(self, grid: _Grid, node: Any) -> bool:
        """Whether a node maps representable numbers of a quantisation to representable ones."""
        limits = clip_bounds(self.model, node)
        if limits is not None:
            numbers = _numbers(grid.quant)
            return bool(np.isin(np.clip(numbers, *np.array(limits, np.float32)), numbers).all())
        if node.op_type == "Pad":
            added = _padding_value(self.model, node)
            return added is not None and bool(np.isin(added, _numbers(grid.quant)).all())
        return node.op_type != "MaxPool" or _has_full_windows(self.model, node)


def _is_plain(node: Any, kind: str) -> bool:
    return bool(node.op_type == kind and node.domain in ("", "ai.onnx"))


def moved_inputs(node: Any) -> Sequence[str]:
    """The inputs whose values a node moves or selects; none if it computes."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in (*DATA_MOVEMENT, "MaxPool"):
        return ()
    if node.op_type == "MaxPool" and len(node.output) > 1 and node.output[1]:
        return ()
    if node.op_type in ("Resize", "Upsample"):
        attributes = attributes_of(node)
        outside = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        if attributes.get("mode", "nearest") != "nearest" or outside:
            return ()
    return list(node.input) if node.op_type == "Concat" else list(node.input[:1])


def _padding_value(model: Model, node: Any) -> NDArray[Any] | None:
    """The padding value; 0, which is always representable, for modes that repeat data; None if it is computed."""
    attributes = attributes_of(node)
    if attributes.get("mode", "constant") != "constant":
        return np.zeros(1, np.float32)
    if len(node.input) > 2 and node.input[2]:
        return model.constant(node.input[2])
    return np.full(1, attributes.get("value", 0.0), np.float32)


def _has_full_windows(model: Model, node: Any) -> bool:
    """Whether no window of a MaxPool is only padding, which gives -inf."""
    data, made = (model.types.get(name) for name in (node.input[0], node.output[0]))
    attributes = attributes_of(node)
    if data is None or made is None:
        return False
    try:
        windows = windows_of(attributes, data.shape, attributes["kernel_shape"])
    except NotOffloadable:
        return False
    for axis, count in enumerate((1, *made.shape[2:])[-2:]):
        first = np.arange(count)[:, np.newaxis] * windows.strides[axis] - windows.pads[axis]
        taps = first + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        if not np.all(np.any((taps >= 0) & (taps < windows.sizes[axis]), axis=1)):
            return False
    return True


def _all_bytes(quant: Quantisation) -> NDArray[Any]:
    limits = np.iinfo(quant.dtype)
    return np.arange(limits.min, limits.max + 1)


def _numbers(quant: Quantisation) -> NDArray[np.float32]:
    """All numbers that DequantizeLinear can give."""
    with np.errstate(over="ignore"):
        reals: NDArray[np.float32] = (_all_bytes(quant) - quant.zero_point).astype(np.float32) * np.float32(quant.scale)
    return reals
