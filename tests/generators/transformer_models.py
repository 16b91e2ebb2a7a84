"""A float transformer block in ONNX, with seeded weights: normalisation, attention and a two-layer MLP."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper


class _Block:
    """An ONNX graph under construction."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []

    def constant(self, values: NDArray[Any]) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def numbers(self, *values: float) -> str:
        return self.constant(np.array(values if len(values) > 1 else values[0], np.float32))

    def linear(self, data: str, width: int, filters: int, name: str) -> str:
        weights = (self.random.standard_normal((width, filters)) / np.sqrt(width)).astype(np.float32)
        made = self.node("MatMul", data, self.constant(weights), name=name)
        bias = (self.random.standard_normal(filters) * 0.1).astype(np.float32)
        return self.node("Add", made, self.constant(bias), name=f"{name}_bias")

    def normalised(self, data: str, width: int, name: str, *, chain: bool) -> str:
        """Layer normalisation over the last axis: as one node, or as exporters express it before opset 17."""
        scale = self.constant(self.random.uniform(0.5, 1.5, width).astype(np.float32))
        bias = self.constant((self.random.standard_normal(width) * 0.1).astype(np.float32))
        if not chain:
            return self.node("LayerNormalization", data, scale, bias, name=name, axis=-1, epsilon=1e-5)
        mean = self.node("ReduceMean", data, axes=[-1], name=f"{name}_mean")
        less = self.node("Sub", data, mean, name=f"{name}_less")
        square = self.node("Pow", less, self.numbers(2.0), name=f"{name}_square")
        variance = self.node("ReduceMean", square, axes=[-1], name=f"{name}_variance")
        root = self.node("Sqrt", self.node("Add", variance, self.numbers(1e-5)), name=f"{name}_root")
        made = self.node("Mul", self.node("Div", less, root), scale)
        return self.node("Add", made, bias, name=name)

    def split(self, data: str, rows: int, width: int, heads: int, order: tuple[int, ...], name: str) -> str:
        shape = self.constant(np.array([1, rows, heads, width // heads], np.int64))
        parted = self.node("Reshape", data, shape, name=f"{name}_heads")
        return self.node("Transpose", parted, perm=list(order), name=f"{name}_turned")


def transformer_block(
    rows: int = 128, width: int = 256, heads: int = 4, *, chain: bool = False, normalised: bool = True, seed: int = 0
) -> onnx.ModelProto:
    """A block with input "x" (1, rows, width) and an equal output. ``chain``: normalisation as a chain of nodes.

    If not ``normalised``: attention alone, without normalisation and MLP.
    """
    block = _Block(seed)
    data = block.normalised("x", width, "norm1", chain=chain) if normalised else "x"
    q, k, v = (block.linear(data, width, width, name) for name in "qkv")
    q = block.split(q, rows, width, heads, (0, 2, 1, 3), "q")
    k = block.split(k, rows, width, heads, (0, 2, 3, 1), "k")
    v = block.split(v, rows, width, heads, (0, 2, 1, 3), "v")
    scores = block.node("MatMul", q, k, name="scores")
    scores = block.node("Mul", scores, block.numbers(float((width // heads) ** -0.5)), name="scaled")
    weights = block.node("Softmax", scores, axis=-1, name="softmax")
    mixed = block.node("MatMul", weights, v, name="mixed")
    joined = block.node("Transpose", mixed, perm=[0, 2, 1, 3], name="turned_back")
    joined = block.node("Reshape", joined, block.constant(np.array([1, rows, width], np.int64)), name="joined")
    made = block.linear(joined, width, width, "out")
    made = block.node("Add", made, "x", name="residual1")
    if normalised:
        inner = block.normalised(made, width, "norm2", chain=chain)
        inner = block.linear(inner, width, 4 * width, "wide")
        erf = block.node("Erf", block.node("Mul", inner, block.numbers(2**-0.5)))
        gelu = block.node("Mul", block.node("Mul", inner, block.node("Add", erf, block.numbers(1.0))),
                          block.numbers(0.5), name="gelu")  # fmt: skip
        made = block.node("Add", block.linear(gelu, 4 * width, width, "narrow"), made, name="residual2")
    shape = (1, rows, width)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    made_info = [helper.make_tensor_value_info(made, TensorProto.FLOAT, shape)]
    graph = helper.make_graph(block.nodes, "transformer", given, made_info, block.held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
