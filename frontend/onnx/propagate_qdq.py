"""Moves between a DequantizeLinear and an operator, or between that and its QuantizeLinear: done in 8 bits.

What moves numbers and changes none, or takes the greatest of some, may do it before they are numbers, or when they are
none any longer. So QuantizeLinear and DequantizeLinear are written between it and the operator, which change nothing:

    DequantizeLinear · Transpose · MatMul      DequantizeLinear · Transpose · QuantizeLinear · DequantizeLinear · MatMul
    Conv · MaxPool · QuantizeLinear            Conv · QuantizeLinear · DequantizeLinear · MaxPool · QuantizeLinear

Then each is between such nodes, where layers are looked for. Both hold for a single scale, which is positive, and where
bytes survive DequantizeLinear and QuantizeLinear.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.data_movement import MOVES, quantised
from lathe.frontend.onnx.match_clip import limits_of
from lathe.frontend.onnx.match_epilogue import after_product
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.quant_graph import Quantisation
from lathe.frontend.onnx.reading import Model, attributes_of
from lathe.frontend.onnx.rename_values import fresh
from lathe.frontend.onnx.rewritten_model import RewrittenModel
from lathe.frontend.onnx.tabulate_unary import ELEMENTWISE
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.value_types import TensorType
from lathe.frontend.onnx.windows import windows_of


@dataclass(frozen=True)
class _Grid:
    """How bytes stand for numbers, and the names of scale and zero point."""

    how: Quantisation
    scale: str = field(compare=False)
    zero: str = field(compare=False)


def with_moves_in_bytes(view: RewrittenModel) -> RewrittenModel:
    """The view with QuantizeLinear and DequantizeLinear behind and before moves; itself where there are none."""
    writer = _Writer(view)
    writer.write_behind()
    writer.write_before()
    return writer.written()


class _Writer:
    def __init__(self, view: RewrittenModel) -> None:
        self.view, self.model, self.values = view, view.model, Values(view.model)
        self.nodes = list(self.model.nodes)
        self.readers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            for place, name in enumerate(node.input):
                self.readers[name].append((number, place))
        self.taken = {*self.model.types, *self.values.producer}
        self.held: dict[str, Any] = {}
        self.types: dict[str, TensorType] = {}
        self.ways = {number: grid for number, node in enumerate(self.nodes) if (grid := self._grid(node)) is not None}
        """How each QuantizeLinear and DequantizeLinear reads bytes, of those that have a single constant scale."""
        self.grids: dict[str, _Grid] = {}
        self.inputs: dict[int, dict[int, str]] = defaultdict(dict)
        self.before: dict[int, list[Any]] = defaultdict(list)
        self.behind: dict[int, list[Any]] = defaultdict(list)
        self.inner: set[str] = set()
        self.known_as: dict[str, str] = {}

    def written(self) -> RewrittenModel:
        """The view with what has been written."""
        nodes, origins = list[Any](), list[int]()
        for number, node in enumerate(self.nodes):
            made = [*self.before[number], self._with_inputs(node, self.inputs[number]), *self.behind[number]]
            nodes += made
            origins += [self.view.origins[number]] * len(made)
        if len(nodes) == len(self.nodes):
            return self.view
        made_view = self.view.with_nodes(nodes, origins, self.held, self.types)
        return RewrittenModel(
            made_view.model, origins, self.view.inner | self.inner, {**self.view.known_as, **self.known_as}
        )

    def write_behind(self) -> None:
        """Behind what moves dequantised bytes, for those of its readers that want them dequantised."""
        for number, node in enumerate(self.nodes):
            if _is_plain(node, "DequantizeLinear"):
                if number in self.ways and self.values.bytes_behind(node.output[0]) is not None:
                    self.grids[node.output[0]] = self.ways[number]
                continue
            data = data_of(node)
            if not data and limits_of(self.model, node) is not None:
                data = node.input[:1]
            grids = {self.grids.get(name) or self._grid_of_constant(name) for name in data}
            grid = grids.pop() if len(grids) == 1 and any(name in self.grids for name in data) else None
            outputs = [name for name in node.output if name]
            if grid is None or any(name not in self.model.types for name in outputs):
                continue
            if not self._stays_on(grid, node):
                continue
            for name in outputs:
                self.grids[name] = grid
                wanted = [each for each in self.readers[name] if self._wants_bytes(self.nodes[each[0]], node)]
                again = self._again(name, grid, self.behind[number]) if wanted else ""
                for reader, place in wanted:
                    self.inputs[reader][place] = again

    def write_before(self) -> None:
        """Before what moves the results of operators to QuantizeLinear; once for each way in which they are read."""
        plans, ends = self._plans()
        versions: dict[tuple[str, _Grid], str] = {}

        def version(name: str, grid: _Grid) -> str:
            return versions.get((name, grid), name)

        for number, node in enumerate(self.nodes):
            data = data_of(node)
            if number in plans and not data:  # a rectifier, a clip or QuantizeLinear
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
                again = {name: self._again(own, grid, self.before[number], name) for name, own in names.items()}
                own_inputs = {place: again[name] for place, name in enumerate(node.input) if name in again}
                if not count:
                    self.inputs[number] |= own_inputs
                    continue
                copy = self._with_inputs(node, {**self.inputs[number], **own_inputs})
                for place, name in enumerate(node.output):
                    if name:
                        copy.output[place] = versions[name, grid] = fresh(f"{name}@{count}", self.taken)
                        self.types[copy.output[place]] = self.model.types[name]
                self.before[number].append(copy)

    def _plans(self) -> tuple[dict[int, tuple[_Grid, ...]], set[str]]:
        """In which ways nodes read or move numbers to QuantizeLinear; and which tensors have no other readers."""
        demands: dict[str, list[tuple[_Grid, ...]]] = defaultdict(list)
        plans: dict[int, tuple[_Grid, ...]] = {}

        def wanted(name: str) -> tuple[_Grid, ...]:
            """Ways in which all readers want a tensor; none where one wants numbers."""
            known = demands[name]
            if len(known) != self.values.readers[name] or not all(known) or name not in self.model.types:
                return ()
            return tuple(dict.fromkeys(grid for each in known for grid in each))

        for number in reversed(range(len(self.nodes))):
            node = self.nodes[number]
            data, found = data_of(node), tuple[_Grid, ...]()
            if _is_plain(node, "QuantizeLinear"):
                found = (self.ways[number],) if number in self.ways else ()
                data = node.input[:1]
            elif data:
                outputs = [name for name in node.output if self.values.readers[name]]
                ways = [wanted(name) for name in outputs]
                known = all(name in self.model.types and name not in self.model.initializers for name in data)
                found = tuple(dict.fromkeys(grid for each in ways for grid in each)) if known and all(ways) else ()
                if len(found) > 1 and not (node.op_type == "Split" and self._takes_filters(node)):
                    found = ()  # products would be made whole for each way, and not the part that is read
            elif limits_of(self.model, node) is not None:
                found = wanted(node.output[0])
                found = found if len(found) == 1 else ()
                data = node.input[:1]
            if found:
                plans[number] = found
            for name in dict.fromkeys(data):
                demands[name].append(found)
        return plans, {name for name in demands if wanted(name)}

    def _takes_filters(self, node: Any) -> bool:
        """Whether a Split takes no product apart, or filters of one that has them in one group."""
        name, rank = node.input[0], len(self.model.types[node.input[0]].shape)
        while (found := self.values.node_of(name)) is not None and limits_of(self.model, found[1]) is not None:
            name = found[1].input[0]
        after = after_product(self.values, name)
        if after is None:
            return True
        kind, attributes = after.core.op_type, attributes_of(after.core)
        weights = self.values.constant_behind(after.core.input[1])
        if weights is None or kind == "ConvTranspose" or attributes.get("group", 1) != 1:
            return False
        along = attributes_of(node).get("axis", 0) % rank
        return along == 1 if kind == "Conv" else along == rank - 1 and weights.values.ndim == 2

    def _grid(self, node: Any) -> _Grid | None:
        """How a QuantizeLinear or DequantizeLinear reads bytes, if they survive both; None of any other node."""
        if not any(_is_plain(node, kind) for kind in ("QuantizeLinear", "DequantizeLinear")):
            return None
        how = self.values.quantisation(node)
        if how is None or not np.array_equal(quantised(_numbers(how), how), _all_bytes(how)):
            return None
        zero = node.input[2] if len(node.input) > 2 else ""
        return _Grid(how, node.input[1], zero or self._zero(how))

    def _zero(self, how: Quantisation) -> str:
        """A zero point where a node has none: QuantizeLinear has to say which bytes it makes."""
        name = f"zero@{how.dtype}"
        if name not in self.held:
            self.held[name] = extra("onnx.numpy_helper").from_array(np.zeros((), how.dtype), name)
            self.types[name] = TensorType(how.dtype, ())
        return name

    def _again(self, tensor: str, grid: _Grid, nodes: list[Any], known_as: str = "") -> str:
        """The tensor brought to bytes and back by two more ``nodes``."""
        known = self.types.get(tensor) or self.model.types[tensor]
        inside, again = (fresh(f"{tensor}@{part}", self.taken) for part in ("bytes", "again"))
        make = extra("onnx.helper").make_node
        nodes.append(make("QuantizeLinear", [tensor, grid.scale, grid.zero], [inside]))
        nodes.append(make("DequantizeLinear", [inside, grid.scale, grid.zero], [again]))
        self.types |= {inside: TensorType(grid.how.dtype, known.shape), again: known}
        self.inner.add(inside)
        self.known_as[again] = known_as or tensor
        return again

    def _with_inputs(self, node: Any, names: Mapping[int, str]) -> Any:
        """The node with other inputs; the model's own stays as it is."""
        if not names:
            return node
        copy = type(node).FromString(node.SerializeToString())
        for place, name in names.items():
            copy.input[place] = name
        return copy

    def _wants_bytes(self, reader: Any, node: Any) -> bool:
        """Whether a reader of what a node moves finds it where it looks only if that is dequantised."""
        if self._ends_in_bytes(reader):
            return False
        if not data_of(node) and reader.op_type in ELEMENTWISE:  # functions of a rectifier are such of its data
            return len([name for name in reader.input if name and not self._is_constant(name)]) > 1
        return True

    def _ends_in_bytes(self, node: Any) -> bool:
        """Whether a node is QuantizeLinear, or sets limits to what others such as it read."""
        while limits_of(self.model, node) is not None:
            readers = self.readers[node.output[0]]
            if len(readers) != 1 or self.values.readers[node.output[0]] != 1:
                return False
            node = self.nodes[readers[0][0]]
        return _is_plain(node, "QuantizeLinear")

    def _is_constant(self, name: str) -> bool:
        found = self.values.node_of(name, "DequantizeLinear")
        return (name if found is None else found[1].input[0]) in self.model.initializers

    def _grid_of_constant(self, name: str) -> _Grid | None:
        """How bytes of a dequantised constant stand for numbers; None of any other tensor."""
        found = self.values.node_of(name, "DequantizeLinear")
        return self.ways.get(found[0]) if found is not None and self._is_constant(name) else None

    def _stays_on(self, grid: _Grid, node: Any) -> bool:
        """Whether a node makes only numbers that bytes stand for, of such."""
        limits = limits_of(self.model, node)
        if limits is not None:
            numbers = _numbers(grid.how)
            return bool(np.isin(np.clip(numbers, *np.array(limits, np.float32)), numbers).all())
        if node.op_type == "Pad":
            added = _added(self.model, node)
            return added is not None and bool(np.isin(added, _numbers(grid.how)).all())
        return node.op_type != "MaxPool" or _has_full_windows(self.model, node)


