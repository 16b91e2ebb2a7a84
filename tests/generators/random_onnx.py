"""Random models of 8-bit layers that read each other's results: images, matrices, and conversions between them."""

from typing import Any

import numpy as np
import onnx
from qdq_models import QdqModel

FUNCTIONS = ("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Abs", "Tanh")
LARGEST = 3000
"""Tensors with more elements are not enlarged."""

OF_IMAGES = ("conv", "depthwise", "grouped", "transposed", "pool", "channels", "resize", "depth")
OF_ROWS = ("product", "normalisation")
OF_ALL = (
    "function", "function", "pair", "pair", "concat", "slice", "split", "pad", "mean", "transpose", "reshape", "clip",
    "constant", "tensor_product",
)  # fmt: skip


class RandomOnnx:
    """A model that grows by random layers; layers read ``tensors``."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.graph = QdqModel(seed, dtype=str(self.random.choice(["int8", "uint8"])))
        self.tensors: list[str] = []
        rank = int(self.random.choice([2, 3, 3, 4, 4, 4]))
        self.tensors.append(self.graph.input(1, *(self.number(1, 40), *(self.number(3, 9) for _ in range(rank - 2)))))

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def choice(self, things: Any) -> Any:
        return things[self.number(0, len(things))]

    def grow(self) -> str:
        """Add a layer that reads a random tensor; returns a description."""
        data = self.choice(self.tensors)
        shape = self.shape(data)
        kinds = list(OF_ALL)
        kinds += OF_IMAGES * 2 if len(shape) == 4 else OF_IMAGES[:6] if len(shape) == 3 else ()
        kinds += OF_ROWS if len(shape) in (2, 3) else ()
        kind = self.choice(kinds)
        made = getattr(self, f"_{kind}")(data, shape)
        self.tensors.append(made)
        return f"{kind} of {shape}"

    def shape(self, data: str) -> tuple[int, ...]:
        return self.graph.shapes[data]

    def sizes(self, *numbers: int) -> str:
        return self.graph.constant(np.array(numbers, np.int64))

    def made(self, node: str, scale: float) -> str:
        """The tensor quantised to 8 bits, with its shape recorded."""
        found = self.graph.quantised(node, scale)
        self.graph.shapes[found] = self.graph.shape_of(node)
        return found

    def _windows(self, shape: tuple[int, ...], most: int = 4) -> tuple[list[int], list[int], list[int]]:
        """Kernel sizes, strides, and pads that are smaller than the kernel."""
        kernel = [self.number(1, min(most, size + 1)) for size in shape[2:]]
        strides = [self.number(1, 3) for _ in kernel]
        pads = [self.number(0, taps) for taps in kernel * 2]
        return kernel, strides, pads

    def _convolution(self, data: str, filters: int, groups: int = 1) -> str:
        shape = self.shape(data)
        kernel, strides, pads = self._windows(shape)
        fits = all((taps - 1) * 2 < size for taps, size in zip(kernel, shape[2:], strict=True))
        dilations = [self.number(1, 3) if fits else 1 for _ in kernel]
        weights, scales = self.graph.weights(filters, shape[1] // groups, *kernel)
        made = self.graph.node(
            "Conv", data, weights, self.graph.bias(data, scales), kernel_shape=kernel, strides=strides, pads=pads,
            dilations=dilations, group=groups,
        )  # fmt: skip
        made = self.graph.node("Relu", made) if self.number(0, 2) else made
        return self.made(made, self.graph.scales[data] * np.sqrt(shape[1] // groups * np.prod(kernel)) * 0.2)

    def _conv(self, data: str, shape: tuple[int, ...]) -> str:
        del shape
        return self._convolution(data, self.number(1, 40))

    def _depthwise(self, data: str, shape: tuple[int, ...]) -> str:
        return self._convolution(data, shape[1], shape[1])

    def _grouped(self, data: str, shape: tuple[int, ...]) -> str:
        groups = self.choice([each for each in range(1, shape[1] + 1) if shape[1] % each == 0])
        return self._convolution(data, groups * self.number(1, 4), groups)

    def _transposed(self, data: str, shape: tuple[int, ...]) -> str:
        if np.prod(shape) > LARGEST:
            return self._function(data, shape)
        kernel = [self.number(2, 4) for _ in shape[2:]]
        filters = self.number(1, 20)
        weights, _ = self.graph.weights(shape[1], filters, *kernel, per_channel=False)
        strides = [self.number(1, 3) for _ in kernel]
        pads = [self.number(0, 2) for _ in kernel * 2]
        if any((n - 1) * step + taps - sum(pads[axis :: len(kernel)]) < 1 for axis, (n, step, taps) in
               enumerate(zip(shape[2:], strides, kernel, strict=True))):  # fmt: skip
            pads = [0] * len(pads)
        made = self.graph.node("ConvTranspose", data, weights, kernel_shape=kernel, strides=strides, pads=pads)
        return self.made(made, self.graph.scales[data] * np.sqrt(shape[1] * np.prod(kernel)) * 0.2)

    def _pool(self, data: str, shape: tuple[int, ...]) -> str:
        kernel, strides, pads = self._windows(shape)
        attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
        if not any(pads) and all(step <= taps for step, taps in zip(strides, kernel, strict=True)):
            attributes["ceil_mode"] = self.number(0, 2)  # ONNX and onnxruntime count other windows differently
        if self.number(0, 4) == 0:
            return self.graph.layer("GlobalAveragePool", data)
        if self.number(0, 2):
            return self.graph.layer("MaxPool", data, same=bool(self.number(0, 2)), **attributes)
        return self.graph.layer("AveragePool", data, count_include_pad=self.number(0, 2), **attributes)

    def _channels(self, data: str, shape: tuple[int, ...]) -> str:
        """A different function for each channel."""
        held = self.random.uniform(0.5, 2, (shape[1], *(1,) * (len(shape) - 2))).astype(np.float32)
        return self.made(self.graph.node("PRelu", data, self.graph.constant(held)), self.graph.scales[data])

    def _resize(self, data: str, shape: tuple[int, ...]) -> str:
        if np.prod(shape) > LARGEST:
            return self._function(data, shape)
        scales = self.graph.constant(np.array([1, 1, self.number(1, 3), self.number(1, 3)], np.float32))
        return self.graph.layer(
            "Resize", data, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )  # fmt: skip

    def _depth(self, data: str, shape: tuple[int, ...]) -> str:
        """Interleave two halves of the channels: a transposition of five dimensions."""
        if shape[1] % 2:
            return self._function(data, shape)
        apart = self.graph.layer("Reshape", data, self.sizes(1, 2, shape[1] // 2, *shape[2:]), same=True)
        turned = self.graph.layer("Transpose", apart, same=True, perm=[0, 2, 1, 3, 4])
        return self.graph.layer("Reshape", turned, self.sizes(*shape), same=True)

    def _product(self, data: str, shape: tuple[int, ...]) -> str:
        del shape
        return self.graph.product(data, self.number(1, 40), relu=bool(self.number(0, 2)))

    def _normalisation(self, data: str, shape: tuple[int, ...]) -> str:
        held = self.graph.constant(self.random.uniform(0.5, 2, shape[-1:]).astype(np.float32))
        return self.made(self.graph.node("Mul", data, held), self.graph.scales[data])

    def _function(self, data: str, shape: tuple[int, ...]) -> str:
        del shape
        return self.graph.layer(self.choice(FUNCTIONS), data, same=bool(self.number(0, 2)))

    def _pair(self, data: str, shape: tuple[int, ...]) -> str:
        """An element-wise operator with a tensor that broadcasts to it, or to which it broadcasts."""
        others = [each for each in self.tensors if _repeats(shape, self.shape(each))]
        operands = [data, self.choice(others)]
        if self.number(0, 2):
            operands.reverse()
        return self.graph.layer(self.choice(["Add", "Add", "Sub", "Mul", "Max", "Min"]), *operands)

    def _constant(self, data: str, shape: tuple[int, ...]) -> str:
        held, _ = self.graph.weights(*shape[self.number(0, len(shape)) :], per_channel=False)
        return self.graph.layer(self.choice(["Add", "Sub", "Mul"]), data, held)

    def _concat(self, data: str, shape: tuple[int, ...]) -> str:
        axis = self.number(1, len(shape))
        others = [each for each in self.tensors if _beside(shape, self.shape(each), axis)]
        return self.graph.layer("Concat", data, self.choice(others), axis=axis, same=bool(self.number(0, 2)))

    def _slice(self, data: str, shape: tuple[int, ...]) -> str:
        axis = self.number(1, len(shape))
        start = self.number(0, shape[axis])
        step = self.number(1, 3)
        held = map(self.sizes, (start, self.number(start + 1, shape[axis] + 1), axis, step))
        return self.graph.layer("Slice", data, *held, same=bool(self.number(0, 2)))

    def _split(self, data: str, shape: tuple[int, ...]) -> str:
        axis = self.number(1, len(shape))
        if shape[axis] < 2:
            return self._function(data, shape)
        first = self.number(1, shape[axis])
        sizes = self.sizes(first, shape[axis] - first)
        node = self.graph.node("Split", data, sizes, axis=axis)
        self.graph.nodes[-1].output.append(f"{node}b")
        parts = [self.made(each, self.graph.scales[data]) for each in (node, f"{node}b")]
        self.tensors.append(parts[0])
        return parts[1]

    def _pad(self, data: str, shape: tuple[int, ...]) -> str:
        widths = [0, *(self.number(0, 3) for _ in shape[1:])]
        return self.graph.layer("Pad", data, self.sizes(*widths, *widths), same=bool(self.number(0, 2)))

    def _mean(self, data: str, shape: tuple[int, ...]) -> str:
        axis = self.number(1, len(shape))
        kept = 1 if len(shape) < 3 else self.number(0, 2)
        return self.graph.layer("ReduceMean", data, axes=[axis], keepdims=kept)

    def _transpose(self, data: str, shape: tuple[int, ...]) -> str:
        order = [0, *(int(each) + 1 for each in self.random.permutation(len(shape) - 1))]
        return self.graph.layer("Transpose", data, same=bool(self.number(0, 2)), perm=order)

    def _reshape(self, data: str, shape: tuple[int, ...]) -> str:
        """Two dimensions fused, or one split in two."""
        if len(shape) > 2 and self.number(0, 2):
            axis = self.number(1, len(shape) - 1)
            sizes = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        elif len(shape) < 4:
            axis = self.number(1, len(shape))
            first = self.choice([each for each in range(1, shape[axis] + 1) if shape[axis] % each == 0])
            sizes = (*shape[:axis], first, shape[axis] // first, *shape[axis + 1 :])
        else:
            sizes = shape[0], int(np.prod(shape[1:]))
        return self.graph.layer("Reshape", data, self.sizes(*sizes), same=True)

    def _clip(self, data: str, shape: tuple[int, ...]) -> str:
        """Clip a sum, before it is quantised to 8 bits."""
        del shape
        low, high = sorted(self.random.uniform(-1, 2, 2))
        limits = [self.graph.constant(np.array(each, np.float32)) for each in (low if self.number(0, 2) else 0, high)]
        made = self.graph.node("Clip", self.graph.node("Add", data, self.choice(self._alike(data))), *limits)
        return self.made(made, self.graph.scales[data])

    def _alike(self, data: str) -> list[str]:
        return [each for each in self.tensors if self.shape(each) == self.shape(data)]

    def _tensor_product(self, data: str, shape: tuple[int, ...]) -> str:
        """A matmul with a transposed tensor of the same shape."""
        if len(shape) < 3 or np.prod(shape[:-1]) * shape[-2] > LARGEST:
            return self._function(data, shape)
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        turned = self.graph.layer("Transpose", self.choice(self._alike(data)), same=True, perm=order)
        made = self.graph.node("MatMul", data, turned)
        return self.made(made, self.graph.scales[data] * np.sqrt(shape[-1]))


def _repeats(whole: tuple[int, ...], part: tuple[int, ...]) -> bool:
    sizes = whole[len(whole) - len(part) :]
    return len(part) <= len(whole) and all(n in (1, m) for n, m in zip(part, sizes, strict=True))


def _beside(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return len(a) == len(b) and all(n == m or place == axis for place, (n, m) in enumerate(zip(a, b, strict=True)))


def random_floats(model: onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """Values for a model's inputs, normally distributed."""
    generator = np.random.default_rng(seed)
    shapes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in model.graph.input}
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
