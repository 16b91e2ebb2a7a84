"""Expansion of 8-bit operators to QDQ form: DequantizeLinear, the float operator and QuantizeLinear.

QLinearConv becomes a Conv with a dequantised bias; a MaxPool of bytes becomes one of floats with a scale of 1. So
layers are matched in one form. The model stays as it is: each rewritten node has the number of its original, which the
host CPU runs if no layer matches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.qdq_values import BYTES
from lathe.frontend.onnx.quantisation_checks import key_of
from lathe.frontend.onnx.reading import Model, attributes_of
from lathe.frontend.onnx.rewritten_model import RewrittenModel
from lathe.frontend.onnx.shapes import inferred
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES, TensorType, type_of

MICROSOFT = "com.microsoft"
MOST_ELEMENTS = 1024
"""Shape inference gets no values of constants with more elements: these do not determine shapes."""


@dataclass(frozen=True)
class _Form:
    """The float operator ``kind`` of an 8-bit operator, and the numbers of its inputs.

    The scale and zero point of each of the ``operands`` follow it; ``result`` is the scale of the result, which its
    zero point follows. ``bias`` is int32, with the product of both operands' scales as its scale.
    """

    kind: str
    operands: tuple[int, ...]
    result: int
    bias: int | None = None


_FORMS: Mapping[tuple[str, str], _Form] = {
    ("", "QLinearConv"): _Form("Conv", (0, 3), 6, 8),
    ("", "QLinearMatMul"): _Form("MatMul", (0, 3), 6),
    (MICROSOFT, "QGemm"): _Form("Gemm", (0, 3), 7, 6),
    (MICROSOFT, "QLinearAdd"): _Form("Add", (0, 3), 6),
    (MICROSOFT, "QLinearAveragePool"): _Form("AveragePool", (0,), 3),
    (MICROSOFT, "QLinearGlobalAveragePool"): _Form("GlobalAveragePool", (0,), 3),
    (MICROSOFT, "QLinearLeakyRelu"): _Form("LeakyRelu", (0,), 3),
    (MICROSOFT, "QLinearMul"): _Form("Mul", (0, 3), 6),
    (MICROSOFT, "QLinearReduceMean"): _Form("ReduceMean", (0,), 3),
    (MICROSOFT, "QLinearSigmoid"): _Form("Sigmoid", (0,), 3),
    (MICROSOFT, "QLinearSoftmax"): _Form("Softmax", (0,), 3),
}
"""QLinear operators of ONNX and onnxruntime, by domain and name."""

_MOVES = frozenset(
    {
        "Clip", "Concat", "Flatten", "Identity", "Max", "MaxPool", "Min", "Pad", "Relu", "Reshape", "Resize", "Slice",
        "Split", "Squeeze", "Transpose", "Unsqueeze", "Upsample",
    }
)  # fmt: skip
"""Operators whose results are values of their inputs, or 0."""
_OF_SEVERAL = ("Concat", "Max", "Min")
"""Operators of ``_MOVES`` whose inputs are all data."""


def expand_qlinear(model: Model) -> RewrittenModel:
    """The model in QDQ form."""
    view = RewrittenModel(model, range(len(model.nodes)))
    if any(key_of(node) in _FORMS or key_of(node) == (MICROSOFT, "QLinearConcat") for node in model.nodes):
        view = _Rewriter(view).operators()
    return _Rewriter(view).moves()


class _Rewriter:
    """Rewrites the nodes of a model, and collects new constants and types."""

    def __init__(self, view: RewrittenModel) -> None:
        self.view, self.model = view, view.model
        self.helper = optional_import("onnx.helper")
        self.held: dict[str, Any] = {}
        self.types: dict[str, TensorType] = {}

    def operators(self) -> RewrittenModel:
        """Expand QLinear operators, whose result shapes are inferred from the float operators."""
        return self._rewritten(self._of_operator, inferred=True)

    def moves(self) -> RewrittenModel:
        """Expand data movement and selection of bytes, with a scale of 1."""
        return self._rewritten(self._of_move, inferred=False)

    def _rewritten(self, of_node: Callable[[Any], list[Any] | None], *, inferred: bool) -> RewrittenModel:
        nodes, origins = list[Any](), list[int]()
        for number, node in zip(self.view.origins, self.model.nodes, strict=True):
            found = of_node(node)
            nodes += [node] if found is None else found
            origins += [number] * (1 if found is None else len(found))
        if len(nodes) == len(self.model.nodes):
            return self.view
        made = self.view.with_nodes(nodes, origins, self.held, self.types)
        if inferred:
            made.model.types.update(_inferred(made.model))
        return made

    def _of_operator(self, node: Any) -> list[Any] | None:
        """DequantizeLinear of each operand, the operator, and QuantizeLinear; None if it is not expanded."""
        name, key = str(node.output[0]), key_of(node)
        attributes = attributes_of(node)
        if attributes.pop("channels_last", 0):
            return None
        attributes.pop("opset", None)  # of QLinearSoftmax: the opset of its Softmax
        if key == (MICROSOFT, "QLinearConcat"):
            form = _Form("Concat", tuple(range(2, len(node.input), 3)), 0)
        elif key in _FORMS:
            form = _FORMS[key]
        else:
            return None
        required = [index + n for index in form.operands for n in range(3)] + [form.result, form.result + 1]
        if any(index >= len(node.input) or not node.input[index] for index in required):
            return None  # no zero point, or a float result
        nodes, core_inputs = list[Any](), list[str]()
        for number, index in enumerate(form.operands):
            nodes.append(self._dequantised(node.input[index : index + 3], f"{name}:operand{number}"))
            core_inputs.append(f"{name}:operand{number}")
        if form.kind in ("Conv", "Gemm"):
            nodes[1].attribute.append(self.helper.make_attribute("axis", _axis_of_filters(form.kind, attributes)))
        if form.bias is not None and len(node.input) > form.bias and node.input[form.bias]:
            unit = self._unit(node, form)
            if unit is None:
                return None
            scale = self._constant(f"{name}:unit", unit * np.float32(attributes.get("alpha", 1)))
            dequantised = self._dequantised([node.input[form.bias], scale], f"{name}:bias")
            dequantised.attribute.append(self.helper.make_attribute("axis", 0))
            nodes.append(dequantised)
            core_inputs.append(f"{name}:bias")
        core = self.helper.make_node(form.kind, core_inputs, [f"{name}:float"], node.name or name, **attributes)
        qparams = node.input[form.result : form.result + 2]
        return [*nodes, core, self.helper.make_node("QuantizeLinear", [f"{name}:float", *qparams], [name])]

    def _unit(self, node: Any, form: _Form) -> NDArray[Any] | None:
        """The scale of the bias; None if the scales of the operands are computed."""
        scales = [self.model.constant(node.input[index + 1]) for index in form.operands]
        if scales[0] is None or scales[1] is None:
            return None
        unit: NDArray[Any] = scales[0].astype(np.float32) * scales[1].astype(np.float32)
        return unit.reshape(-1) if unit.size > 1 else unit.reshape(())

    def _of_move(self, node: Any) -> list[Any] | None:
        """DequantizeLinear and QuantizeLinear with a scale of 1 around the operator; None if it is not expanded."""
        domain, kind = key_of(node)
        outputs = [name for name in node.output if name]
        types = self.model.types
        if domain or kind not in _MOVES or not all(name in types for name in outputs):
            return None
        data = list(node.input) if kind in _OF_SEVERAL else list(node.input[:1])
        dtypes = {types[name].dtype if name in types else "" for name in (*data, *outputs)}
        if len(dtypes) != 1 or not dtypes <= {*BYTES}:
            return None
        inputs, zero = list(node.input), 0
        if kind == "Pad" and len(inputs) > 2 and inputs[2]:
            filling = self.model.constant(inputs[2])
            if filling is not None:
                zero, inputs[2] = int(filling.reshape(-1)[0]), ""
        (dtype,), name = dtypes, outputs[0]
        qparams = [
            self._constant(f"{name}:one", np.ones((), np.float32)),
            self._constant(f"{name}:zero", np.full((), zero, dtype)),
        ]
        nodes = list[Any]()
        for number, source in enumerate(data):
            inputs[number] = f"{name}:operand{number}"
            self.types[inputs[number]] = TensorType("float32", types[source].shape)
            nodes.append(self._dequantised([source, *qparams], inputs[number]))
        core = self.helper.make_node(kind, inputs, [f"{each}:float" for each in outputs], node.name or name)
        core.attribute.extend(node.attribute)
        nodes.append(core)
        for each in outputs:
            self.types[f"{each}:float"] = TensorType("float32", types[each].shape)
            nodes.append(self.helper.make_node("QuantizeLinear", [f"{each}:float", *qparams], [each]))
        return nodes

    def _dequantised(self, inputs: Sequence[str], output: str) -> Any:
        return self.helper.make_node("DequantizeLinear", list(inputs), [output])

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        self.held[name] = optional_import("onnx.numpy_helper").from_array(np.asarray(values), name)
        self.types[name] = TensorType(str(values.dtype), values.shape)
        return name


def _axis_of_filters(kind: str, attributes: Mapping[str, Any]) -> int:
    """The output channel axis of weights, which may have per-channel scales."""
    return 0 if kind == "Conv" or attributes.get("transB", 0) else 1


def _inferred(model: Model) -> dict[str, TensorType]:
    """The inferred types of node outputs, without the values of large constants."""
    onnx = optional_import("onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    small = {name: each for name, each in model.initializers.items() if np.prod(each.dims) <= MOST_ELEMENTS}
    number_of = {name: number for number, name in DTYPES_OF_TYPES.items()}
    for name in (*model.inputs, *(name for name in model.initializers if name not in small)):
        known = model.types.get(name)  # None for values that are not tensors
        if known is not None and known.dtype in number_of:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, number_of[known.dtype], known.shape))
    proto.graph.initializer.extend(small.values())
    found, _ = inferred(proto, model.name, strict=False)
    types = {each.name: type_of(each) for each in found.graph.value_info}
    return {name: known for name, known in types.items() if known is not None}
