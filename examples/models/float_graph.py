"""Float ONNX graphs, node by node: what the models here are made of, with weights from a seeded generator."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class FloatGraph:
    """A graph that grows: each method adds a node, and the weights it has, and returns its result's name."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name, self.random = name, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, values: np.ndarray) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Any node with one output."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def normal(self, *shape: int, fan_in: int) -> str:
        """Weights that keep the size of what is rectified (He et al., 2015)."""
        return self.constant((self.random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32))

    def conv(
        self, data: str, channels: int, filters: int, kernel: int, *, stride: int = 1, groups: int = 1, gain: float = 1
    ) -> str:
        """A convolution with a bias, its border as wide as keeps the size with a stride of 1."""
        fan_in = channels // groups * kernel * kernel
        weights = self.random.standard_normal((filters, channels // groups, kernel, kernel)) * np.sqrt(2 / fan_in)
        bias = self.random.standard_normal(filters) * 0.1
        return self.node(
            "Conv",
            data,
            self.constant((gain * weights).astype(np.float32)),
            self.constant(bias.astype(np.float32)),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def model(self, inputs: dict[str, Sequence[int]], outputs: dict[str, Sequence[int]]) -> onnx.ModelProto:
        """The whole, checked."""
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self.nodes, self.name, given, made, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model
