"""Comparison of single layers with onnxruntime: differences, halves, and tensors that are not in the model."""

from dataclasses import replace

import numpy as np
from networks_checking import random_inputs
from qdq_models import QdqModel

import lathe as lt
from lathe.networks.layer_comparison import layers_compared


def two_convolutions() -> QdqModel:
    graph = QdqModel(seed=1)
    inner = graph.conv(graph.input(1, 12, 9, 8), 20, relu=True, pads=[1, 1, 1, 1], name="inner")
    graph.conv(inner, 8, 1, name="outer")
    return graph


def test_layers_that_agree():
    graph = two_convolutions()
    model = graph.model(list(graph.shapes)[-1])
    found = layers_compared(lt.from_onnx(model), random_inputs(model))
    assert [(each.name, each.kind, each.values) for each in found] == [
        ("inner", "Conv", 20 * 9 * 8),
        ("outer", "Conv", 8 * 9 * 8),
    ]
    for each in found:
        assert each.largest <= 1
        assert each.equal + each.halves > 0.999


def test_a_layer_that_is_another_is_seen_and_does_not_spoil_the_next():
    graph = two_convolutions()
    model = graph.model(list(graph.shapes)[-1])
    network = lt.from_onnx(model)
    layers = network.found.layers
    (name,) = (name for name, layer in layers.items() if layer.name == "inner")
    layers[name] = replace(layers[name], weights=-layers[name].weights)
    inner, outer = layers_compared(network, random_inputs(model))
    assert inner.largest > 20
    assert inner.equal + inner.halves < 0.9
    assert outer.equal > 0.999


def test_halves_are_counted_separately():
    """With twice the scale, half of all sums of two integers are halfway between two results."""
    graph = QdqModel(seed=2)
    data, other = graph.input(1, 12, 20, 20, scale=0.0277), graph.input(1, 12, 20, 20, name="y", scale=0.0277)
    made = graph.quantised(graph.node("Add", data, other, name="layer"), 2 * 0.0277)
    model = graph.model(made)
    (found,) = layers_compared(lt.from_onnx(model), random_inputs(model))
    assert 0.001 < found.halves < 0.5
    assert found.equal + found.halves == 1
    assert found.largest == 1


def test_operands_that_are_brought_to_another_scale():
    graph = QdqModel(seed=3)
    parts = [graph.input(1, 12, 5, 6), graph.input(1, 12, 5, 6, name="y", scale=0.031)]
    made = graph.layer("Concat", *parts, scale=0.025, axis=1, name="layer")
    model = graph.model(made)
    network = lt.from_onnx(model)
    assert len(network.found.layers) == 3
    (found,) = layers_compared(network, random_inputs(model))
    assert (found.name, found.values, found.equal) == ("layer", 24 * 30, 1.0)


def test_values_are_onnxruntimes_own():
    graph = two_convolutions()
    model = graph.model(list(graph.shapes)[-1])
    network = lt.from_onnx(model)
    before = model.SerializeToString()
    layers_compared(network, random_inputs(model))
    assert model.SerializeToString() == before
    assert np.array_equal(network.model.outputs, [each.name for each in model.graph.output])
