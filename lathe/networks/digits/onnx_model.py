"""The digits network as a model of ONNX, with QuantizeLinear and DequantizeLinear around its layers: digits.onnx.

    images (n, 1, 8, 8) ─ conv1 ─ Relu ─ conv2 ─ Relu ─ MaxPool ─ Flatten ─ dense ─ logits (n, 10)

Both are float32; pixels are 0 to 16.
`python -m lathe.networks.digits.onnx_model` writes the file beside this one anew, from digits.npz. Every scale is a
power of two, so that a layer's factor is the shift that the network has as integers (network.py). Only the factors are
known of the trained network, not how much of each is the weights': these get 7 fraction bits, and logits are what
comes of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.optional_imports import extra
from lathe.networks.digits.network import CLASSES, IMAGE_SHAPE, LAYERS, load_digits

DIGITS_ONNX = Path(__file__).with_name("digits.onnx")
"""The file that comes with Lathe, for batches of 60 images."""
BATCH = 60
WEIGHT_BITS = 7
OPSET, IR_VERSION = 17, 8


def as_images(images: NDArray[np.int8]) -> NDArray[np.float32]:
    """The images of digits.npz, (n, 8, 8, 1), as the model takes them, (n, 1, 8, 8)."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32)


def digits_model(batch: int = BATCH) -> Any:
    """The model (a ModelProto) for batches of so many images."""
    helper, tensors = extra("onnx.helper"), extra("onnx.numpy_helper")
    graph = _Graph(load_digits().parameters)
    height, width, channels = IMAGE_SHAPE
    x = graph.quantised("images", "images", 0)
    for layer in ("conv1", "conv2"):
        x = graph.layer("Conv", x, layer, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    x = graph.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = graph.node("Flatten", [graph.quantised(x, "pool.out", graph.bits["conv2"])], "flatten", axis=1)
    graph.layer("Gemm", graph.quantised(x, "flatten.out", graph.bits["conv2"]), "dense", transB=1)
    value = helper.make_tensor_value_info
    images = value("images", extra("onnx").TensorProto.FLOAT, [batch, channels, height, width])
    logits = value("logits", extra("onnx").TensorProto.FLOAT, [batch, CLASSES])
    held = [tensors.from_array(values, name) for name, values in graph.held.items()]
    made = helper.make_graph(graph.nodes, "digits", [images], [logits], held)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


class _Graph:
    """Nodes and constants of the model; ``bits``: the fraction bits of what each layer makes."""

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
        """The result of a node."""
        made = output or f"{name}.sums"
        self.nodes.append(extra("onnx.helper").make_node(kind, inputs, [made], name, **attributes))
        return made

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """An initializer."""
        self.held[name] = np.ascontiguousarray(values)
        return name

    def how(self, name: str, bits: int, dtype: str = "int8") -> list[str]:
        """Scale and zero point of numbers with so many fraction bits."""
        scale = self.constant(f"{name}.scale", np.array(2.0**-bits, np.float32))
        return [scale, self.constant(f"{name}.zero", np.zeros((), dtype))]

    def quantised(self, data: str, name: str, bits: int, output: str = "") -> str:
        """The data brought to 8 bits and back."""
        how = self.how(name, bits)
        stored = self.node("QuantizeLinear", [data, *how], f"{name}.quantise", f"{name}.stored")
        return self.node("DequantizeLinear", [stored, *how], f"{name}.dequantise", output or f"{name}.read")

    def stored(self, name: str, values: NDArray[Any], bits: int) -> str:
        """Whole numbers as the numbers that they stand for."""
        inputs = [self.constant(name, values), *self.how(name, bits, str(values.dtype))]
        return self.node("DequantizeLinear", inputs, f"{name}.dequantise", f"{name}.read")

    def layer(self, kind: str, data: str, name: str, **attributes: Any) -> str:
        """A layer with weights: convolutions are rectified; the last makes the logits."""
        shift, bits = int(self.parameters[f"{name}_shift"]), self.bits[name]
        weights = self.parameters[f"{name}_weights"]
        if kind == "Conv":
            weights = weights.transpose(0, 3, 1, 2)
        else:
            # ONNX flattens an image as (channel, y, x), the network as (y, x, channel).
            channels = len(self.parameters["conv2_bias"])
            sides = (IMAGE_SHAPE[0] // 2, IMAGE_SHAPE[1] // 2)
            weights = weights.reshape(-1, *sides, channels).transpose(0, 3, 1, 2).reshape(len(weights), -1)
        # Half of the shift's divisor, which rounds, is the quantiser's own here.
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
