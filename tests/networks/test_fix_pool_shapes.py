"""Pools with fewer windows than ONNX's shape inference counts: consumers have onnxruntime's shapes."""

import contextlib
import random
from typing import Any

import numpy as np
import onnx
import pytest
from error_checks import raises
from networks_checking import LATHE16, with_onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

import lathe as lt
from lathe.networks.io_bindings import IOBinding

BEHIND = {
    "sums": "d = Add (pf, pf)",
    "products": "k = DequantizeLinear (held, s, zw) d = Conv (pf, k)",
}
"""The NPU layers that consume a pool's result."""


def pooled(kind: str, attributes: str, data: str, what: str) -> onnx.ModelProto:
    """A float pool on the host CPU, followed by a layer on the NPU."""
    held = ", ".join(map(str, range(-4, 5)))
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 19]>
graph (float[{data}] x) => (float[?, ?, ?, ?] y)
<float s = {{0.02}}, uint8 z = {{128}}, int8 zw = {{0}}, int8[3, 3, 1, 1] held = {{{held}}}>
{{
    q = QuantizeLinear (x, s, z)
    f = DequantizeLinear (q, s, z)
    p = {kind} <{attributes}> (f)
    pq = QuantizeLinear (p, s, z)
    pf = DequantizeLinear (pq, s, z)
    {BEHIND[what]}
    dq = QuantizeLinear (d, s, z)
    y = DequantizeLinear (dq, s, z)
}}""")


def attributes_of(kind: str, draw: random.Random) -> str:
    """Random attributes of a 2-D pool that influence the number of windows."""
    kernel, strides, apart = ([draw.randint(1, most) for _ in range(2)] for most in (3, 4, 2))
    automatic = draw.choice(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    told: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "ceil_mode": draw.randint(0, 1)}
    if automatic == "NOTSET":
        told["pads"] = [draw.randint(0, each - 1) for each in (*kernel, *kernel)]
    if draw.random() < 0.5:
        told["dilations"] = apart
    if kind == "AveragePool":
        told["count_include_pad"] = draw.randint(0, 1)
    return ", ".join([*(f"{name} = {value}" for name, value in told.items()), f'auto_pad = "{automatic}"'])


@pytest.mark.sample(7)
@pytest.mark.parametrize("seed", range(40))
def test_readers_of_a_pool_have_the_windows_that_there_are(seed):
    draw = random.Random(seed)
    expected = None
    while expected is None:
        kind = draw.choice(["AveragePool", "MaxPool", "LpPool"])
        sizes = f"{draw.randint(1, 2)}, 3, {draw.randint(3, 12)}, {draw.randint(3, 12)}"
        attributes = attributes_of(kind, draw)
        model = pooled(kind, attributes, sizes, draw.choice([*BEHIND]))
        shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
        inputs = {"x": np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)}
        told = f"seed {seed}: {kind} <{attributes}> of {sizes}"
        with contextlib.suppress(RuntimeException):  # onnxruntime refuses the pool
            (expected,) = with_onnxruntime(model, inputs)
    network = lt.from_onnx(model)
    made = lt.simulate(network.build(LATHE16), inputs).outputs["y"]
    assert made.shape == expected.shape, told
    assert np.abs(made - expected).max() <= 0.0201 * 2, told
    assert np.array_equal(made, lt.reference(network, inputs)["y"]), told


def test_partial_windows_that_count_along_rows_only():
    """No attributes of another pool give these windows."""
    attributes = "ceil_mode = 1, count_include_pad = 1, kernel_shape = [3, 2], strides = [3, 3]"
    model = pooled("AveragePool", attributes, "1, 3, 11, 9", "sums")
    inputs = {"x": np.random.default_rng(0).uniform(-2, 2, (1, 3, 11, 9)).astype(np.float32)}
    (expected,) = with_onnxruntime(model, inputs)
    program = lt.from_onnx(model).build(LATHE16)
    result = lt.simulate(program, inputs)
    assert expected.shape == result.outputs["y"].shape == (1, 3, 4, 3)
    assert [row.name for row in result.layers if row.where == "npu"] == ["d"]


def test_a_shape_that_the_host_computes_differently_from_inference_is_refused():
    binding = IOBinding("pooled", "pooled", "int8", (1, 3, 4, 4), 16)
    mentions = ("'pooled'", (1, 3, 4, 4), "shape inference", (1, 3, 4, 3), "host CPU", "pads")
    raises(lt.ModelError, binding.to_machine, {"pooled": np.zeros((1, 3, 4, 3), np.int8)}, mentions=mentions)
