"""Models of examples/models, quantised by onnxruntime: which nodes run on the NPU, and agreement of their results.

By default they are small; `-m slow` builds the models that are measured. Models of packages need these installed.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from network_models import CASES, FEATURES, MEASURED, Case, normal, pictures
from networks_checking import LATHE16, with_onnxruntime
from quantised_macs import left_to_the_host

import lathe as lt
from lathe.networks.comparison import compared
from lathe.networks.layer_comparison import layers_compared


def small(name: str) -> Case:
    """A small version of a model of examples/models; models of packages are unchanged."""
    case = CASES[name]
    if name in ("ResNet-50", "MobileNetV2"):
        return replace(case, model=lambda: case.model(32, 20), inputs=pictures(32))
    if name == "U-Net":
        return replace(case, model=lambda: case.model(32), inputs=pictures(32))
    if name == "LSTM":
        return replace(case, model=lambda: case.model(4), inputs=normal("frames", 4, 1, FEATURES))
    if name == "Transformer":
        return replace(case, model=lambda: case.model(16, 64), inputs=normal("tokens", 1, 16, 64))
    return case


HOST = {
    "ResNet-50": set(),
    "MobileNetV2": set(),
    "U-Net": set(),
    "LSTM": {"Reshape"},
    "Transformer": {"LayerNormalization", "Softmax"},
    "Text detector": set(),
    "Text direction": {"Softmax"},
}
"""Operators on the host CPU besides Q/DQ. For Magika, these are all but convolutions and matmuls."""
NAMES = [*HOST, "Magika"]
QUICK = ["U-Net", "LSTM", "Transformer", "Magika"]
"""Models whose small versions are built in seconds."""


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Callable[[str, Case], lt.Network]:
    """Quantised models by name, created on first use."""
    folder = tmp_path_factory.mktemp("models")

    def made(name: str, case: Case) -> lt.Network:
        if case.package:
            pytest.importorskip("PIL")
            if importlib.util.find_spec(case.package) is None:
                pytest.skip(f"extra models is not installed: no package {case.package!r}")
        path = folder / f"{name}.onnx"
        if not path.exists():
            case.write(path)
        return lt.from_onnx(path)

    return made


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NAMES)
def test_each_layer_agrees_with_onnxruntime(models, name):
    case = small(name)
    layers = layers_compared(models(name, case), case.inputs(MEASURED))
    assert layers
    for each in layers:
        assert each.largest <= 1, each
        # One of few values is more than a thousandth.
        assert each.equal + each.halves > 0.999 or each.values * (1 - each.equal) < 1.5, each


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_small_models(models, name):
    check(models(name, small(name)), small(name), name)


LONG = ("ResNet-50", "Text detector")  # minutes each


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly if name in LONG else pytest.mark.slow) for name in NAMES]
)
def test_models_as_they_are_measured(models, name):
    network = models(f"whole {name}", CASES[name])
    check(network, CASES[name], name)


def check(network: lt.Network, case: Case, name: str) -> None:
    """Outputs equal the reference's and are close to onnxruntime's; all quantised MAC nodes run on the NPU."""
    program = network.build(LATHE16)
    inputs = case.inputs(MEASURED)
    result = lt.simulate(program, inputs)
    (output,) = network.model.outputs
    made = result.outputs[output]
    assert np.array_equal(made, lt.reference(network, inputs)[output])
    assert left_to_the_host(network, result) == 0
    (expected,) = with_onnxruntime(network.model.proto, inputs)
    assert compared(output, made, expected).cosine > 0.997
    if case.decides is not None:
        alike = made.argmax(case.decides) == expected.argmax(case.decides)
        if made.size > 1000:
            assert alike.mean() > 0.95
        else:
            assert alike.mean() > 0.93
            # Only values that are at most two units apart can change their order if each is off by a unit.
            assert alike[_margins(expected, case.decides) > 2.5 * np.diff(np.unique(expected)).min()].all()
    if name in HOST:
        kinds = {node.name or node.output[0]: node.op_type for node in network.model.nodes}
        hosts = {kinds[row.name] for row in result.layers if row.where == "host"}
        assert hosts - {"QuantizeLinear", "DequantizeLinear"} == HOST[name]


def _margins(values: np.ndarray, axis: int) -> np.ndarray:
    """The differences between the largest and second largest value along an axis."""
    next_one, largest = np.moveaxis(np.partition(values, -2, axis).take([-2, -1], axis), axis, 0)
    return np.asarray(largest - next_one)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("module", "options", "output"),
    [
        ("resnet", ["--layers", "50", "--pixels", "32"], "resnet50.onnx"),
        ("mobilenet", ["--pixels", "32"], "mobilenetv2.onnx"),
        ("unet", ["--pixels", "32"], "unet.onnx"),
        ("lstm", ["--steps", "3"], "lstm.onnx"),
        ("transformer", ["--length", "8", "-o", "block.onnx"], "block.onnx"),
    ],
)
def test_each_writes_a_file(tmp_path, monkeypatch, module, options, output):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [module, *options])
    importlib.import_module(module).main()
    onnx.checker.check_model(onnx.load(output), full_check=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["ResNet-18", "ResNet-50", "MobileNetV2", "U-Net", "LSTM", "Transformer"])
def test_activations_neither_vanish_nor_explode_nor_are_all_equal(name):
    """At every node, for two inputs; otherwise agreement of outputs would mean little."""
    case = replace(CASES[name], model=lambda: CASES[name].model(64), inputs=pictures(64))
    case = small(name) if name in ("LSTM", "Transformer") else case
    model = case.model()
    kinds = {node.output[0]: node.op_type for node in model.graph.node}
    (output,) = (each.name for each in model.graph.output)
    for name in kinds.keys() - {output}:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    names = [each.name for each in model.graph.output]
    one, other = (dict(zip(names, with_onnxruntime(model, case.inputs(seed)), strict=True)) for seed in (1, 2))
    for name, values in one.items():
        if kinds[name] != "Softmax":
            assert 0.1 < values.std() < 10, (name, values.std())
    assert compared(output, one[output], other[output]).cosine < 0.99
