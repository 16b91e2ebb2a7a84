"""The digits network in integer NumPy: an independent definition of the compiled network's results, bit by bit.

This file does not use tensor programs or the machine, so that it shares no mistake with them. A layer consists of
exact sums in int64 (asserted to fit int32), the bias, an arithmetic right shift, and a clip to the stored range. The
bias includes half of the shift's divisor, so that the shift rounds to nearest.
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]

ACCUMULATOR_LIMIT = 2**31


def requantise(sums: Integers, bias: Integers, shift: int, smallest: int) -> Integers:
    """(sums + bias) >> shift, clipped to [smallest, 127]."""
    total = sums + bias
    assert np.abs(total).max(initial=0) < ACCUMULATOR_LIMIT, "a sum of the digits network does not fit int32"
    clipped: Integers = np.clip(total >> shift, smallest, 127)
    return clipped


def convolve(x: Integers, weights: Integers) -> Integers:
    """3x3 convolution with padding 1: x (n, h, w, c), weights (out, 3, 3, c) -> sums (n, h, w, out)."""
    _, h, w, _ = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = np.zeros((*x.shape[:3], len(weights)), np.int64)
    for ky in range(3):
        for kx in range(3):
            sums += padded[:, ky : ky + h, kx : kx + w] @ weights[:, ky, kx].T
    return sums


def infer(images: NDArray[np.int8], arrays: Mapping[str, NDArray[np.generic]]) -> NDArray[np.int8]:
    """Compute the logits of `images`.

    `images`: (n, 8, 8, 1) int8, pixels 0..16. `arrays`: the parameters of digits.npz (see `train.py`).
    Returns (n, 10) int8; the class is the index of the largest, the lowest index if several are equal.
    """
    value = {name: array.astype(np.int64) for name, array in arrays.items()}
    shift = {layer: int(arrays[f"{layer}_shift"]) for layer in ("conv1", "conv2", "dense")}
    x = convolve(images.astype(np.int64), value["conv1_weights"])
    x = requantise(x, value["conv1_bias"], shift["conv1"], smallest=0)
    x = convolve(x, value["conv2_weights"])
    x = requantise(x, value["conv2_bias"], shift["conv2"], smallest=0)
    x = np.maximum(np.maximum(x[:, 0::2, 0::2], x[:, 0::2, 1::2]), np.maximum(x[:, 1::2, 0::2], x[:, 1::2, 1::2]))
    x = x.reshape(len(x), -1) @ value["dense_weights"].T
    return requantise(x, value["dense_bias"], shift["dense"], smallest=-128).astype(np.int8)
