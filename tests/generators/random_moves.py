"""Random models with data movement, pools and Relu between matmuls and the Q/DQ of their inputs and outputs."""

from typing import Any

import numpy as np
import onnx
from qdq_models import QdqModel

MOVES = ("transpose", "transpose", "reshape", "slice", "split", "pad", "concat", "unsqueeze", "relu", "clip", "repeat")
LARGEST = 2000
"""Tensors with more elements are not enlarged."""


class RandomMoves:
    """A model of some layers; ``outputs`` are its results and some intermediate tensors.

    Their values are the allowed differences from onnxruntime's results.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.graph = QdqModel(seed, dtype=str(self.random.choice(["int8", "uint8"])))
        self.outputs: dict[str, float] = {}
        rank = int(self.random.choice([2, 3, 4]))
        data = self.graph.input(*(self.number(1, 9) for _ in range(rank)))
        for _ in range(self.number(1, 4)):
            data = self._layer(data)
        self.outputs[data] = self.graph.scales[data]

    @property
    def model(self) -> onnx.ModelProto:
        """The model, checked."""
        return self.graph.model(*self.outputs)

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.graph.shapes:
            self.graph.shapes[name] = self.graph.shape_of(name)
        return self.graph.shapes[name]

    def sizes(self, *numbers: int) -> str:
        return self.graph.constant(np.array(numbers, np.int64))

    def _layer(self, data: str) -> str:
        """Data movement, a matmul, data movement, quantisation; a later layer may move the same data differently."""
        scale = self.graph.scales[data]
        moved = self._moved(data, data)
        made = self._product(moved)
        if self.number(0, 2):
            made = self.graph.node("Relu", made)
        depth = np.prod(self.shape(made)) ** 0.25
        moved = self._moved(made, made)
        if self.number(0, 8) == 0 and moved != made:
            self.outputs[made] = 2.0**-10  # float sums, in any order
        if self.number(0, 8) == 0:
            self.outputs[moved] = 2.0**-10
        found = self.graph.quantised(moved, scale * float(depth) * 0.2)
        self.graph.shapes[found] = self.shape(moved)
        return found

    def _product(self, data: str) -> str:
        shape = self.shape(data)
        if len(shape) >= 3 and self.number(0, 3) == 0 and np.prod(shape) * shape[-2] < 4 * LARGEST:
            order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            return self.graph.node("MatMul", data, self.graph.node("Transpose", data, perm=order))
        if len(shape) in (3, 4) and self.number(0, 2):
            kernel = [self.number(1, min(3, size) + 1) for size in shape[2:]]
            weights = self._weights(self.number(1, 12), shape[1], *kernel, axis=0)
            return self.graph.node("Conv", data, weights, kernel_shape=kernel, pads=[taps // 2 for taps in kernel * 2])
        if len(shape) == 2 and self.number(0, 2):
            return self.graph.node("Gemm", data, self._weights(self.number(1, 12), shape[1], axis=0), transB=1)
        return self.graph.node("MatMul", data, self._weights(shape[-1], self.number(1, 12), axis=1))

    def _weights(self, *shape: int, axis: int) -> str:
        """Weights of a shape, perhaps stored permuted and transposed after DequantizeLinear."""
        per_channel = bool(self.number(0, 2))
        if self.number(0, 2):
            return self.graph.weights(*shape, axis=axis, per_channel=per_channel)[0]
        order = [int(each) for each in self.random.permutation(len(shape))]
        back = [order.index(each) for each in range(len(shape))]
        wide = [shape[each] for each in order]
        held, _ = self.graph.weights(*wide, axis=order.index(axis), per_channel=per_channel)
        return self.graph.node("Transpose", held, perm=back)

    def _moved(self, data: str, first: str) -> str:
        for _ in range(self.number(0, 4)):
            shape = self.shape(data)
            kind = self.random.choice([*MOVES, *(("pool", "pool") if len(shape) in (3, 4) else ())])
            data = getattr(self, f"_{kind}")(data, shape, first)
        return data

    def _transpose(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del first
        return self.graph.node("Transpose", data, perm=[int(each) for each in self.random.permutation(len(shape))])

    def _reshape(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del first
        if len(shape) > 2:
            axis = self.number(0, len(shape) - 1)
            return self.graph.node("Reshape", data, self.sizes(*shape[:axis], -1, *shape[axis + 2 :]))
        first_size = int(self.random.choice([each for each in range(1, shape[0] + 1) if shape[0] % each == 0]))
        return self.graph.node("Reshape", data, self.sizes(first_size, -1, *shape[1:]))

    def _slice(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del first
        axis = self.number(0, len(shape))
        start = self.number(0, shape[axis])
        bounds = start, self.number(start + 1, shape[axis] + 1), axis, self.number(1, 3)
        return self.graph.node("Slice", data, *map(self.sizes, bounds))

    def _split(self, data: str, shape: tuple[int, ...], first: str) -> str:
        """Split in two: one becomes an output of its own, or both are concatenated in the other order."""
        del first
        axis = self.number(0, len(shape))
        if shape[axis] < 2:
            return data
        size = self.number(1, shape[axis])
        made = self.graph.node("Split", data, self.sizes(size, shape[axis] - size), axis=axis)
        other = f"{made}b"
        self.graph.nodes[-1].output.append(other)
        what = self.number(0, 3)
        if what == 0:
            return self.graph.node("Concat", other, made, axis=axis)
        if what == 1:
            own = self.graph.quantised(other, float(self.random.uniform(0.05, 0.3)))
            self.outputs[own] = self.graph.scales[own]
        return made

    def _pad(self, data: str, shape: tuple[int, ...], first: str) -> str:
        if np.prod(shape) > LARGEST:
            return self._slice(data, shape, first)
        widths = [self.number(0, 2) for _ in shape * 2]
        value = [self.graph.constant(np.array(self.random.choice([0.0, 0.3, 1.0]), np.float32))] * self.number(0, 2)
        return self.graph.node("Pad", data, self.sizes(*widths), *value)

    def _concat(self, data: str, shape: tuple[int, ...], first: str) -> str:
        """Concatenation with itself, or with the tensor that it was computed from."""
        if np.prod(shape) > LARGEST:
            return self._slice(data, shape, first)
        other = first if self.shape(first) == shape and self.number(0, 2) else data
        return self.graph.node("Concat", other, data, axis=self.number(0, len(shape)))

    def _unsqueeze(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del first
        if len(shape) > 3 or 1 in shape:
            axis = shape.index(1) if 1 in shape and len(shape) > 2 else None
            return data if axis is None else self.graph.node("Squeeze", data, self.sizes(axis))
        return self.graph.node("Unsqueeze", data, self.sizes(self.number(0, len(shape) + 1)))

    def _relu(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del shape, first
        return self.graph.node("Relu", data)

    def _clip(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del shape, first
        limits: list[Any] = [self.random.choice([-100.0, 0.0, -0.7]), self.random.choice([0.5, 1.0, 100.0])]
        return self.graph.node("Clip", data, *(self.graph.constant(np.array(each, np.float32)) for each in limits))

    def _repeat(self, data: str, shape: tuple[int, ...], first: str) -> str:
        if len(shape) != 4 or np.prod(shape) > LARGEST:
            return self._transpose(data, shape, first)
        scales = self.graph.constant(np.array([1, 1, self.number(1, 3), self.number(1, 3)], np.float32))
        return self.graph.node(
            "Resize", data, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )  # fmt: skip

    def _pool(self, data: str, shape: tuple[int, ...], first: str) -> str:
        del first
        kernel = [self.number(1, min(3, size) + 1) for size in shape[2:]]
        strides = [self.number(1, 3) for _ in kernel]
        pads = [self.number(0, taps) for taps in kernel * 2]
        return self.graph.node("MaxPool", data, kernel_shape=kernel, strides=strides, pads=pads)
