"""Nodes between DequantizeLinear and QuantizeLinear, each such group as one layer of whole numbers.

A layer is found from its QuantizeLinear upwards: activations, one operator, and its operands, which are dequantised.
What is not found stays with the host, and ``reasons`` says why.
"""

from dataclasses import replace
from typing import Any

from lathe.frontend.onnx.convolutions import CONVOLUTIONS
from lathe.frontend.onnx.functions import function_above, tabulated
from lathe.frontend.onnx.groups import Group, Operands, Recognised
from lathe.frontend.onnx.layers import Layer, Lookup
from lathe.frontend.onnx.moves import MOVES
from lathe.frontend.onnx.one_node_operators import view_of
from lathe.frontend.onnx.pairs import PAIRS
from lathe.frontend.onnx.pools import POOLS
from lathe.frontend.onnx.products import PRODUCTS
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.unfit import Unfit

_MAKERS = {**CONVOLUTIONS, **MOVES, **PAIRS, **POOLS, **PRODUCTS}


def recognise(model: Model) -> Recognised:
    """The layers of a model. Raises ModelError for scales that are no positive numbers.

    Types of tensors that are found with them are noted in the model.
    """
    view = view_of(model)
    found = _Recogniser(view.model).run()
    for name, layer in found.layers.items():
        found.layers[name] = replace(layer, nodes=tuple(sorted({view.origins[number] for number in layer.nodes})))
    made = {name for node in model.nodes for name in node.output} | {*found.layers}
    model.types.update({name: known for name, known in view.model.types.items() if name in made})
    return Recognised(found.layers, {view.origins[number]: reason for number, reason in found.reasons.items()})


class _Recogniser(Operands):
    def run(self) -> Recognised:
        for number, node in enumerate(self.model.nodes):
            if node.op_type != "QuantizeLinear" or node.domain not in ("", "ai.onnx"):
                continue
            try:
                layer = self._layer(number, node)
            except Unfit as reason:
                made = self.values.producer.get(node.input[0])
                self.found.reasons[number if made is None else made] = str(reason)
            else:
                self.found.layers[layer.output] = layer
        return self.found

    def _layer(self, number: int, node: Any) -> Layer:
        try:
            group = self._group(number, node)
            make = _MAKERS.get(group.core.op_type) if group.core.domain in ("", "ai.onnx") else None
            if make is None:
                raise Unfit(f"{group.core.op_type} is computed in float")
            layer = make(self, group)
            if len(layer.inputs) < 2:
                return layer
            return self._function(number, node) or layer
        except Unfit:
            function = self._function(number, node)
            if function is None:
                raise
            return function

    def _function(self, number: int, node: Any) -> Layer | None:
        """A function of one tensor, whose last node brings it to 8 bits; one of no more than two scales is none."""
        how = self.values.quantisation(node)
        found = function_above(self.values, number, self.found.layers)
        if how is None or found is None:
            return None
        source, numbers = found
        readers = [self.model.nodes[each] for each in numbers if source in self.model.nodes[each].input]
        of_input = self.values.quantisation(readers[0])
        made = None if of_input is None else tabulated(self.model, source, numbers, node.output[0])
        if of_input is None or made is None:
            return None
        name = next((self.model.nodes[each].name for each in numbers[1:-1] or numbers), "") or node.output[0]
        return Lookup(name, (source,), node.output[0], (of_input,), how, *made, nodes=numbers)

    def _group(self, number: int, node: Any) -> Group:
        how = self.values.quantisation(node)
        if how is None:
            raise Unfit("its result has no single constant scale and zero point of 8 bits")
        numbers, relu, name = [number], False, node.input[0]
        while True:
            found = self.values.node_of(name)
            if found is None:
                raise Unfit("it brings float values to 8 bits")
            above, core = found
            numbers.append(above)
            if core.op_type != "Relu":
                return Group(node, how, core, name, tuple(numbers), relu)
            relu, name = True, core.input[0]
