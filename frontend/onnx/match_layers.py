"""Nodes between DequantizeLinear and QuantizeLinear, each such group as one layer of whole numbers.

A layer is found from its QuantizeLinear upwards: activations, one operator, and its operands, which are dequantised.
What is not found stays with the host, and ``reasons`` says why.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from lathe.frontend.onnx.binary_ops import PAIRS
from lathe.frontend.onnx.convolutions import CONVOLUTIONS
from lathe.frontend.onnx.data_movement import MOVES, quantised
from lathe.frontend.onnx.expand_qlinear import view_of
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.integer_ops import INTEGERS
from lathe.frontend.onnx.match_clip import limits_of
from lathe.frontend.onnx.match_epilogue import AfterProduct, after_product
from lathe.frontend.onnx.matmul import PRODUCTS
from lathe.frontend.onnx.pools import POOLS
from lathe.frontend.onnx.propagate_qdq import with_moves_in_bytes
from lathe.frontend.onnx.qdq_groups import NodeGroup, Operands, Recognised, greatest_sum
from lathe.frontend.onnx.quant_graph import (
    SUMS,
    Conv,
    ConvTranspose,
    Layer,
    Lookup,
    Product,
    TensorProduct,
    Times,
)
from lathe.frontend.onnx.quantisation_checks import check_quantisation
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.tabulate_unary import function_above, tabulated
from lathe.frontend.onnx.unroll_rnn import RECURRENT, check_unrolls
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.tensor.rescale_parameters import FACTOR_LIMIT

Maker: TypeAlias = Callable[[Operands, NodeGroup], Layer]
_MAKERS: Mapping[str, Maker] = {**CONVOLUTIONS, **MOVES, **PAIRS, **POOLS, **PRODUCTS}
_OF_ITS_DATA = frozenset({*MOVES, "Max", "MaxPool", "Min"})
"""Operators whose results are values of their data, and not brought to 8 bits by the layer."""


def recognise(model: Model) -> Recognised:
    """The layers of a model. Types of tensors that are found with them are noted in the model.

    Raises ModelError for scales that are no positive numbers, and where scales, zero points or biases are too many or
    too few.
    """
    check_quantisation(model)
    view = with_moves_in_bytes(view_of(model))
    recogniser = _Recogniser(view)
    found = recogniser.run()
    recogniser.add_sums(tensors_of_the_host(model, found))
    given = {name for node in model.nodes for name in node.output}
    found.layers = _wanted(found.layers, given)
    for name, layer in found.layers.items():
        found.layers[name] = replace(layer, nodes=tuple(sorted({view.origins[number] for number in layer.nodes})))
    made = given | {*found.layers}
    model.types.update({name: known for name, known in view.model.types.items() if name in made})
    return Recognised(found.layers, {view.origins[number]: reason for number, reason in found.reasons.items()})


def _wanted(layers: Mapping[str, Layer], given: set[str]) -> dict[str, Layer]:
    """The layers by what they make, but for those of tensors that no node makes and no other layer reads."""
    ahead = [name for name in layers if name in given]
    found = set[str]()
    while ahead:
        name = ahead.pop()
        if name in layers and name not in found:
            found.add(name)
            ahead += layers[name].inputs
    return {name: layer for name, layer in layers.items() if name in found}


class _Recogniser(Operands):
    def run(self) -> Recognised:
        for number, node in enumerate(self.model.nodes):
            if node.op_type != "QuantizeLinear" or node.domain not in ("", "ai.onnx"):
                continue
            try:
                layer = self._layer(number, node)
            except NotOffloadable as reason:
                self.found.reasons.update(dict.fromkeys(self._above(number, node), str(reason)))
            else:
                self.found.layers[layer.output] = layer
        for number, node in enumerate(self.model.nodes):
            if node.op_type in RECURRENT and node.domain in ("", "ai.onnx"):
                try:
                    check_unrolls(self.model, node)
                except NotOffloadable as reason:
                    self.found.reasons[number] = str(reason)
            make = INTEGERS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if make is None:
                continue
            try:
                self.found.layers[node.output[0]] = self._with_extents(make(self, number, node), 1)
            except NotOffloadable as reason:
                self.found.reasons[number] = str(reason)
        return self.found

    def add_sums(self, wanted: Iterator[str]) -> None:
        """Layers for products whose results the host reads in floating point, or the reasons why there are none."""
        for name in wanted:
            after = after_product(self.values, name, shared=False)
            if after is None or not any(self.values.node_of(each, "DequantizeLinear") for each in after.core.input):
                continue
            try:
                self.found.layers[name] = self._sums(name, after)
            except NotOffloadable as reason:
                self.found.reasons.setdefault(after.numbers[0], str(reason))

    def _sums(self, name: str, after: AfterProduct) -> Layer:
        limits = np.iinfo(np.int32)
        if self.model.types[name].dtype not in ("float16", "float32", "float64"):
            raise NotOffloadable(f"the type of {name!r} is not known")
        core = after.core
        group = NodeGroup(name, SUMS, core, core.output[0], after.numbers, False, (limits.min, limits.max), after)
        layer = self._with_extents(_MAKERS[core.op_type](self, group))
        assert isinstance(layer, Conv | ConvTranspose | Product | TensorProduct), f"{core.op_type} is a product"
        if _greatest_sum(layer, self.shape(layer.inputs[0])) > limits.max:
            raise NotOffloadable("its sums do not fit 32 bits")
        return layer

    def _layer(self, number: int, node: Any) -> Layer:
        try:
            group = self._group(number, node)
            make = _MAKERS.get(group.core.op_type) if group.core.domain in ("", "ai.onnx") else None
            if make is None:
                raise NotOffloadable(f"{group.core.op_type} is computed in float")
            layer = self._with_extents(self._limited(make, group))
            if len(layer.inputs) < 2:
                return layer
            return self._function(number, node) or layer
        except NotOffloadable:
            function = self._function(number, node)
            if function is None:
                raise
            return self._with_extents(function)

    def _with_extents(self, layer: Layer, operands: int | None = None) -> Layer:
        """The layer, if none of its tensors is empty: machines move and compute at least one element.

        ``operands``: how many of its inputs are such, if not all.
        """
        for name in (*layer.inputs[:operands], layer.output):
            if 0 in self.shape(name):
                raise NotOffloadable(f"tensor {name!r} has no elements")
        return layer

    def _limited(self, make: Maker, group: NodeGroup) -> Layer:
        """The layer of a group. Limits that it does not keep by itself are a clip of its own behind it."""
        least, greatest = np.iinfo(group.how.dtype).min, np.iinfo(group.how.dtype).max
        low, high = group.limits
        relu = low == group.how.zero_point and group.core.op_type not in _OF_ITS_DATA
        if high == greatest and (relu or low == least):
            return _with_fitting_factors(make(self, replace(group, relu=relu)))
        inner = f"{group.output}@unlimited"
        self.note_type(inner, group.how.dtype, self.shape(group.output))
        layer = _with_fitting_factors(make(self, replace(group, relu=relu, output=inner)))
        self.found.layers[inner] = layer
        table = np.clip(np.arange(least, greatest + 1), low, high).astype(group.how.dtype)
        return Lookup(
            f"{group.name}.limits", (inner,), group.output, (group.how,), group.how, table, nodes=group.numbers
        )

    def _function(self, number: int, node: Any) -> Layer | None:
        """A function of one tensor, whose last node brings it to 8 bits; one of no more than two scales is none."""
        how = self.values.quantisation(node)
        found = function_above(self.values, number, self.found.layers)
        if how is None or found is None:
            return None
        source, numbers = found
        if not self.is_made(source):
            return None
        readers = [self.model.nodes[each] for each in numbers if source in self.model.nodes[each].input]
        of_input = self.values.quantisation(readers[0])
        made = None if of_input is None else tabulated(self.model, source, numbers, node.output[0])
        if of_input is None or made is None:
            return None
        name = self._name_of_function([self.model.nodes[each] for each in numbers])
        return Lookup(name, (source,), node.output[0], (of_input,), how, *made, nodes=numbers)

    @staticmethod
    def _name_of_function(nodes: Sequence[Any]) -> str:
        """That of its first node that computes; of nodes that only bring numbers to others, of the last."""
        computing = [each for each in nodes if each.op_type not in ("DequantizeLinear", "QuantizeLinear")]
        chosen = computing[0] if computing else nodes[-1]
        return str(chosen.name or chosen.output[0])

    def _above(self, number: int, node: Any) -> list[int]:
        """What would have been a layer with a QuantizeLinear: the nodes above, up to the operator that computes."""
        numbers, name = list[int](), node.input[0]
        while (found := self.values.node_of(name)) is not None:
            above, core = found
            numbers.append(above)
            if core.op_type not in ("Clip", "Relu"):
                after = after_product(self.values, name)
                numbers += [] if after is None else after.numbers
                break
            name = core.input[0]
        return numbers or [number]

    def _group(self, number: int, node: Any) -> NodeGroup:
        how = self.values.quantisation(node)
        if how is None:
            if self.model.types.get(node.output[0]) is None:
                raise NotOffloadable("inference of shapes says nothing of its result")
            raise NotOffloadable("its result has no single constant scale and zero point of 8 bits")
        numbers, name, low, high = [number], node.input[0], -np.inf, np.inf
        while True:
            found = self.values.node_of(name)
            if found is None:
                raise NotOffloadable("it brings float values to 8 bits")
            above, core = found
            numbers.append(above)
            limits = limits_of(self.model, core)
            if limits is None and core.op_type == "Clip" and core.domain in ("", "ai.onnx"):
                raise NotOffloadable("its limits are no constant numbers")
            if limits is None:
                points = quantised(np.array([low, high]), how)
                saturated = int(points[0]), int(points[1])
                after = after_product(self.values, name)
                if after is not None and after.core is not core:
                    together = *numbers, *after.numbers
                    return NodeGroup(node.output[0], how, after.core, name, together, False, saturated, after)
                return NodeGroup(node.output[0], how, core, name, tuple(numbers), False, saturated)
            low, high = np.clip(limits, low, high)
            name = core.input[0]


def _with_fitting_factors(layer: Layer) -> Layer:
    """The layer, if what its sums are multiplied by is no greater than a factor of RESCALE can be."""
    scales = [how.scale for how in layer.of_inputs]
    if isinstance(layer, Times):
        factor = scales[0] * scales[1]
    elif isinstance(layer, TensorProduct):
        factor = scales[0] * scales[1] * float(np.abs(layer.gain).max(initial=0))
    elif isinstance(layer, Conv | ConvTranspose | Product):
        factor = scales[0] * float(np.abs(layer.weight_scale).max())
    else:
        factor = max(scales)
    if factor / layer.of_output.scale >= FACTOR_LIMIT:
        raise NotOffloadable("its result has a scale that is too small for its data")
    return layer


def _greatest_sum(layer: Conv | ConvTranspose | Product | TensorProduct, shape: tuple[int, ...]) -> int:
    """What no sum of products of any data exceeds, that of the first operand of a ``shape``."""
    if isinstance(layer, TensorProduct):
        return 255 * 255 * shape[-1]
    return greatest_sum(layer.weights)


def tensors_of_the_host(model: Model, found: Recognised) -> Iterator[str]:
    """Tensors that no layer makes and the outputs of a model take, each before what it is made of.

    Layers that are ``found`` in between are known from then on.
    """
    maker = {name: node for node in model.nodes for name in node.output if name}
    ahead, seen = list(model.outputs), set[str]()
    while ahead:
        name = ahead.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in found.layers and name in maker:
            yield name
        if name in found.layers:
            ahead += found.layers[name].inputs
        elif name in maker:
            ahead += names_read(maker[name])
