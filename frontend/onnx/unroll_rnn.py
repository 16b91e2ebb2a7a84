"""Unrolling of LSTM, GRU and RNN with a static number of time steps, so that the quantiser quantises their matmuls.

The input's Gemm is computed once for all time steps, and each time step adds the Gemm of the state
(``recurrent_cells.py``). Results are those of the node, except for the order of float additions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.reading import Model, attributes_of
from lathe.frontend.onnx.recurrent_cells import CELLS, Direction, NodeList, Shared, State, input_bias
from lathe.frontend.onnx.unsupported import NotOffloadable

MOST_STEPS = 256
"""Longer sequences are not unrolled: each time step is a dozen nodes."""
ACTIVATIONS = {each.lower(): each for each in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")}
"""Activations without parameters, by name in lower case: ONNX ignores the case."""
MOVES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that only change the shape."""
RECURRENT = tuple(CELLS)
OLDEST_OPSET = 13
"""The first opset whose Split takes its sizes as a tensor."""


Flat = dict[str, tuple[str, tuple[int, ...]]]
"""For each tensor that is a reshaped 2-D tensor: the name and shape of that tensor."""


@dataclass(frozen=True)
class Unrolled:
    """A ModelProto with recurrent nodes unrolled, and the reasons why others are not, by node name."""

    proto: Any
    not_unrolled: Mapping[str, str]


