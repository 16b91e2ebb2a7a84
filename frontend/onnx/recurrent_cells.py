"""One time step of LSTM, GRU and RNN as plain nodes, as ONNX defines them.

The input's Gemm is computed for all time steps at once; each time step adds the Gemm of the previous state, with
weights that all share. Gates with the same activation are one tensor, in ONNX's order of gates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.optional_imports import optional_import

Floats = NDArray[Any]


class NodeList:
    """A list of new nodes and their constants, with names that begin with that of the replaced node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.held: list[Any] = []

    def named(self, suffix: str) -> str:
        """A name with the prefix of the replaced node."""
        return f"{self.name}.{suffix}"

    def constant(self, suffix: str, values: NDArray[Any]) -> str:
        """Add an initializer; its name."""
        name = self.named(suffix)
        self.held.append(optional_import("onnx.numpy_helper").from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], suffix: str, **attributes: Any) -> str:
        """Add a node with one result; its name."""
        return self.several(kind, inputs, [self.named(suffix)], **attributes)[0]

    def several(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> list[str]:
        """Add a node, named like its first result; the names of its results."""
        self.nodes.append(
            optional_import("onnx.helper").make_node(kind, list(inputs), list(outputs), outputs[0], **attributes)
        )
        return list(outputs)

    def reshaped(self, data: str, shape: Sequence[int], suffix: str) -> str:
        """Add a Reshape."""
        return self.node("Reshape", [data, self.constant(f"{suffix}.shape", np.array(shape, np.int64))], suffix)

    def cut(self, data: str, sizes: Sequence[int], axis: int, suffixes: Sequence[str]) -> list[str]:
        """Add a Split along an axis; the names of the slices."""
        if len(sizes) == 1:
            return [data]
        held = self.constant(f"{suffixes[0]}.sizes", np.array(sizes, np.int64))
        return self.several("Split", [data, held], [self.named(each) for each in suffixes], axis=axis)


@dataclass(frozen=True)
class Direction:
    """Weights and biases of one direction of a recurrent node with G gates and hidden size H.

    ``of_input`` (G·H, I) and ``of_state`` (G·H, H) are weights; each has a bias (G·H,).
    """

    of_input: Floats
    of_state: Floats
    input_bias: Floats
    state_bias: Floats

    @property
    def hidden(self) -> int:
        """The hidden size."""
        return int(self.of_state.shape[1])


@dataclass(frozen=True)
class State:
    """The names of the state tensors after a time step, (batch, H): ``h``, and ``c`` of LSTM; None for zeros."""

    h: str | None
    c: str | None = None


@dataclass(frozen=True)
class Shared:
    """What all time steps of a direction share: weights, activations, attributes and a prefix of names."""

    nodes: NodeList
    own: Direction
    activations: tuple[str, ...]
    attributes: Mapping[str, Any]
    prefix: str

    def constant(self, suffix: str, values: Floats) -> str:
        """Add an initializer that all time steps share."""
        return self.nodes.constant(f"{self.prefix}.{suffix}", values)

    @cached_property
    def _limits(self) -> list[str]:
        limit = np.array(self.attributes["clip"], self.own.of_state.dtype)
        return [self.constant("least", -limit), self.constant("greatest", limit)]

    def activated(self, activation: str, data: str, suffix: str) -> str:
        """Add an activation, after a Clip if the node has attribute ``clip``."""
        if "clip" in self.attributes:
            data = self.nodes.node("Clip", [data, *self._limits], f"{suffix}.limited")
        return self.nodes.node(activation, [data], suffix)


Step = Callable[[str, str, State], State]
"""Adds a time step: of a name prefix, a slice (batch, G·H) of the input's Gemm, and the previous state, the next."""


@dataclass(frozen=True)
class Cell:
    """A recurrent operator: number of gates, default activations, and factory of its time steps."""

    gates: int
    activations: tuple[str, ...]
    steps: Callable[[Shared], Step]


def input_bias(kind: str, own: Direction, attributes: Mapping[str, Any]) -> Floats:
    """The bias of the input's Gemm: all biases, except a GRU's state bias that the reset gate multiplies."""
    held = own.state_bias.copy()
    if kind == "GRU" and attributes.get("linear_before_reset", 0):
        held[2 * own.hidden :] = 0
    both: Floats = own.input_bias + held
    return both


def _lstm(shared: Shared) -> Step:
    nodes, count = shared.nodes, shared.own.hidden
    weights = shared.constant("state_weights", shared.own.of_state)
    of_gates, of_candidate, of_cell = shared.activations
    coupled = bool(shared.attributes.get("input_forget", 0))
    one = shared.constant("one", np.ones(1, shared.own.of_state.dtype)) if coupled else None

    def step(at: str, sums: str, state: State) -> State:
        if state.h is not None:
            product = nodes.node("Gemm", [state.h, weights], f"{at}.product", transB=1)
            sums = nodes.node("Add", [sums, product], f"{at}.sums")
        gates, candidate = nodes.cut(sums, (3 * count, count), 1, (f"{at}.gate_sums", f"{at}.candidate_sums"))
        opened = shared.activated(of_gates, gates, f"{at}.gates")
        inward, outward, forget = nodes.cut(opened, (count,) * 3, 1, (f"{at}.in", f"{at}.out", f"{at}.forget"))
        fresh = shared.activated(of_candidate, candidate, f"{at}.candidate")
        cell = nodes.node("Mul", [inward, fresh], f"{at}.new")
        if state.c is not None:
            if one is not None:
                forget = nodes.node("Sub", [one, inward], f"{at}.share")
            kept = nodes.node("Mul", [forget, state.c], f"{at}.kept")
            cell = nodes.node("Add", [kept, cell], f"{at}.cell")
        told = nodes.node(of_cell, [cell], f"{at}.told")  # onnxruntime does not clip the cell
        return State(nodes.node("Mul", [outward, told], f"{at}.state"), cell)

    return step


def _gru(shared: Shared) -> Step:
    nodes, own, count = shared.nodes, shared.own, shared.own.hidden
    linear_first = bool(shared.attributes.get("linear_before_reset", 0))
    of_gates, of_candidate = shared.activations
    one = shared.constant("one", np.ones(1, own.of_state.dtype))
    # The candidate's weights are separate if they multiply the state after the reset gate.
    weights = shared.constant("state_weights", own.of_state if linear_first else own.of_state[: 2 * count])
    inner = "" if linear_first else shared.constant("candidate_weights", own.of_state[2 * count :])
    late = own.state_bias.copy()
    late[: 2 * count] = 0
    has_late = linear_first and bool(np.any(late))
    bias = [shared.constant("state_bias", late)] if has_late else []
    of_zeros = shared.constant("candidate_bias", late[np.newaxis, 2 * count :]) if has_late else None

    def step(at: str, sums: str, state: State) -> State:
        gates, candidate = nodes.cut(sums, (2 * count, count), 1, (f"{at}.gate_inputs", f"{at}.candidate_inputs"))
        before = of_zeros
        if state.h is not None:
            product = nodes.node("Gemm", [state.h, weights, *bias], f"{at}.product", transB=1)
            if linear_first:
                names = (f"{at}.gate_products", f"{at}.candidate_products")
                product, before = nodes.cut(product, (2 * count, count), 1, names)
            gates = nodes.node("Add", [gates, product], f"{at}.gate_sums")
        opened = shared.activated(of_gates, gates, f"{at}.gates")
        update, reset = nodes.cut(opened, (count, count), 1, (f"{at}.update", f"{at}.reset"))
        if not linear_first and state.h is not None:
            kept = nodes.node("Mul", [reset, state.h], f"{at}.reset_state")
            product = nodes.node("Gemm", [kept, inner], f"{at}.candidate_product", transB=1)
            candidate = nodes.node("Add", [candidate, product], f"{at}.candidate_sums")
        elif before is not None:
            kept = nodes.node("Mul", [reset, before], f"{at}.reset_products")
            candidate = nodes.node("Add", [candidate, kept], f"{at}.candidate_sums")
        fresh = shared.activated(of_candidate, candidate, f"{at}.candidate")
        share = nodes.node("Sub", [one, update], f"{at}.share")
        if state.h is None:
            return State(nodes.node("Mul", [share, fresh], f"{at}.state"))
        new = nodes.node("Mul", [share, fresh], f"{at}.new")
        kept = nodes.node("Mul", [update, state.h], f"{at}.kept")
        return State(nodes.node("Add", [new, kept], f"{at}.state"))

    return step


def _rnn(shared: Shared) -> Step:
    nodes = shared.nodes
    weights = shared.constant("state_weights", shared.own.of_state)
    (activation,) = shared.activations

    def step(at: str, sums: str, state: State) -> State:
        if state.h is not None:
            product = nodes.node("Gemm", [state.h, weights], f"{at}.product", transB=1)
            sums = nodes.node("Add", [sums, product], f"{at}.sums")
        return State(shared.activated(activation, sums, f"{at}.state"))

    return step


CELLS: Mapping[str, Cell] = {
    "LSTM": Cell(4, ("Sigmoid", "Tanh", "Tanh"), _lstm),
    "GRU": Cell(3, ("Sigmoid", "Tanh"), _gru),
    "RNN": Cell(1, ("Tanh",), _rnn),
}
