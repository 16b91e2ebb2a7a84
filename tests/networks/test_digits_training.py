"""The digits network's data, its training and its integer definition."""

from pathlib import Path

import numpy as np
import pytest

from lathe.networks.digits import inference
from lathe.networks.digits.float_network import (
    LAYERS,
    Grid,
    forward,
    initial_parameters,
    loss_and_gradients,
    patches,
    patches_gradient,
)
from lathe.networks.digits.inference import convolve, infer
from lathe.networks.digits.train import BIAS_LIMIT, hold_out, quantise


@pytest.fixture(scope="module")
def digits():
    with np.load(Path(inference.__file__).with_name("digits.npz"), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def test_the_committed_file_holds_what_the_training_script_promises(digits):
    described = {name: (array.shape, str(array.dtype)) for name, array in digits.items()}
    assert described == {
        "images": ((360, 8, 8, 1), "int8"),
        "labels": ((360,), "uint8"),
        "conv1_weights": ((16, 3, 3, 1), "int8"),
        "conv1_bias": ((16,), "int32"),
        "conv1_shift": ((), "int32"),
        "conv2_weights": ((32, 3, 3, 16), "int8"),
        "conv2_bias": ((32,), "int32"),
        "conv2_shift": ((), "int32"),
        "dense_weights": ((10, 512), "int8"),
        "dense_bias": ((10,), "int32"),
        "dense_shift": ((), "int32"),
    }
    assert digits["images"].min() == 0
    assert digits["images"].max() == 16
    assert np.bincount(digits["labels"]).tolist() == [36] * 10


def test_biases_fit_the_machines_16_bit_immediate(digits):
    for layer in LAYERS:
        assert np.abs(digits[f"{layer}_bias"]).max() < BIAS_LIMIT


def test_the_integer_network_recognises_the_held_out_images(digits):
    logits = infer(digits["images"], digits)
    assert logits.dtype == np.int8
    assert int((logits.argmax(axis=1) == digits["labels"]).sum()) == 356


def test_convolve_is_the_sum_over_a_padded_neighbourhood():
    rng = np.random.default_rng(1)
    x, weights = rng.integers(-128, 128, (2, 5, 4, 3)), rng.integers(-128, 128, (6, 3, 3, 3))
    expected = np.zeros((2, 5, 4, 6), np.int64)
    for n, h, w, o, ky, kx in np.ndindex(2, 5, 4, 6, 3, 3):
        y, z = h + ky - 1, w + kx - 1
        if 0 <= y < 5 and 0 <= z < 4:
            expected[n, h, w, o] += int(x[n, y, z] @ weights[o, ky, kx])
    assert np.array_equal(convolve(x, weights), expected)


def test_held_out_images_are_the_same_number_of_every_class_and_repeat():
    labels = np.random.default_rng(2).integers(0, 10, 900)
    held = hold_out(labels, 36, seed=0)
    assert np.bincount(labels[held]).tolist() == [36] * 10
    assert np.array_equal(held, hold_out(labels, 36, seed=0))
    assert not np.array_equal(held, hold_out(labels, 36, seed=1))


def test_patches_gradient_is_the_transpose_of_patches():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2, 8, 8, 3)).astype(np.float32)
    y = rng.normal(size=(2, 8, 8, 27)).astype(np.float32)
    assert np.vdot(patches(x), y) == pytest.approx(np.vdot(x, patches_gradient(y, 3)), rel=1e-4)


def test_gradients_agree_with_differences_of_the_loss():
    rng = np.random.default_rng(4)
    parameters = {name: value.astype(np.float64) for name, value in initial_parameters(rng).items()}
    images, labels = rng.random((4, 8, 8, 1)), rng.integers(0, 10, 4)
    _, gradients = loss_and_gradients(parameters, images, labels)
    for name, value in parameters.items():
        direction = rng.normal(size=value.shape)
        losses = []
        for step in (1e-6, -1e-6):
            moved = {**parameters, name: value + step * direction}
            losses.append(loss_and_gradients(moved, images, labels)[0])
        measured = (losses[0] - losses[1]) / 2e-6
        assert np.vdot(gradients[name], direction) == pytest.approx(measured, rel=1e-3, abs=1e-5), name


def test_the_integer_network_equals_the_rounded_float_network():
    """On the grid every float32 value is an exact multiple of a power of two, so both must agree."""
    rng = np.random.default_rng(5)
    parameters = initial_parameters(rng)
    grid = Grid({"conv1": 6, "conv2": 6, "dense": 7}, {"conv1": 5, "conv2": 5, "dense": 4})
    arrays = quantise(parameters, grid)
    for layer, input_bits in zip(LAYERS, (4, 5, 5), strict=True):  # biases rounded as in the integer network
        scale = 2.0 ** (input_bits + grid.weight_bits[layer])
        parameters[f"{layer}_bias"] = np.rint(parameters[f"{layer}_bias"] * scale).astype(np.float32) / scale
    images = rng.integers(0, 17, (20, 8, 8, 1))
    values = forward(parameters, (images / 16).astype(np.float32), grid)
    expected = np.clip(np.floor(values["logits"] * 2.0**4 + 0.5), -128, 127)
    assert np.array_equal(infer(images.astype(np.int8), arrays), expected)
