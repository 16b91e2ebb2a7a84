"""ONNX models in QDQ form with 8-bit layers, built node by node."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


class QdqModel:
    """An ONNX graph under construction. Tensors are named by their DequantizeLinear, and have shape and scale."""

    def __init__(self, seed: int = 0, dtype: str = "int8", opset: int = 17) -> None:
        self.random, self.dtype, self.opset = np.random.default_rng(seed), dtype, opset
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.scales: dict[str, float] = {}

    def constant(self, values: NDArray[Any]) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        made = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, list(inputs), [made], name or f"{kind}{len(self.nodes)}", **attributes)
        )
        return made

    def zero_point(self) -> int:
        limits = np.iinfo(self.dtype)
        return int(self.random.choice([0, limits.min, limits.max, self.random.integers(limits.min, limits.max)]))

    def quantised(self, data: str, scale: float, zero_point: int | None = None) -> str:
        """The tensor quantised to 8 bits and dequantised; the caller has to record its shape."""
        zero = np.array(self.zero_point() if zero_point is None else zero_point, self.dtype)
        how = self.constant(np.array(scale, np.float32)), self.constant(zero)
        made = self.node("DequantizeLinear", self.node("QuantizeLinear", data, *how), *how)
        self.scales[made] = scale
        return made

    def input(self, *shape: int, name: str = "x", scale: float = 0.02) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        made = self.quantised(name, scale)
        self.shapes[made] = shape
        return made

    def weights(self, *shape: int, axis: int = 0, per_channel: bool = True) -> tuple[str, NDArray[Any]]:
        """Dequantised weights, and their scales."""
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        scale = self.random.uniform(0.002, 0.006, shape[axis] if per_channel else ()).astype(np.float32)
        zero = np.zeros_like(scale, np.int8)
        held = [self.constant(each) for each in (values, scale, zero)]
        return self.node("DequantizeLinear", *held, axis=axis), np.broadcast_to(scale, shape[axis])

    def bias(self, data: str, scales: NDArray[Any]) -> str:
        values = self.random.integers(-4000, 4000, len(scales)).astype(np.int32)
        unit = (self.scales[data] * scales).astype(np.float32)
        held = [self.constant(each) for each in (values, unit, np.zeros(len(scales), np.int32))]
        return self.node("DequantizeLinear", *held, axis=0)

    def conv(
        self, data: str, filters: int, kernel: int = 3, *, groups: int = 1, relu: bool = False, bias: bool = True,
        per_channel: bool = True, scale: float | None = None, name: str = "", **attributes: Any,
    ) -> str:  # fmt: skip
        channels = self.shapes[data][1]
        weights, scales = self.weights(filters, channels // groups, kernel, kernel, per_channel=per_channel)
        operands = [data, weights, *([self.bias(data, scales)] if bias else [])]
        sums = self.node("Conv", *operands, name=name, group=groups, kernel_shape=[kernel, kernel], **attributes)
        if relu:
            sums = self.node("Relu", sums)
        made = self.quantised(sums, scale or self.scales[data] * np.sqrt(channels // groups) * kernel * 0.2)
        self.shapes[made] = self.shape_of(sums)
        return made

    def product(self, data: str, filters: int, *, relu: bool = False, name: str = "") -> str:
        depth = self.shapes[data][-1]
        weights, scales = self.weights(depth, filters, axis=1)
        sums = self.node("MatMul", data, weights, name=name)
        if relu:
            sums = self.node("Relu", sums)
        made = self.quantised(sums, self.scales[data] * np.sqrt(depth) * 0.2)
        self.shapes[made] = self.shape_of(sums)
        return made

    def layer(self, kind: str, *data: str, scale: float | None = None, same: bool = False, **attributes: Any) -> str:
        """Any node on 8-bit tensors; ``same``: its result has the quantisation parameters of its data."""
        made = self.node(kind, *data, **attributes)
        if same:
            source = next(node for node in self.nodes if node.output[0] == data[0])
            how = source.input[1], source.input[2]
            found = self.node("DequantizeLinear", self.node("QuantizeLinear", made, *how), *how)
            self.scales[found] = self.scales[data[0]]
        else:
            found = self.quantised(made, scale or self.scales[data[0]])
        self.shapes[found] = self.shape_of(made)
        return found

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape by ONNX's shape inference."""
        found = onnx.shape_inference.infer_shapes(self._model([name]), data_prop=True)
        (info,) = (each for each in found.graph.output if each.name == name)
        return tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The checked model with these outputs."""
        made = onnx.shape_inference.infer_shapes(self._model(list(outputs)), data_prop=True)
        del made.graph.value_info[:]
        onnx.checker.check_model(made)
        return made

    def _model(self, outputs: list[str]) -> onnx.ModelProto:
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "model", self.inputs, made, self.held)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10 if self.opset > 18 else 8
        )
