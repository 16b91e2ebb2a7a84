"""The digits network as a tensor program.

    images (n, 8, 8, 1) ─ conv1 3×3, 16 channels ─ conv2 3×3, 32 channels ─ max-pool 2×2 ─ dense ─ logits (n, 10)

Both convolutions have a padding of 1. Each of the three layers with weights is followed by a bias, a right shift and a
clip to int8, which after convolutions starts at 0 and so is their ReLU. The biases include half of the shifts'
divisors, so that the shifts round to nearest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import bias_add, conv2d, dense, flatten, max_pool2d, requantise

DEFAULT_BATCH = 60

IMAGE_SHAPE = (8, 8, 1)
CLASSES = 10
LAYERS = ("conv1", "conv2", "dense")


@dataclass(frozen=True)
class Digits:
    """The content of digits.npz: `images` (360, 8, 8, 1) int8, `labels` (360,) uint8, and the integer parameters."""

    images: NDArray[np.int8]
    labels: NDArray[np.uint8]
    parameters: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Network:
    """The tensor program for a batch: its input, its output, and the values of its constant placeholders."""

    images: Tensor
    logits: Tensor
    weights: tuple[Tensor, ...]
    constants: Mapping[str, NDArray[Any]]

    @property
    def tensors(self) -> list[Tensor]:
        """All arguments of the program, in the order of the computation."""
        return [self.images, *self.weights, self.logits]


@cache
def load_digits() -> Digits:
    """The held-out images with their labels, and the trained parameters."""
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return Digits(arrays.pop("images"), arrays.pop("labels"), arrays)


def digits_network(batch: int, parameters: Mapping[str, NDArray[Any]] | None = None) -> Network:
    """The network for `batch` images, with the trained parameters by default, or others of the same shapes.

    Raises TensorError for a batch of less than 1.
    """
    values = load_digits().parameters if parameters is None else parameters
    constants = {f"{layer}_{kind}": values[f"{layer}_{kind}"] for layer in LAYERS for kind in ("weights", "bias")}
    weights = {name: placeholder(value.shape, str(value.dtype), name=name) for name, value in constants.items()}
    images = placeholder((batch, *IMAGE_SHAPE), "int8", name="images")

    x = images
    for layer in ("conv1", "conv2"):
        x = conv2d(x, weights[f"{layer}_weights"], padding=1, name=layer)
        x = bias_add(x, weights[f"{layer}_bias"], name=f"{layer}.bias")
        x = requantise(x, int(values[f"{layer}_shift"]), rounding=False, low=0, name=f"{layer}.relu")
    x = flatten(max_pool2d(x, 2, name="pool"), name="flatten")
    x = dense(x, weights["dense_weights"], weights["dense_bias"], name="dense")
    logits = requantise(x, int(values["dense_shift"]), rounding=False, name="logits")
    return Network(images, logits, tuple(weights.values()), constants)
