"""Decomposition of onnxruntime's fused operators into standard ONNX operators, for layer matching.

    DynamicQuantizeMatMul   DynamicQuantizeLinear of the data, and MatMulIntegerToFloat
    MatMulIntegerToFloat    MatMulInteger, Cast, Mul by both scales, Add of a bias

8-bit QuantizeLinear and DequantizeLinear of its domain become ONNX's.
"""

from typing import Any

from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import all_names, unique_name

MICROSOFT = "com.microsoft"
_FIRST_OPSETS = {"QuantizeLinear": 13, "DequantizeLinear": 13, "MatMulIntegerToFloat": 10, "DynamicQuantizeMatMul": 11}
"""The first ONNX opset that has the operators of the decomposition."""


def decompose_fused_ops(proto: Any) -> bool:
    """Decompose the fused operators of a model; whether there was any."""
    opset = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), 0)
    graph = proto.graph
    chosen = [
        node.domain == MICROSOFT
        and opset >= _FIRST_OPSETS.get(node.op_type, opset + 1)
        and len(node.output) == 1
        and len(node.input) > 2  # onnxruntime accepts no others
        for node in graph.node
    ]
    if not any(chosen):
        return False
    rewriter = _Rewriter(graph)
    pairs = zip(graph.node, chosen, strict=True)
    nodes = [made for node, is_chosen in pairs for made in (rewriter.rewritten(node) if is_chosen else [node])]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return rewriter.changed


class _Rewriter:
    def __init__(self, graph: Any) -> None:
        self.taken = all_names(graph)
        self.types = {each.name: each.data_type for each in graph.initializer}
        self.make = optional_import("onnx.helper").make_node
        self.changed = False

    def fresh(self, name: str) -> str:
        return unique_name(name, self.taken)

    def rewritten(self, node: Any) -> list[Any]:
        """The decomposition of a node, or the node itself."""
        made = [node]
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            made = self._of_bytes(node)
        elif node.op_type == "DynamicQuantizeMatMul":
            data, weights, scale, zero, bias = _padded_names(node.input, 5)
            name = node.name or node.output[0]
            parts = [self.fresh(f"{name}/{part}") for part in ("data", "scale", "zero")]
            quantised = self.make("DynamicQuantizeLinear", [data], parts, f"{name}/quantised")
            made = [quantised, *self._product(node, (parts[0], weights), (parts[1], scale), (parts[2], zero), bias)]
        elif node.op_type == "MatMulIntegerToFloat":
            a, b, scale_a, scale_b, zero_a, zero_b, bias = _padded_names(node.input, 7)
            made = self._product(node, (a, b), (scale_a, scale_b), (zero_a, zero_b), bias)
        self.changed |= made != [node]
        return made

    def _of_bytes(self, node: Any) -> list[Any]:
        """ONNX's own operator, if the zero point is of 8 bits."""
        *_, zero = _padded_names(node.input, 3)
        types = optional_import("onnx").TensorProto
        if self.types.get(zero) not in (types.INT8, types.UINT8):
            return [node]
        made = type(node).FromString(node.SerializeToString())
        made.domain = ""
        return [made]

    def _product(
        self, node: Any, operands: tuple[str, str], scales: tuple[str, str], zeros: tuple[str, str], bias: str
    ) -> list[Any]:
        """MatMulInteger, under the node's name, and the multiplication by both scales."""
        name, output = node.name or node.output[0], node.output[0]
        inputs = [*operands, *zeros]
        while not inputs[-1]:
            inputs.pop()
        sums, numbers, scale = (self.fresh(f"{name}/{part}") for part in ("sums", "numbers", "scales"))
        scaled = self.fresh(f"{name}/scaled") if bias else output
        made = [
            self.make("MatMulInteger", inputs, [sums], name),
            self.make("Cast", [sums], [numbers], f"{name}/numbers", to=optional_import("onnx").TensorProto.FLOAT),
            self.make("Mul", list(scales), [scale], f"{name}/scales"),
            self.make("Mul", [numbers, scale], [scaled], f"{name}/scaled"),
        ]
        return [*made, self.make("Add", [scaled, bias], [output], f"{name}/bias")] if bias else made


def _padded_names(names: Any, count: int) -> list[str]:
    """``count`` names, padded with "" for omitted inputs at the end."""
    return [*names, *[""] * (count - len(names))][:count]
