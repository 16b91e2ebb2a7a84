"""Train the digits network and write digits.npz next to this file: `python -m lathe.networks.digits.train`.

Needs the extra `train` (scikit-learn, for the images only); training is NumPy on one core and takes about twenty
seconds. Everything is seeded, so the same machine writes the same file; another BLAS may round float sums differently
and give other weights, so the file is committed.

Split: 36 images of every class, drawn by a generator with seed 0, are held out (360 in all, in the order of the
original set). The other 1,437 were split in the same way four times to choose the hyper-parameters below (`--validate`
repeats that); the scales come from the training images.

Contents of digits.npz:

    images (360, 8, 8, 1) int8, pixels 0..16     labels (360,) uint8
    conv1_weights (16, 3, 3, 1) int8             conv1_bias (16,) int32     conv1_shift () int32
    conv2_weights (32, 3, 3, 16) int8            conv2_bias (32,) int32     conv2_shift () int32
    dense_weights (10, 512) int8                 dense_bias (10,) int32     dense_shift () int32

where every scale is a power of two and a bias includes half of its shift's divisor (see inference.py).
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lathe.networks.digits.float_network import (
    INPUT_FRACTION_BITS,
    LAYERS,
    Floats,
    Grid,
    Parameters,
    forward,
    initial_parameters,
    loss_and_gradients,
    to_grid,
)
from lathe.networks.digits.inference import infer

Labels: TypeAlias = NDArray[np.int64]

SEED = 0
HELD_OUT_PER_CLASS = 36
VALIDATION_SPLITS = 4
BATCH = 32
FLOAT_EPOCHS = 60
GRID_EPOCHS = 10
LEARNING_RATE = 3e-3
GRID_LEARNING_RATE = 5e-4
WEIGHT_DECAY = 1e-4
NOISE = 0.2  # standard deviation added to pixels of 0..1 while training
BIAS_LIMIT = 2**15  # biases fit the machine's 16-bit immediate


def load_images() -> tuple[Floats, Labels]:
    """The 1,797 images (n, 8, 8, 1) as pixels 0..16, and their labels."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    return digits.images.astype(np.float32)[..., np.newaxis], digits.target.astype(np.int64)


def hold_out(labels: Labels, per_class: int, seed: int) -> NDArray[np.bool_]:
    """True for `per_class` images of every class, drawn by a generator with this seed."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), np.bool_)
    for label in range(10):
        members = np.flatnonzero(labels == label)
        held[rng.permutation(members)[:per_class]] = True
    return held


def batches(images: Floats, labels: Labels, rng: np.random.Generator) -> Iterator[tuple[Floats, Labels]]:
    """One epoch in random order, with images shifted by up to one pixel horizontally, and noise."""
    order = rng.permutation(len(images))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        moved = images[chosen].copy()
        for offset in (-1, 1):
            subset = rng.random(len(chosen)) < 0.25
            moved[subset] = np.roll(moved[subset], offset, axis=2)
            moved[subset, :, 0 if offset == 1 else -1] = 0
        noise = NOISE * rng.standard_normal(moved.shape, dtype=np.float32)
        yield np.clip(moved + noise, 0, 1), labels[chosen]


class Adam:
    """Adam (Kingma and Ba, 2015) with decoupled weight decay."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.step_count = 0

    def step(self, gradients: Parameters, rate: float) -> None:
        """Update every parameter once."""
        self.step_count += 1
        first, second = 1 - 0.9**self.step_count, 1 - 0.999**self.step_count
        for name, gradient in gradients.items():
            self.mean[name] += np.float32(0.1) * (gradient - self.mean[name])
            self.square[name] += np.float32(0.001) * (gradient * gradient - self.square[name])
            change = (self.mean[name] / first) / (np.sqrt(self.square[name] / second) + 1e-8)
            decay = WEIGHT_DECAY * self.parameters[name] if name.endswith("weights") else 0.0
            self.parameters[name] -= (rate * (change + decay)).astype(np.float32)


def train(images: Floats, labels: Labels, seed: int) -> tuple[Parameters, Grid]:
    """Train in float with a decreasing rate, choose a grid from the training images, and train on that grid."""
    rng = np.random.default_rng(seed)
    scaled = images / np.float32(2**INPUT_FRACTION_BITS)
    optimiser = Adam(initial_parameters(rng))
    for epoch in range(FLOAT_EPOCHS):
        rate = LEARNING_RATE * (1 + np.cos(np.pi * epoch / FLOAT_EPOCHS)) / 2
        losses = [train_batch(optimiser, x, y, rate, None) for x, y in batches(scaled, labels, rng)]
        print(f"epoch {epoch + 1:2d}: loss {np.mean(losses):.4f}", flush=True)
    grid = choose_grid(optimiser.parameters, scaled)
    for epoch in range(GRID_EPOCHS):
        rate = GRID_LEARNING_RATE * (1 - epoch / GRID_EPOCHS)
        losses = [train_batch(optimiser, x, y, rate, grid) for x, y in batches(scaled, labels, rng)]
        print(f"epoch {FLOAT_EPOCHS + epoch + 1:2d}: loss {np.mean(losses):.4f} on the int8 grid", flush=True)
    return optimiser.parameters, grid


