"""The digits network as an ONNX model in QDQ form: digits.onnx.

    images (n, 1, 8, 8) ─ conv1 ─ Relu ─ conv2 ─ Relu ─ MaxPool ─ Flatten ─ dense ─ logits (n, 10)

Both are float32; pixels are 0 to 16. `python -m lathe.networks.digits.onnx_model` writes the file from digits.npz.
Every scale is a power of two, so that a layer's rescale factor is the shift of the integer network (network.py).
digits.npz only has the shifts, not the scales of weights and results: weights get 7 fraction bits, from which the
scales of the results follow.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.optional_imports import optional_import
from lathe.networks.digits.network import CLASSES, IMAGE_SHAPE, LAYERS, load_digits

DIGITS_ONNX = Path(__file__).with_name("digits.onnx")
"""The model file of the package, for batches of 60 images."""
BATCH = 60
WEIGHT_BITS = 7
OPSET, IR_VERSION = 17, 8


def as_images(images: NDArray[np.int8]) -> NDArray[np.float32]:
    """The images of digits.npz, (n, 8, 8, 1), in the layout of the model, (n, 1, 8, 8)."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32)


def digits_model(batch: int = BATCH) -> Any:
    """The model (a ModelProto) for batches of `batch` images."""
    helper, tensors = optional_import("onnx.helper"), optional_import("onnx.numpy_helper")
    graph = _Graph(load_digits().parameters)
    height, width, channels = IMAGE_SHAPE
    x = graph.quantised("images", "images", 0)
    for layer in ("conv1", "conv2"):
        x = graph.layer("Conv", x, layer, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    x = graph.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = graph.node("Flatten", [graph.quantised(x, "pool.out", graph.bits["conv2"])], "flatten", axis=1)
    graph.layer("Gemm", graph.quantised(x, "flatten.out", graph.bits["conv2"]), "dense", transB=1)
    value = helper.make_tensor_value_info
    images = value("images", optional_import("onnx").TensorProto.FLOAT, [batch, channels, height, width])
    logits = value("logits", optional_import("onnx").TensorProto.FLOAT, [batch, CLASSES])
    held = [tensors.from_array(values, name) for name, values in graph.held.items()]
    made = helper.make_graph(graph.nodes, "digits", [images], [logits], held)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


class _Graph:
    """Nodes and constants of the model; ``bits``: the fraction bits of each layer's result."""

    def __init__(self, parameters: Mapping[str, NDArray[Any]]) -> None:
        self.parameters = parameters
        self.nodes: list[Any] = []
        self.held: dict[str, NDArray[Any]] = {}
        self.bits: dict[str, int] = {}
        bits = 0
        for layer in LAYERS:
            bits += WEIGHT_BITS - int(parameters[f"{layer}_shift"])
            self.bits[layer] = bits

    def node(self, kind: str, inputs: list[str], name: str, output: str = "", **attributes: Any) -> str:
        """Add a node; the name of its result."""
        made = output or f"{name}.sums"
        self.nodes.append(optional_import("onnx.helper").make_node(kind, inputs, [made], name, **attributes))
        return made

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add an initializer; its name."""
        self.held[name] = np.ascontiguousarray(values)
        return name

    def qparams(self, name: str, bits: int, dtype: str = "int8") -> list[str]:
        """Add the scale and zero point of numbers with ``bits`` fraction bits."""
        scale = self.constant(f"{name}.scale", np.array(2.0**-bits, np.float32))
        return [scale, self.constant(f"{name}.zero", np.zeros((), dtype))]

    def quantised(self, data: str, name: str, bits: int, output: str = "") -> str:
        """Add QuantizeLinear and DequantizeLinear of the data."""
        qparams = self.qparams(name, bits)
        stored = self.node("QuantizeLinear", [data, *qparams], f"{name}.quantise", f"{name}.stored")
        return self.node("DequantizeLinear", [stored, *qparams], f"{name}.dequantise", output or f"{name}.read")

    def stored(self, name: str, values: NDArray[Any], bits: int) -> str:
        """Add a DequantizeLinear of stored integers."""
        inputs = [self.constant(name, values), *self.qparams(name, bits, str(values.dtype))]
        return self.node("DequantizeLinear", inputs, f"{name}.dequantise", f"{name}.read")

    def layer(self, kind: str, data: str, name: str, **attributes: Any) -> str:
        """Add a layer with weights: convolutions have a Relu; the last layer computes the logits."""
        shift, bits = int(self.parameters[f"{name}_shift"]), self.bits[name]
        weights = self.parameters[f"{name}_weights"]
        if kind == "Conv":
            weights = weights.transpose(0, 3, 1, 2)
        else:
            # ONNX flattens an image as (channel, y, x), the network as (y, x, channel).
            channels = len(self.parameters["conv2_bias"])
            sides = (IMAGE_SHAPE[0] // 2, IMAGE_SHAPE[1] // 2)
            weights = weights.reshape(-1, *sides, channels).transpose(0, 3, 1, 2).reshape(len(weights), -1)
        # QuantizeLinear rounds, so half of the shift's divisor is removed from the bias.
        bias = (self.parameters[f"{name}_bias"] - 2 ** (shift - 1)).astype(np.int32)
        operands = [self.stored(f"{name}.weights", weights, WEIGHT_BITS)]
        operands.append(self.stored(f"{name}.bias", bias, bits + shift))
        sums = self.node(kind, [data, *operands], name, **attributes)
        if kind == "Conv":
            return self.quantised(self.node("Relu", [sums], f"{name}.relu"), f"{name}.out", bits)
        return self.quantised(sums, f"{name}.out", bits, "logits")


def main() -> None:
    """Write digits.onnx."""
    DIGITS_ONNX.write_bytes(digits_model().SerializeToString())
    print(f"wrote {DIGITS_ONNX.name}")


if __name__ == "__main__":
    main()