def unrolled(model: Model) -> Unrolled:
    """Unroll the recurrent nodes of a model, except in bodies of control flow."""
    onnx = optional_import("onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.node[:]
    stayed: dict[str, str] = {}
    flat: Flat = {}
    for node in model.nodes:
        if node.op_type in CELLS and node.domain in ("", "ai.onnx"):
            try:
                made = _Recurrent(model, node).unrolled(flat)
            except NotOffloadable as reason:
                stayed[node.name or next(filter(None, node.output))] = str(reason)
            else:
                proto.graph.node.extend(made.nodes)
                proto.graph.initializer.extend(made.held)
                continue
        proto.graph.node.append(_with_flat_source(model, node, flat, proto.graph.initializer))
    read = {name for node in proto.graph.node for name in names_read(node)} | set(model.outputs)
    live = [each for each in proto.graph.initializer if each.name in read]
    unread = {each.name for each in proto.graph.initializer} - read
    inputs = [each for each in proto.graph.input if each.name not in unread]
    for own, found in ((proto.graph.initializer, live), (proto.graph.input, inputs)):
        del own[:]
        own.extend(found)
    return Unrolled(proto, stayed)


def check_unrolls(model: Model, node: Any) -> None:
    """Raise NotOffloadable with the reason if a recurrent node cannot be unrolled, and so cannot be quantised."""
    _Recurrent(model, node)


def _with_flat_source(model: Model, node: Any, flat: Flat, held: Any) -> Any:
    """The node, or if it reshapes a result that is a Reshape of an unrolled tensor, one Reshape of that tensor."""
    source = flat.get(node.input[0]) if node.input and node.domain in ("", "ai.onnx") else None
    if source is None or node.output[0] not in model.types or not _only_moves(model, node):
        return node
    name = node.output[0]
    flat[name] = source
    shape = np.array(model.types[name].shape, np.int64)
    held.append(optional_import("onnx.numpy_helper").from_array(shape, f"{name}.shape"))
    return optional_import("onnx.helper").make_node("Reshape", [source[0], f"{name}.shape"], [name], node.name or name)


def _only_moves(model: Model, node: Any) -> bool:
    """Whether a node keeps the row-major order of values."""
    if node.op_type != "Transpose":
        return node.op_type in MOVES
    shape = model.types[node.input[0]].shape
    return _is_order_kept(shape, attributes_of(node).get("perm", tuple(reversed(range(len(shape))))))


def _is_order_kept(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Whether a permutation only moves dimensions of extent 1."""
    return [axis for axis in order if shape[axis] > 1] == [axis for axis, size in enumerate(shape) if size > 1]


class _Recurrent:
    """A recurrent node that can be unrolled. The constructor raises NotOffloadable with the reason otherwise."""

    def __init__(self, model: Model, node: Any) -> None:
        self.model, self.node, self.attributes = model, node, attributes_of(node)
        self.cell = CELLS[node.op_type]
        self.batch_first = bool(self.attributes.get("layout", 0))
        self._check_attributes()
        x = model.types.get(node.input[0])
        if x is None or len(x.shape) != 3:
            raise NotOffloadable("the shape of its input is unknown")
        self.steps, self.batch, self.width = (x.shape[1], x.shape[0], x.shape[2]) if self.batch_first else x.shape
        if not 1 <= self.steps <= MOST_STEPS:
            raise NotOffloadable(f"it has {self.steps} time steps, and at most {MOST_STEPS} are unrolled")
        self.directions = self._directions()
        lengths = self._input(4)
        if lengths and not _all_are(model.constant(lengths), self.steps):
            raise NotOffloadable("its sequence_lens are not all the number of time steps")
        if self._input(7) and not _all_are(model.constant(self._input(7)), 0):
            raise NotOffloadable("peephole weights are not supported")

    def _input(self, index: int) -> str:
        return self.node.input[index] if len(self.node.input) > index else ""

    def _check_attributes(self) -> None:
        opset = next(each.version for each in self.model.proto.opset_import if each.domain in ("", "ai.onnx"))
        if opset < OLDEST_OPSET:
            raise NotOffloadable(f"the opset of the model must be at least {OLDEST_OPSET}, not {opset}")
        names = [each.decode() for each in self.attributes.get("activations", ())]
        odd = [each for each in names if each.lower() not in ACTIVATIONS]
        if odd or "activation_alpha" in self.attributes or "activation_beta" in self.attributes:
            raise NotOffloadable(f"activations with parameters ({', '.join(odd or names)}) are not supported")

    def _activations(self, number: int) -> tuple[str, ...]:
        names = [ACTIVATIONS[each.decode().lower()] for each in self.attributes.get("activations", ())]
        count = len(self.cell.activations)
        return tuple(names[number * count : (number + 1) * count]) or self.cell.activations

    def _directions(self) -> list[Direction]:
        of_input, of_state = (self.model.constant(self._input(index)) for index in (1, 2))
        if of_input is None or of_state is None:
            raise NotOffloadable("its weights are not constants")
        wide = of_state.shape[1]
        bias: NDArray[Any] | None = np.zeros((len(of_input), 2 * wide), of_input.dtype)
        if self._input(3):
            bias = self.model.constant(self._input(3))
        if bias is None:
            raise NotOffloadable("its biases are not constants")
        return [Direction(w, r, b[:wide], b[wide:]) for w, r, b in zip(of_input, of_state, bias, strict=True)]

    def _initial(self, nodes: NodeList, index: int, what: str) -> list[str | None]:
        """The names of the initial states, (batch, H) for each direction; None for zeros."""
        name, count = self._input(index), len(self.directions)
        if not name:
            return [None] * count
        hidden = self.directions[0].hidden
        values = self.model.constant(name)
        if values is not None:
            if self.batch_first:
                values = values.transpose(1, 0, 2)
            parts = [(n, part) for n, part in enumerate(values)]
            return [nodes.constant(f"{what}{n}", part) if np.any(part) else None for n, part in parts]
        if self.batch_first and count > 1:
            name = nodes.node("Transpose", [name], f"{what}.turned", perm=[1, 0, 2])
        rows = nodes.reshaped(name, (count * self.batch, hidden), what)
        suffixes = [f"{what}{number}" for number in range(count)]
        return list[str | None](nodes.cut(rows, (self.batch,) * count, 0, suffixes))

    def unrolled(self, flat: Flat) -> NodeList:
        """Unroll the node; adds its results to ``flat``."""
        outputs = [*self.node.output, "", "", ""][:3]
        alike = sum(each.name == self.node.name for each in self.model.nodes)
        nodes = NodeList(self.node.name if self.node.name and alike == 1 else next(filter(None, outputs)))
        rows = self._rows(nodes, flat)
        starts = zip(self._initial(nodes, 5, "initial_h"), self._initial(nodes, 6, "initial_c"), strict=True)
        directions: list[list[State]] = []
        for number, (own, (h, c)) in enumerate(zip(self.directions, starts, strict=True)):
            directions.append(self._direction(nodes, rows, own, number, State(h, c), self._is_backwards(number)))
        self._add_results(nodes, flat, outputs, directions)
        return nodes

    def _rows(self, nodes: NodeList, flat: Flat) -> str:
        """The input of all time steps, (steps · batch, width)."""
        data, shape = self.node.input[0], (self.steps * self.batch, self.width)
        if self.batch_first and not _is_order_kept(self.model.types[data].shape, (1, 0, 2)):
            return nodes.reshaped(nodes.node("Transpose", [data], "turned", perm=[1, 0, 2]), shape, "rows")
        source, known = flat.get(data, (data, None))
        return source if known == shape else nodes.reshaped(source, shape, "rows")

    def _is_backwards(self, number: int) -> bool:
        return number == 1 or self.attributes.get("direction", "forward") == "reverse"

    def _direction(
        self, nodes: NodeList, rows: str, own: Direction, number: int, state: State, backwards: bool
    ) -> list[State]:
        """The states after each time step."""
        prefix = f"{number}"
        weights = nodes.constant(f"{prefix}.input_weights", own.of_input)
        bias = nodes.constant(f"{prefix}.bias", input_bias(self.node.op_type, own, self.attributes))
        sums = nodes.node("Gemm", [rows, weights, bias], f"{prefix}.input_products", transB=1)
        suffixes = [f"{prefix}.{at}.input_sums" for at in range(self.steps)]
        parts = nodes.cut(sums, (self.batch,) * self.steps, 0, suffixes)
        step = self.cell.steps(Shared(nodes, own, self._activations(number), self.attributes, prefix))
        found: dict[int, State] = {}
        for at in reversed(range(self.steps)) if backwards else range(self.steps):
            state = step(f"{prefix}.{at}", parts[at], state)
            found[at] = state
        return [found[at] for at in range(self.steps)]

    def _add_results(self, nodes: NodeList, flat: Flat, outputs: list[str], directions: list[list[State]]) -> None:
        """Add the results that have consumers: all states, and the last one of each direction."""
        count, hidden = len(self.directions), self.directions[0].hidden
        read = {name for node in self.model.nodes for name in names_read(node)} | set(self.model.outputs)
        every, last_h, last_c = (name if name in read else "" for name in outputs)
        if every:
            whole = [
                self._joined(nodes, [each.h for each in states], f"{n}.states") for n, states in enumerate(directions)
            ]
            order = (1, 0, 2, 3) if self.batch_first else (0, 2, 1, 3)
            sizes = (self.steps, self.batch, count, hidden)
            stacked = self._joined(nodes, whole, "states", axis=1)
            self._add_transposed(nodes, flat, stacked, self.steps * self.batch, sizes, order, every)
        lasts = [states[0 if self._is_backwards(number) else -1] for number, states in enumerate(directions)]
        for name, parts in ((last_h, [each.h for each in lasts]), (last_c, [each.c for each in lasts])):
            if not name:
                continue
            shape = (self.batch, count, hidden) if self.batch_first else (count, self.batch, hidden)
            stacked = self._joined(nodes, parts, f"{name}.both", axis=1 if self.batch_first else 0)
            rows = self.batch * (1 if self.batch_first else count)
            self._add_transposed(nodes, flat, stacked, rows, shape, (0, 1, 2), name)

    def _joined(self, nodes: NodeList, parts: Sequence[str | None], suffix: str, axis: int = 0) -> str:
        known = [each for each in parts if each is not None]
        assert len(known) == len(parts), "every time step must have a state"
        return nodes.node("Concat", known, suffix, axis=axis) if len(known) > 1 else known[0]

    def _add_transposed(
        self, nodes: NodeList, flat: Flat, data: str, rows: int, shape: tuple[int, ...],
        order: tuple[int, ...], output: str,
    ) -> None:  # fmt: skip
        """Add ``output``: data with ``rows`` rows, reshaped to ``shape`` and transposed to ``order``."""
        made = tuple(shape[axis] for axis in order)
        if _is_order_kept(shape, order):
            held = nodes.constant(f"{output}.shape", np.array(made, np.int64))
            nodes.several("Reshape", [data, held], [output])
            flat[output] = (data, (rows, prod(shape) // rows))
            return
        apart = nodes.reshaped(data, shape, f"{output}.apart")
        nodes.several("Transpose", [apart], [output], perm=list(order))


def _all_are(values: NDArray[Any] | None, number: int) -> bool:
    return values is not None and bool(np.all(values == number))
