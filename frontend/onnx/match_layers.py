"""Finds the QDQ groups of a model and makes each an integer layer, by the function for its operator.

A match starts at a QuantizeLinear and goes upwards: activations, one operator, and its dequantised operands. Nodes
without a match run on the host CPU, for the reason in ``reasons``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from lathe.frontend.onnx.binary_ops import BINARY_OPS
from lathe.frontend.onnx.convolutions import CONVOLUTIONS
from lathe.frontend.onnx.data_movement import DATA_MOVEMENT, quantise_values
from lathe.frontend.onnx.expand_qlinear import expand_qlinear
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.integer_ops import INTEGER_OPS
from lathe.frontend.onnx.match_clip import clip_bounds
from lathe.frontend.onnx.match_epilogue import Epilogue, match_epilogue
from lathe.frontend.onnx.matmul import MATMULS
from lathe.frontend.onnx.pools import POOLS
from lathe.frontend.onnx.propagate_qdq import propagate_qdq
from lathe.frontend.onnx.qdq_groups import MatchContext, MatchedLayers, NodeGroup, max_sum
from lathe.frontend.onnx.quant_graph import SUMS, Conv, ConvTranspose, Layer, Lookup, Product, TensorProduct, Times
from lathe.frontend.onnx.quantisation_checks import check_quantisation
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.tabulate_unary import match_unary_function, tabulate
from lathe.frontend.onnx.unroll_rnn import RECURRENT, check_unrolls
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.tensor.rescale_parameters import FACTOR_LIMIT

LayerBuilder: TypeAlias = Callable[[MatchContext, NodeGroup], Layer]
_BUILDERS: Mapping[str, LayerBuilder] = {**CONVOLUTIONS, **DATA_MOVEMENT, **BINARY_OPS, **POOLS, **MATMULS}
_SELECTING_OPS = frozenset({*DATA_MOVEMENT, "Max", "MaxPool", "Min"})
"""Operators that copy or select values of their input, and so do not requantise."""


def match_layers(model: Model) -> MatchedLayers:
    """Match the layers of a model. Adds the types of the tensors that they define to the model.

    Raises ModelError for scales that are not positive, and for a wrong number of scales, zero points or biases.
    """
    check_quantisation(model)
    view = propagate_qdq(expand_qlinear(model))
    matcher = _LayerMatcher(view)
    matched = matcher.run()
    matcher.add_sums(host_tensors(model, matched))
    node_outputs = {name for node in model.nodes for name in node.output}
    matched.layers = _live_layers(matched.layers, node_outputs)
    for name, layer in matched.layers.items():
        matched.layers[name] = replace(layer, nodes=tuple(sorted({view.origins[number] for number in layer.nodes})))
    defined = node_outputs | {*matched.layers}
    model.types.update({name: known for name, known in view.model.types.items() if name in defined})
    return MatchedLayers(matched.layers, {view.origins[number]: reason for number, reason in matched.reasons.items()})


def _live_layers(layers: Mapping[str, Layer], node_outputs: set[str]) -> dict[str, Layer]:
    """The layers by output, without dead ones: those whose output is no node's output and no live layer's input."""
    worklist = [name for name in layers if name in node_outputs]
    live = set[str]()
    while worklist:
        name = worklist.pop()
        if name in layers and name not in live:
            live.add(name)
            worklist += layers[name].inputs
    return {name: layer for name, layer in layers.items() if name in live}


class _LayerMatcher(MatchContext):
    def run(self) -> MatchedLayers:
        for number, node in enumerate(self.model.nodes):
            if node.op_type != "QuantizeLinear" or node.domain not in ("", "ai.onnx"):
                continue
            try:
                layer = self._layer(number, node)
            except NotOffloadable as reason:
                self.found.reasons.update(dict.fromkeys(self._nodes_above(number, node), str(reason)))
            else:
                self.found.layers[layer.output] = layer
        for number, node in enumerate(self.model.nodes):
            if node.op_type in RECURRENT and node.domain in ("", "ai.onnx"):
                try:
                    check_unrolls(self.model, node)
                except NotOffloadable as reason:
                    self.found.reasons[number] = str(reason)
            build = INTEGER_OPS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if build is None:
                continue
            try:
                self.found.layers[node.output[0]] = self._checked_nonempty(build(self, number, node), 1)
            except NotOffloadable as reason:
                self.found.reasons[number] = str(reason)
        return self.found

    def add_sums(self, names: Iterator[str]) -> None:
        """Match convolutions and matmuls whose result the host reads in float; records the reasons for failures."""
        for name in names:
            after = match_epilogue(self.values, name, shared=False)
            if after is None or not any(self.values.node_of(each, "DequantizeLinear") for each in after.core.input):
                continue
            try:
                self.found.layers[name] = self._int32_layer(name, after)
            except NotOffloadable as reason:
                self.found.reasons.setdefault(after.numbers[0], str(reason))

    def _int32_layer(self, name: str, after: Epilogue) -> Layer:
        limits = np.iinfo(np.int32)
        if self.model.types[name].dtype not in ("float16", "float32", "float64"):
            raise NotOffloadable(f"the type of {name!r} is unknown")
        core = after.core
        group = NodeGroup(name, SUMS, core, core.output[0], after.numbers, False, (limits.min, limits.max), after)
        layer = self._checked_nonempty(_BUILDERS[core.op_type](self, group))
        assert isinstance(layer, Conv | ConvTranspose | Product | TensorProduct), f"{core.op_type} must have int32 sums"
        if _max_sum(layer, self.shape(layer.inputs[0])) > limits.max:
            raise NotOffloadable("its sums can overflow 32 bits")
        return layer

    def _layer(self, number: int, node: Any) -> Layer:
        try:
            group = self._group(number, node)
            build = _BUILDERS.get(group.core.op_type) if group.core.domain in ("", "ai.onnx") else None
            if build is None:
                raise NotOffloadable(f"{group.core.op_type} is computed in float")
            layer = self._checked_nonempty(self._with_clip(build, group))
            if len(layer.inputs) < 2:
                return layer
            return self._as_lookup(number, node) or layer
        except NotOffloadable:
            lookup = self._as_lookup(number, node)
            if lookup is None:
                raise
            return self._checked_nonempty(lookup)

    def _checked_nonempty(self, layer: Layer, operands: int | None = None) -> Layer:
        """The layer, if none of its tensors is empty: the machine moves and computes at least one element.

        ``operands``: the number of inputs to check, all by default.
        """
        for name in (*layer.inputs[:operands], layer.output):
            if 0 in self.shape(name):
                raise NotOffloadable(f"tensor {name!r} has no elements")
        return layer

    def _with_clip(self, build: LayerBuilder, group: NodeGroup) -> Layer:
        """The layer of a group. A clip that requantisation does not do by saturating becomes a Lookup after it."""
        least, greatest = np.iinfo(group.quant.dtype).min, np.iinfo(group.quant.dtype).max
        low, high = group.limits
        relu = low == group.quant.zero_point and group.core.op_type not in _SELECTING_OPS
        if high == greatest and (relu or low == least):
            return _checked_factor(build(self, replace(group, relu=relu)))
        inner = f"{group.output}@unlimited"
        self.note_type(inner, group.quant.dtype, self.shape(group.output))
        layer = _checked_factor(build(self, replace(group, relu=relu, output=inner)))
        self.found.layers[inner] = layer
        table = np.clip(np.arange(least, greatest + 1), low, high).astype(group.quant.dtype)
        return Lookup(
            f"{group.name}.limits", (inner,), group.output, (group.quant,), group.quant, table, nodes=group.numbers
        )

    def _as_lookup(self, number: int, node: Any) -> Layer | None:
        """The nodes up to a QuantizeLinear as a table of one 8-bit tensor; None if they are no such function."""
        quant = self.values.quantisation(node)
        found = match_unary_function(self.values, number, self.found.layers)
        if quant is None or found is None:
            return None
        source, numbers = found
        if not self.is_available(source):
            return None
        consumers = [self.model.nodes[each] for each in numbers if source in self.model.nodes[each].input]
        input_quant = self.values.quantisation(consumers[0])
        table_and_axis = None if input_quant is None else tabulate(self.model, source, numbers, node.output[0])
        if input_quant is None or table_and_axis is None:
            return None
        name = self._lookup_name([self.model.nodes[each] for each in numbers])
        return Lookup(name, (source,), node.output[0], (input_quant,), quant, *table_and_axis, nodes=numbers)

    @staticmethod
    def _lookup_name(nodes: Sequence[Any]) -> str:
        """The name of the first node that computes, or of the last one if all only requantise."""
        computing = [each for each in nodes if each.op_type not in ("DequantizeLinear", "QuantizeLinear")]
        chosen = computing[0] if computing else nodes[-1]
        return str(chosen.name or chosen.output[0])

    def _nodes_above(self, number: int, node: Any) -> list[int]:
        """The nodes that a layer ending in a QuantizeLinear would have: those above, up to the operator."""
        numbers, name = list[int](), node.input[0]
        while (found := self.values.node_of(name)) is not None:
            above, core = found
            numbers.append(above)
            if core.op_type not in ("Clip", "Relu"):
                after = match_epilogue(self.values, name)
                numbers += [] if after is None else after.numbers
                break
            name = core.input[0]
        return numbers or [number]

    def _group(self, number: int, node: Any) -> NodeGroup:
        quant = self.values.quantisation(node)
        if quant is None:
            if self.model.types.get(node.output[0]) is None:
                raise NotOffloadable("shape inference does not determine the type of its result")
            raise NotOffloadable("its result is not 8 bits with a single constant scale and zero point")
        numbers, name, low, high = [number], node.input[0], -np.inf, np.inf
        while True:
            found = self.values.node_of(name)
            if found is None:
                raise NotOffloadable("its float input has no quantised producer")
            above, core = found
            numbers.append(above)
            limits = clip_bounds(self.model, core)
            if limits is None and core.op_type == "Clip" and core.domain in ("", "ai.onnx"):
                raise NotOffloadable("its minimum or maximum is not a constant number")
            if limits is None:
                points = quantise_values(np.array([low, high]), quant)
                saturated = int(points[0]), int(points[1])
                after = match_epilogue(self.values, name)
                if after is not None and after.core is not core:
                    together = *numbers, *after.numbers
                    return NodeGroup(node.output[0], quant, after.core, name, together, False, saturated, after)
                return NodeGroup(node.output[0], quant, core, name, tuple(numbers), False, saturated)
            low, high = np.clip(limits, low, high)
            name = core.input[0]


def _checked_factor(layer: Layer) -> Layer:
    """The layer, if its rescale factor is within the range of RESCALE."""
    scales = [quant.scale for quant in layer.input_quants]
    if isinstance(layer, Times):
        factor = scales[0] * scales[1]
    elif isinstance(layer, TensorProduct):
        factor = scales[0] * scales[1] * float(np.abs(layer.gain).max(initial=0))
    elif isinstance(layer, Conv | ConvTranspose | Product):
        factor = scales[0] * float(np.abs(layer.weight_scale).max())
    else:
        factor = max(scales)
    if factor / layer.output_quant.scale >= FACTOR_LIMIT:
        raise NotOffloadable("the scale of its result is too small compared to the scales of its operands")
    return layer


def _max_sum(layer: Conv | ConvTranspose | Product | TensorProduct, shape: tuple[int, ...]) -> int:
    """An upper bound on the layer's accumulated sums; ``shape`` is that of the first operand."""
    if isinstance(layer, TensorProduct):
        return 255 * 255 * shape[-1]
    return max_sum(layer.weights)


def host_tensors(model: Model, found: MatchedLayers) -> Iterator[str]:
    """The node outputs that the model's outputs depend on and no layer computes, each before the tensors it depends on.

    Layers that the caller adds to ``found`` during the iteration are respected.
    """
    producer = {name: node for node in model.nodes for name in node.output if name}
    worklist, seen = list(model.outputs), set[str]()
    while worklist:
        name = worklist.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in found.layers and name in producer:
            yield name
        if name in found.layers:
            worklist += found.layers[name].inputs
        elif name in producer:
            worklist += names_read(producer[name])