def train_batch(optimiser: Adam, images: Floats, labels: Labels, rate: float, grid: Grid | None) -> float:
    """One optimiser step; returns the loss before it."""
    loss, gradients = loss_and_gradients(optimiser.parameters, images, labels, grid)
    optimiser.step(gradients, rate)
    return loss


def choose_grid(parameters: Parameters, images: Floats) -> Grid:
    """The finest power-of-two scales that represent every weight and (almost) every value of the training images."""
    values = forward(parameters, images)
    seen = {"conv1": values["conv1_out"], "conv2": values["conv2_out"], "dense": np.abs(values["logits"])}
    return Grid(
        weight_bits={layer: fraction_bits(float(np.abs(parameters[f"{layer}_weights"]).max())) for layer in LAYERS},
        output_bits={layer: fraction_bits(float(np.quantile(seen[layer], 0.9999))) for layer in LAYERS},
    )


def fraction_bits(largest: float) -> int:
    """The most fraction bits with which `largest` still fits int8."""
    return int(np.floor(np.log2(127 / largest)))


def quantise(parameters: Parameters, grid: Grid) -> dict[str, NDArray[Any]]:
    """Quantise the parameters to integers, named as in digits.npz."""
    arrays: dict[str, NDArray[Any]] = {}
    input_bits = INPUT_FRACTION_BITS
    for layer in LAYERS:
        weight_bits, output_bits = grid.weight_bits[layer], grid.output_bits[layer]
        shift = input_bits + weight_bits - output_bits
        bias = np.rint(parameters[f"{layer}_bias"] * 2.0 ** (input_bits + weight_bits)) + 2 ** (shift - 1)
        assert shift > 0, f"the shift of {layer} is {shift}: its outputs would gain bits"
        assert np.abs(bias).max() < BIAS_LIMIT, f"a bias of {layer} does not fit 16 bits"
        weights = to_grid(parameters[f"{layer}_weights"], weight_bits) * 2.0**weight_bits
        arrays[f"{layer}_weights"] = weights.astype(np.int8)
        arrays[f"{layer}_bias"] = bias.astype(np.int32)
        arrays[f"{layer}_shift"] = np.array(shift, np.int32)
        input_bits = output_bits
    return arrays


def accuracy(images: Floats, labels: Labels, arrays: dict[str, NDArray[Any]]) -> float:
    """The share of images that the integer network classifies correctly."""
    return float((infer(images.astype(np.int8), arrays).argmax(axis=1) == labels).mean())


def evaluate(images: Floats, labels: Labels, held: NDArray[np.bool_]) -> tuple[dict[str, NDArray[Any]], float]:
    """Train on the images that are not held out; returns the integer parameters and the accuracy on the others."""
    parameters, grid = train(images[~held], labels[~held], SEED)
    arrays = quantise(parameters, grid)
    print(f"int8 accuracy on the training images: {accuracy(images[~held], labels[~held], arrays):.4f}")
    return arrays, accuracy(images[held], labels[held], arrays)


def main(arguments: list[str]) -> None:
    """Train and write digits.npz, or with --validate report accuracies on splits of the training images."""
    images, labels = load_images()
    held = hold_out(labels, HELD_OUT_PER_CLASS, SEED)
    with threadpool_limits(1):  # type: ignore[no-untyped-call]
        if "--validate" in arguments:
            images, labels = images[~held], labels[~held]
            splits = [hold_out(labels, HELD_OUT_PER_CLASS, SEED + 1 + number) for number in range(VALIDATION_SPLITS)]
            accuracies = [evaluate(images, labels, split)[1] for split in splits]
            print(f"int8 accuracy on {VALIDATION_SPLITS} validation splits: {np.round(accuracies, 4)}")
            return
        arrays, share = evaluate(images, labels, held)
    print(f"int8 accuracy on the {int(held.sum())} held-out images: {share:.4f}")
    path = Path(__file__).with_name("digits.npz")
    contents: dict[str, Any] = {
        "images": images[held].astype(np.int8),
        "labels": labels[held].astype(np.uint8),
        **arrays,
    }
    np.savez_compressed(path, **contents)
    print(f"wrote {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
