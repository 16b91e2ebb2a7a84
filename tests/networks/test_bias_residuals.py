"""Biases that are no multiples of the scale of the sums: exact on machines with rescale_add."""

from dataclasses import replace

import numpy as np
import pytest
from error_checks import check_mentions
from networks_checking import LATHE16, checked, random_inputs, where
from test_float_results import floats, model, node, weights

import lathe as lt
from lathe.networks.layer_comparison import layers_compared
from lathe.networks.layer_lowering.bias_residuals import with_bias_residuals

COARSE = np.float32(0.7717)
"""A scale of results of a few units of the sums, so that the rounding of a bias changes results."""


def brought(nodes, shape, held, scale=COARSE):
    """The model with its last tensor ``c`` quantised and dequantised."""
    last = [node("QuantizeLinear", ["c", "coarse", "z"], "q"), node("DequantizeLinear", ["q", "coarse", "z"], "y")]
    return model([*nodes, *last], shape, {**held, "coarse": scale})


BIG = {"s": np.float32(0.05), "ws": np.float32(3.0)}
"""The scale of the sums is 0.15."""

CASES = {
    "convolution": (
        [node("Conv", ["xf", "wf", "b"], "c", "layer", pads=[1, 1, 1, 1])], [1, 12, 7, 8],
        {**BIG, "w": weights(24, 12, 3, 3) // 64, "b": floats(24)},
    ),
    "depthwise": (
        [node("Conv", ["xf", "wf", "b"], "c", "layer", group=12, pads=[1, 1, 1, 1])], [1, 12, 7, 8],
        {**BIG, "w": weights(12, 1, 3, 3) // 32, "b": floats(12)},
    ),
    "groups": (
        [node("Conv", ["xf", "wf", "b"], "c", "layer", group=3)], [1, 12, 7, 8],
        {**BIG, "w": weights(12, 4, 3, 3) // 32, "b": floats(12)},
    ),
    "transposed": (
        [node("ConvTranspose", ["xf", "wf", "b"], "c", "layer", strides=[2, 2])], [1, 12, 5, 4],
        {**BIG, "w": weights(12, 6, 3, 3) // 32, "b": floats(6)},
    ),
    "gemm": ([node("Gemm", ["xf", "wf", "b"], "c", "layer", beta=0.5)], [30, 20],
             {**BIG, "w": weights(20, 24) // 32, "b": floats(24)}),
    "heads": (
        [
            node("MatMul", ["xf", "wf"], "p", "layer"), node("Add", ["p", "b"], "a"),
            node("QuantizeLinear", ["a", "coarse", "z"], "a8"), node("Reshape", ["a8", "shape"], "h8"),
            node("Transpose", ["h8"], "t8", perm=[1, 0, 2]), node("DequantizeLinear", ["t8", "coarse", "z"], "c"),
        ], [30, 20],
        {**BIG, "w": weights(20, 32) // 32, "b": floats(32), "shape": np.array([30, 2, 16])},
    ),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES)
def test_biases_count_as_they_are(case):
    made = brought(*CASES[case])
    result = checked(made, units={"y": float(COARSE)})
    assert where(result)["layer"] == "npu"
    network = lt.from_onnx(made)
    rows = {row.name: row for row in layers_compared(network, random_inputs(made))}
    assert rows["layer"].equal + rows["layer"].halves == 1
    (layer,) = (each for each in network.found.layers.values() if each.name == "layer")
    assert layer.bias_residual is not None
    rounded = replace(layer, bias_residual=None)
    assert np.abs(layer.bias_residual).max() <= 0.5
    network.found.layers[layer.output] = rounded
    (row,) = (row for row in layers_compared(network, random_inputs(made)) if row.name == "layer")
    assert row.equal + row.halves < 0.99


def test_biases_are_rounded_if_it_hardly_matters():
    nodes, shape, held = CASES["gemm"]
    fine = {**held, "s": np.float32(0.0001)}
    (layer,) = lt.from_onnx(brought(nodes, shape, fine)).found.layers.values()
    assert layer.bias_residual is None


def test_a_machine_that_adds_no_sums_leaves_them_to_the_host():
    machine = replace(
        LATHE16, name="alone", extensions=tuple(each for each in LATHE16.extensions if each != "rescale_add")
    )
    result = checked(brought(*CASES["gemm"]), machine, units={"y": float(COARSE)})
    row = next(row for row in result.layers if row.name == "layer")
    assert row.where == "host"
    check_mentions(row.why, "'alone'", "'rescale_add'")


@pytest.mark.parametrize("sign", [-1, 1])
def test_pairs_of_rows_are_the_sum_with_the_exact_bias(sign):
    """In integers: (sum + bias) * mantissa + rest * mantissa, the last term rounded."""
    factors = lt.rescale_parameters(sign * np.array([0.01, 0.3, 7.5]), np.array([-5, 0, 1000]))
    rests = np.array([0.25, -0.4999, 0.1])
    pairs = with_bias_residuals(factors, rests).astype(np.int64)
    words = factors[:, 1].astype(np.int64)
    mantissa = words >> 6
    assert np.array_equal(pairs[..., 1] % 64, np.stack([words % 64] * 2, axis=1))
    for total in (-12345, 0, 99):
        found = ((total + pairs[..., 0]) * (pairs[..., 1] >> 6)).sum(axis=1)
        assert np.array_equal(found, (total + factors[:, 0]) * mantissa + np.rint(rests * mantissa).astype(np.int64))
