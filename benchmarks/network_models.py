"""The networks of the benchmarks: float models of examples/models, their seeded inputs, and quantisation options."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

sys.path.append(str(Path(__file__).parents[1] / "examples" / "models"))

from lstm import FEATURES, lstm
from mobilenet import mobilenetv2
from packaged import DETECTOR, DIRECTION, MAGIKA, bytes_read, packaged
from quantised_macs import PRODUCTS
from resnet import resnet18, resnet50
from transformer import transformer
from unet import unet

import lathe as lt

ROOT = Path(__file__).parents[1]
Arrays = Mapping[str, np.ndarray]
CALIBRATION, MEASURED = range(100, 108), 5
"""Seeds of the calibration inputs, and the seed of the measured input."""


@dataclass(frozen=True)
class Case:
    """A float model, its inputs by seed, and its quantisation options.

    ``decides``: the output axis for top-1 decisions, if any; ``package``: the Python package that the model is from.
    """

    model: Callable[[], onnx.ModelProto]
    inputs: Callable[[int], Arrays]
    decides: int | None = None
    operators: tuple[str, ...] | None = None
    symmetric: bool = False
    package: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the quantised model to a file."""
        samples = [self.inputs(seed) for seed in CALIBRATION]
        stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
        onnx.save(
            lt.quantize(self.model(), stacked, shapes=self.shapes, symmetric=self.symmetric, only=self.operators), path
        )


def picture(seed: int, pixels: int) -> Arrays:
    """An image of seeded patches of successively halved sizes: unlike noise, such images differ, and have edges."""
    random, made = np.random.default_rng(seed), np.zeros((1, 3, pixels, pixels))
    across = 2
    while across <= pixels:
        size = -(-pixels // across)
        patches = np.kron(random.standard_normal((1, 3, across, across)), np.ones((size, size)))
        made += patches[:, :, :pixels, :pixels]
        across *= 2
    return {"image": (made / made.std()).astype(np.float32)}


def pictures(pixels: int) -> Callable[[int], Arrays]:
    return lambda seed: picture(seed, pixels)


def normal(name: str, *shape: int) -> Callable[[int], Arrays]:
    return lambda seed: {name: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def page(seed: int) -> Arrays:
    import drawn_text  # requires Pillow, unlike the other cases

    return {"x": drawn_text.pixels_of(drawn_text.page(seed))}


def line(seed: int) -> Arrays:
    import drawn_text

    return {"x": drawn_text.pixels_of(drawn_text.line(seed))}


def source(seed: int) -> Arrays:
    """A file of this repository as Magika's input."""
    files = sorted(path for kind in ("py", "md", "yaml", "h") for path in ROOT.glob(f"*/*.{kind}"))
    return bytes_read(files[seed * 7 % len(files)].read_bytes())


CASES = {
    "ResNet-18": Case(resnet18, pictures(224), 1),
    "ResNet-18 symmetric": Case(resnet18, pictures(224), 1, symmetric=True),
    "ResNet-50": Case(resnet50, pictures(224), 1),
    "MobileNetV2": Case(mobilenetv2, pictures(224), 1),
    "U-Net": Case(unet, pictures(128), 1),
    "LSTM": Case(lstm, normal("frames", 32, 1, FEATURES), 2),
    # The NPU has no matmul of two computed operands with zero points.
    "Transformer": Case(transformer, normal("tokens", 1, 128, 256), symmetric=True),
    # Quantising the nodes between its matmuls would make it classify most files as JavaScript.
    "Magika": Case(
        lambda: packaged(MAGIKA), source, 1, PRODUCTS, symmetric=True, package=MAGIKA[0], shapes={"bytes": (1, 2048)}
    ),
    "Text detector": Case(
        lambda: packaged(DETECTOR), page, symmetric=True, package=DETECTOR[0], shapes={"x": (1, 3, 192, 192)}
    ),
    "Text direction": Case(lambda: packaged(DIRECTION), line, 1, package=DIRECTION[0], shapes={"x": (1, 3, 48, 192)}),
}
