"""A pre-norm transformer block (Vaswani et al., 2017), sequence 128, width 256, 4 heads, with seeded weights.

python examples/models/transformer.py [-o transformer.onnx] [--length 128] [--width 256]
"""

import argparse

import numpy as np
import onnx
from float_graph import FloatGraph

HEADS = 4
WIDER = 4
"""The expansion factor of the feed-forward network."""


class _Block(FloatGraph):
    """Float nodes of a transformer, as PyTorch exports them."""

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def dense(self, data: str, depth: int, width: int, gain: float = 1) -> str:
        """A dense layer whose weights preserve variance, times ``gain``, with a bias."""
        weights = self.random.standard_normal((depth, width)) * gain / np.sqrt(depth)
        bias = self.random.standard_normal(width) * 0.1
        product = self.node("MatMul", data, self.constant(weights.astype(np.float32)))
        return self.node("Add", self.constant(bias.astype(np.float32)), product)

    def normalised(self, data: str, width: int) -> str:
        scale = self.random.uniform(0.8, 1.2, width).astype(np.float32)
        bias = (self.random.standard_normal(width) * 0.1).astype(np.float32)
        return self.node("LayerNormalization", data, self.constant(scale), self.constant(bias), axis=-1)

    def gelu(self, data: str) -> str:
        """x · (1 + erf(x / √2)) / 2"""
        inner = self.node("Erf", self.node("Div", data, self.number(np.sqrt(2))))
        whole = self.node("Mul", data, self.node("Add", inner, self.number(1)))
        return self.node("Mul", whole, self.number(0.5))

    def heads(self, data: str, length: int, width: int, order: tuple[int, ...]) -> str:
        """(1, length, width) reshaped to (1, length, heads, width / heads), and transposed."""
        shape = self.constant(np.array([1, length, HEADS, width // HEADS], np.int64))
        return self.node("Transpose", self.node("Reshape", data, shape), perm=order)

    def attention(self, data: str, length: int, width: int) -> str:
        queries, keys, values = (self.dense(data, width, width) for _ in range(3))
        # Twice the usual scale: scores of seeded weights are smaller than trained ones, and softmax would be flat.
        scaled = self.node("Mul", queries, self.number(2 / np.sqrt(width // HEADS)))
        scores = self.node(
            "MatMul",
            self.heads(scaled, length, width, (0, 2, 1, 3)),
            self.heads(keys, length, width, (0, 2, 3, 1)),
        )
        mixed = self.node(
            "MatMul", self.node("Softmax", scores, axis=-1), self.heads(values, length, width, (0, 2, 1, 3))
        )
        shape = self.constant(np.array([1, length, width], np.int64))
        return self.dense(self.node("Reshape", self.node("Transpose", mixed, perm=(0, 2, 1, 3)), shape), width, width)


def transformer(length: int = 128, width: int = 256, seed: int = 0) -> onnx.ModelProto:
    """Input "tokens" and output "mixed", (1, length, width) each."""
    graph = _Block("transformer", seed)
    data = graph.node("Add", "tokens", graph.attention(graph.normalised("tokens", width), length, width))
    inner = graph.gelu(graph.dense(graph.normalised(data, width), width, WIDER * width))
    graph.node("Add", data, graph.dense(inner, WIDER * width, width, gain=np.sqrt(2)))
    graph.name_last("mixed")
    return graph.model({"tokens": (1, length, width)}, {"mixed": (1, length, width)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default="transformer.onnx")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    given = parser.parse_args()
    onnx.save(transformer(given.length, given.width), given.output)


if __name__ == "__main__":
    main()
