"""A builder of float ONNX graphs with seeded weights, for the models in this directory."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class FloatGraph:
    """A graph builder: each method adds a node with its weights, and returns the name of the node's output."""

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
        """A node of any type with one output."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def centred(self, *shape: int) -> np.ndarray:
        """Zero-mean filter weights that preserve the variance of activations through ReLU.

        With zero-mean filters, the mean that all images share does not contribute to sums, so that results of different
        images remain distinct at any depth (Qiao et al., 2019). ReLU keeps a third of the variance of normal values.
        """
        weights = self.random.standard_normal(shape)
        weights -= weights.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        return weights * np.sqrt(3 / np.prod(shape[1:]))

    def classifier(self, data: str, channels: int, classes: int, output: str) -> None:
        """Global average pooling and a dense layer, whose result is the model's output."""
        pooled = self.node("Flatten", self.node("GlobalAveragePool", data), axis=1)
        weights = self.constant(self.centred(classes, channels).T.astype(np.float32))
        bias = self.constant((self.random.standard_normal(classes) * 0.1).astype(np.float32))
        self.nodes.append(helper.make_node("Gemm", [pooled, weights, bias], [output], "classifier"))

    def name_last(self, name: str) -> None:
        """Rename the output of the last node, as an output of the model."""
        self.nodes[-1].output[0] = name

    def normal(self, *shape: int, fan_in: int, gain: float = 1) -> str:
        """Weights that preserve variance through ReLU (He et al., 2015), times ``gain``."""
        return self.constant((gain * self.random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32))

    def conv(
        self, data: str, channels: int, filters: int, kernel: int, *, stride: int = 1, groups: int = 1, gain: float = 1
    ) -> str:
        """A convolution with a bias, padded to preserve the size at stride 1."""
        shape = (filters, channels // groups, kernel, kernel)
        weights = self.centred(*shape) if groups == 1 else self.random.standard_normal(shape) / kernel
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
        """The checked model."""
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self.nodes, self.name, given, made, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model
