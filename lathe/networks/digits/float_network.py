"""The digits network in floating point, with its gradients, for training.

Shapes are NHWC; a convolution's weights are (out, ky, kx, in), the dense layer's (out, in) with `in` counting
(y, x, channel). All values are float32. With a `Grid`, weights and activations are rounded to the numbers that the
integer network represents, and gradients pass through the rounding unchanged (the straight-through estimator of
Bengio, Léonard and Courville, 2013): the last epochs are quantisation-aware.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Parameters: TypeAlias = dict[str, Floats]

LAYERS = ("conv1", "conv2", "dense")
CLASSES = 10
CHANNELS = {"conv1": 16, "conv2": 32}
INPUT_FRACTION_BITS = 4  # pixels are 0..16, read as 0..1


@dataclass(frozen=True)
class Grid:
    """The number of fraction bits of each layer's int8 weights and outputs."""

    weight_bits: Mapping[str, int]
    output_bits: Mapping[str, int]


def initial_parameters(rng: np.random.Generator) -> Parameters:
    """Weights with the variance of He et al. (2015), biases of zero."""
    shapes = {
        "conv1": (CHANNELS["conv1"], 3, 3, 1),
        "conv2": (CHANNELS["conv2"], 3, 3, CHANNELS["conv1"]),
        "dense": (CLASSES, 4 * 4 * CHANNELS["conv2"]),
    }
    parameters: Parameters = {}
    for layer, shape in shapes.items():
        deviation = np.sqrt(2.0 / np.prod(shape[1:]))
        parameters[f"{layer}_weights"] = rng.normal(0.0, deviation, shape).astype(np.float32)
        parameters[f"{layer}_bias"] = np.zeros(shape[0], np.float32)
    return parameters


def to_grid(values: Floats, fraction_bits: int) -> Floats:
    """The nearest numbers that int8 with `fraction_bits` fraction bits represents."""
    scale = np.float32(2.0**fraction_bits)
    held: Floats = np.clip(np.floor(values * scale + np.float32(0.5)), -128, 127) / scale
    return held


def patches(x: Floats) -> Floats:
    """(n, h, w, c) -> (n, h, w, 9*c): the 3x3 neighbourhood of every pixel, zero outside the image."""
    n, h, w, c = x.shape
    padded = np.zeros((n, h + 2, w + 2, c), x.dtype)
    padded[:, 1:-1, 1:-1] = x
    return np.concatenate([padded[:, ky : ky + h, kx : kx + w] for ky in range(3) for kx in range(3)], axis=3)


def patches_gradient(gradient: Floats, channels: int) -> Floats:
    """The transpose of `patches`: the gradient of a pixel is the sum over its nine copies."""
    n, h, w, _ = gradient.shape
    padded = np.zeros((n, h + 2, w + 2, channels), gradient.dtype)
    for tap in range(9):
        ky, kx = divmod(tap, 3)
        padded[:, ky : ky + h, kx : kx + w] += gradient[..., tap * channels : (tap + 1) * channels]
    return padded[:, 1:-1, 1:-1]


def weights_used(parameters: Parameters, layer: str, grid: Grid | None) -> Floats:
    """The layer's weights as a matrix (out, terms), rounded if a grid is given."""
    weights = parameters[f"{layer}_weights"]
    weights = weights.reshape(weights.shape[0], -1)
    return weights if grid is None else to_grid(weights, grid.weight_bits[layer])


def activate(x: Floats, layer: str, grid: Grid | None) -> tuple[Floats, Floats]:
    """ReLU, rounded if a grid is given; returns the values and a mask of where the gradient passes."""
    if grid is None:
        return np.maximum(x, 0), (x > 0).astype(np.float32)
    largest = 127 / 2.0 ** grid.output_bits[layer]
    return to_grid(np.maximum(x, 0), grid.output_bits[layer]), ((x > 0) & (x < largest)).astype(np.float32)


def forward(parameters: Parameters, images: Floats, grid: Grid | None = None) -> dict[str, Floats]:
    """The forward pass: from `images` (n, 8, 8, 1) in 0..1 to "logits" (n, 10), with the values for the gradients."""
    values: dict[str, Floats] = {"conv1_in": patches(images)}
    for layer in ("conv1", "conv2"):
        x = values[f"{layer}_in"] @ weights_used(parameters, layer, grid).T + parameters[f"{layer}_bias"]
        values[f"{layer}_out"], values[f"{layer}_passes"] = activate(x, layer, grid)
        if layer == "conv1":
            values["conv2_in"] = patches(values["conv1_out"])
    n, h, w, c = values["conv2_out"].shape
    windows = values["conv2_out"].reshape(n, h // 2, 2, w // 2, 2, c)
    pooled = windows.max(axis=(2, 4), keepdims=True)
    first = windows == pooled
    values["pool_passes"] = (first / first.sum(axis=(2, 4), keepdims=True)).astype(np.float32)
    values["dense_in"] = pooled.reshape(n, -1)
    values["logits"] = values["dense_in"] @ weights_used(parameters, "dense", grid).T + parameters["dense_bias"]
    return values


def loss_and_gradients(
    parameters: Parameters, images: Floats, labels: NDArray[np.int64], grid: Grid | None = None
) -> tuple[float, Parameters]:
    """Mean cross-entropy of a batch, and its gradient for every parameter."""
    values = forward(parameters, images, grid)
    n = len(images)
    shifted = values["logits"] - values["logits"].max(axis=1, keepdims=True)
    probabilities = np.exp(shifted)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    loss = float(-np.log(probabilities[np.arange(n), labels] + 1e-12).mean())

    gradients: Parameters = {}

    def through_layer(layer: str, gradient: Floats) -> Floats:
        flat = gradient.reshape(-1, gradient.shape[-1])
        terms = values[f"{layer}_in"].reshape(len(flat), -1)
        gradients[f"{layer}_weights"] = (flat.T @ terms).reshape(parameters[f"{layer}_weights"].shape)
        gradients[f"{layer}_bias"] = flat.sum(axis=0)
        back: Floats = gradient @ weights_used(parameters, layer, grid)
        return back

    probabilities[np.arange(n), labels] -= 1
    gradient = through_layer("dense", probabilities / np.float32(n))
    passes = values["pool_passes"]
    window_gradient = passes * gradient.reshape(passes.shape[0], passes.shape[1], 1, passes.shape[3], 1, -1)
    gradient = window_gradient.reshape(values["conv2_out"].shape) * values["conv2_passes"]
    gradient = patches_gradient(through_layer("conv2", gradient), CHANNELS["conv1"]) * values["conv1_passes"]
    through_layer("conv1", gradient)
    return loss, gradients