def _is_plain(node: Any, kind: str) -> bool:
    return bool(node.op_type == kind and node.domain in ("", "ai.onnx"))


def data_of(node: Any) -> Sequence[str]:
    """What a node moves, or takes the greatest of; nothing if it computes anything else."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in (*MOVES, "MaxPool"):
        return ()
    if node.op_type == "MaxPool" and len(node.output) > 1 and node.output[1]:
        return ()
    if node.op_type in ("Resize", "Upsample"):
        attributes = attributes_of(node)
        outside = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        if attributes.get("mode", "nearest") != "nearest" or outside:
            return ()
    return list(node.input) if node.op_type == "Concat" else list(node.input[:1])


def _added(model: Model, node: Any) -> NDArray[Any] | None:
    """The number that a Pad adds; one that bytes always have where it adds others of its data; None: it is computed."""
    attributes = attributes_of(node)
    if attributes.get("mode", "constant") != "constant":
        return np.zeros(1, np.float32)
    if len(node.input) > 2 and node.input[2]:
        return model.constant(node.input[2])
    return np.full(1, attributes.get("value", 0.0), np.float32)


def _has_full_windows(model: Model, node: Any) -> bool:
    """Whether each window of a pool has a value of the image: of none, the greatest is less than any byte's number."""
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


def _all_bytes(how: Quantisation) -> NDArray[Any]:
    limits = np.iinfo(how.dtype)
    return np.arange(limits.min, limits.max + 1)


def _numbers(how: Quantisation) -> NDArray[np.float32]:
    """What DequantizeLinear makes of all bytes."""
    with np.errstate(over="ignore"):
        numbers: NDArray[np.float32] = (_all_bytes(how) - how.zero_point).astype(np.float32) * np.float32(how.scale)
    return numbers
