"""Float ONNX models with LSTM, GRU and RNN, built node by node."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class RecurrentModel:
    """An ONNX graph under construction; weights are seeded, and so small that activations do not saturate."""

    def __init__(self, seed: int = 0, opset: int = 17) -> None:
        self.random, self.opset = np.random.default_rng(seed), opset
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def constant(self, values: NDArray[Any], name: str = "") -> str:
        name = name or f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [made], f"{kind}{len(self.nodes)}", **attributes))
        return made

    def input(self, *shape: int, name: str = "x") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.shapes[name] = shape
        return name

    def weights(self, *shape: int, name: str = "") -> str:
        return self.constant((self.random.standard_normal(shape) * 0.4).astype(np.float32), name)

    def product(self, data: str, width: int, filters: int) -> str:
        """A matmul with weights."""
        return self.node("MatMul", data, self.weights(width, filters))

    def recurrent(
        self, kind: str, data: str, hidden: int, direction: str = "forward", *, initial: str | None = None,
        bias: bool = True, width: int | None = None, lengths: NDArray[Any] | None = None,
        peepholes: NDArray[Any] | None = None, computed_weights: bool = False, **attributes: Any,
    ) -> list[str]:  # fmt: skip
        """All outputs of a recurrent node; ``initial``: whether states are a "constant", an "input", or None."""
        number, gates, count = len(self.nodes), GATES[kind], 2 if direction == "bidirectional" else 1
        width = self.shapes[data][-1] if width is None else width
        inputs = [data, self.weights(count, gates * hidden, width, name=f"W{number}")]
        inputs.append(self.weights(count, gates * hidden, hidden, name=f"R{number}"))
        inputs.append(self.weights(count, 2 * gates * hidden, name=f"B{number}") if bias else "")
        inputs.append("" if lengths is None else self.constant(lengths))
        shape = self.shapes.get(data, (0, 0))
        batch = shape[0] if attributes.get("layout") else shape[1]
        states = (batch, count, hidden) if attributes.get("layout") else (count, batch, hidden)
        for name in ("h", "c")[: 2 if kind == "LSTM" else 1]:
            # The same values in both layouts.
            values = (self.random.standard_normal((count, batch, hidden)) * 0.4).astype(np.float32)
            turned = values.swapaxes(0, 1) if attributes.get("layout") else values
            given = {"constant": lambda turned=turned: self.constant(turned)}
            given["input"] = lambda name=name: self.input(*states, name=f"initial_{name}")
            inputs.append(given[initial]() if initial else "")
        if peepholes is not None:
            inputs.append(self.constant(peepholes))
        if computed_weights:
            inputs[1] = self.node("Abs", inputs[1])
        outputs = [f"{kind}{number}.{name}" for name in ("y", "h", "c")[: 3 if kind == "LSTM" else 2]]
        self.nodes.append(
            helper.make_node(
                kind, inputs, outputs, f"{kind}{number}", hidden_size=hidden, direction=direction, **attributes
            )
        )
        return outputs

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The checked model with these outputs."""
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "model", self.inputs, made, self.held)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        del proto.graph.value_info[:]
        onnx.checker.check_model(proto)
        return proto
