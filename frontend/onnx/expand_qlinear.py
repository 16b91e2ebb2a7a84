"""Operators that compute on 8 bits in one node, seen as DequantizeLinear, the operator in float and QuantizeLinear.

QLinearConv is a Conv between them, whose bias is dequantised, too; a MaxPool of bytes is one of the numbers that they
are by a scale of 1. So there is one way in which layers are recognised. The model itself stays as it is: each node of
the view has the number of the node that the host would run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.qdq_values import BYTES
from lathe.frontend.onnx.quantisation_checks import key_of
from lathe.frontend.onnx.reading import Model, attributes_of
from lathe.frontend.onnx.rewritten_model import RewrittenModel
from lathe.frontend.onnx.shapes import inferred
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES, TensorType, type_of

MICROSOFT = "com.microsoft"
MOST_ELEMENTS = 1024
"""Constants of more elements say nothing about shapes: inference does without their values."""


@dataclass(frozen=True)
class _Form:
    """What an operator of 8 bits is: ``kind`` in float, and which inputs are what.

    Behind each of the ``operands`` stand its scale and its zero point; at ``result`` the scale of the result, and then
    its zero point. ``bias`` is of 32 bits, in units of the products of both operands' scales.
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
"""ONNX's QLinear operators, and onnxruntime's, by domain and name."""

_MOVES = frozenset(
    {
        "Clip", "Concat", "Flatten", "Identity", "Max", "MaxPool", "Min", "Pad", "Relu", "Reshape", "Resize", "Slice",
        "Split", "Squeeze", "Transpose", "Unsqueeze", "Upsample",
    }
)  # fmt: skip
"""Operators whose results are some of the numbers that they read, or 0."""
_OF_SEVERAL = ("Concat", "Max", "Min")
"""Those of them all of whose inputs are data."""


def view_of(model: Model) -> RewrittenModel:
    """The view of a model; the model itself where there is nothing to be seen otherwise."""
    view = RewrittenModel(model, range(len(model.nodes)))
    if any(key_of(node) in _FORMS or key_of(node) == (MICROSOFT, "QLinearConcat") for node in model.nodes):
        view = _Writer(view).operators()
    return _Writer(view).moves()


class _Writer:
    """A view whose nodes are written anew, with constants and types that the model has not."""

    def __init__(self, view: RewrittenModel) -> None:
        self.view, self.model = view, view.model
        self.helper = extra("onnx.helper")
        self.held: dict[str, Any] = {}
        self.types: dict[str, TensorType] = {}

    def operators(self) -> RewrittenModel:
        """Operators with scales of their own: their shapes are inferred of the operators in float."""
        return self._written(self._of_operator, inferred=True)

    def moves(self) -> RewrittenModel:
        """Operators on bytes, whoever has made them: of a scale of 1."""
        return self._written(self._of_move, inferred=False)

    def _written(self, of_node: Callable[[Any], list[Any] | None], *, inferred: bool) -> RewrittenModel:
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
        """DequantizeLinear of each operand, the operator, and QuantizeLinear; None where it must stay as it is."""
        name, key = str(node.output[0]), key_of(node)
        attributes = attributes_of(node)
        if attributes.pop("channels_last", 0):
            return None
        attributes.pop("opset", None)  # of QLinearSoftmax: which Softmax it is
        if key == (MICROSOFT, "QLinearConcat"):
            form = _Form("Concat", tuple(range(2, len(node.input), 3)), 0)
        elif key in _FORMS:
            form = _FORMS[key]
        else:
            return None
        wanted = [place + n for place in form.operands for n in range(3)] + [form.result, form.result + 1]
        if any(place >= len(node.input) or not node.input[place] for place in wanted):
            return None  # a zero point that is left out, or a result in float
        nodes, inside = list[Any](), list[str]()
        for number, place in enumerate(form.operands):
            nodes.append(self._dequantised(node.input[place : place + 3], f"{name}:operand{number}"))
            inside.append(f"{name}:operand{number}")
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
            inside.append(f"{name}:bias")
        core = self.helper.make_node(form.kind, inside, [f"{name}:float"], node.name or name, **attributes)
        how = node.input[form.result : form.result + 2]
        return [*nodes, core, self.helper.make_node("QuantizeLinear", [f"{name}:float", *how], [name])]

    def _unit(self, node: Any, form: _Form) -> NDArray[Any] | None:
        """What a bias of 1 stands for; None where scales are no constants."""
        scales = [self.model.constant(node.input[place + 1]) for place in form.operands]
        if scales[0] is None or scales[1] is None:
            return None
        unit: NDArray[Any] = scales[0].astype(np.float32) * scales[1].astype(np.float32)
        return unit.reshape(-1) if unit.size > 1 else unit.reshape(())

    def _of_move(self, node: Any) -> list[Any] | None:
        """The operator on numbers of a scale of 1; None where it stays as it is."""
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
        how = [
            self._constant(f"{name}:one", np.ones((), np.float32)),
            self._constant(f"{name}:zero", np.full((), zero, dtype)),
        ]
        nodes = list[Any]()
        for number, source in enumerate(data):
            inputs[number] = f"{name}:operand{number}"
            self.types[inputs[number]] = TensorType("float32", types[source].shape)
            nodes.append(self._dequantised([source, *how], inputs[number]))
        core = self.helper.make_node(kind, inputs, [f"{each}:float" for each in outputs], node.name or name)
        core.attribute.extend(node.attribute)
        nodes.append(core)
        for each in outputs:
            self.types[f"{each}:float"] = TensorType("float32", types[each].shape)
            nodes.append(self.helper.make_node("QuantizeLinear", [f"{each}:float", *how], [each]))
        return nodes

    def _dequantised(self, inputs: Sequence[str], output: str) -> Any:
        return self.helper.make_node("DequantizeLinear", list(inputs), [output])

    def _constant(self, name: str, values: NDArray[Any]) -> str:
        self.held[name] = extra("onnx.numpy_helper").from_array(np.asarray(values), name)
        self.types[name] = TensorType(str(values.dtype), values.shape)
        return name


def _axis_of_filters(kind: str, attributes: Mapping[str, Any]) -> int:
    """The dimension of weights along which filters lie, which may have scales of their own."""
    return 0 if kind == "Conv" or attributes.get("transB", 0) else 1


def _inferred(model: Model) -> dict[str, TensorType]:
    """The types of the tensors that nodes make. The values of large constants are left out."""
    onnx = extra("onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    small = {name: each for name, each in model.initializers.items() if np.prod(each.dims) <= MOST_ELEMENTS}
    number_of = {name: number for number, name in DTYPES_OF_TYPES.items()}
    for name in (*model.inputs, *(name for name in model.initializers if name not in small)):
        known = model.types.get(name)  # None of what is no tensor
        if known is not None and known.dtype in number_of:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, number_of[known.dtype], known.shape))
    proto.graph.initializer.extend(small.values())
    found, _ = inferred(proto, model.name, strict=False)
    types = {each.name: type_of(each) for each in found.graph.value_info}
    return {name: known for name, known in types.items() if known is not None}
