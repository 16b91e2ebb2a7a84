"""The networks that are measured: float models of examples/models, their inputs by seed, and how each is quantised."""

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
from quantised_products import PRODUCTS
from resnet import resnet18, resnet50
from transformer import transformer
from unet import unet

import lathe as lt

ROOT = Path(__file__).parents[1]
Arrays = Mapping[str, np.ndarray]
CALIBRATION, MEASURED = range(100, 108), 5
"""Seeds of the inputs for which scales are found, and of those that are measured with."""


@dataclass(frozen=True)
class Case:
    """A float model, its inputs by seed, and how it is quantised.

    ``decides``: the axis of its output along which the largest value is an answer; ``package`` is one of the registry.
    """

    model: Callable[[], onnx.ModelProto]
    inputs: Callable[[int], Arrays]
    decides: int | None = None
    operators: tuple[str, ...] | None = None
    symmetric: bool = False
    package: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the quantised model."""
        samples = [self.inputs(seed) for seed in CALIBRATION]
        stacked = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
        onnx.save(
            lt.quantize(self.model(), stacked, shapes=self.shapes, symmetric=self.symmetric, only=self.operators), path
        )


def picture(seed: int, pixels: int) -> Arrays:
    """Seeded patches of many sizes, each half of the one before: unlike noise, pictures differ, and have edges."""
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
    import drawn_text  # needs Pillow, which the others do not

    return {"x": drawn_text.pixels_of(drawn_text.page(seed))}


def line(seed: int) -> Arrays:
    import drawn_text

    return {"x": drawn_text.pixels_of(drawn_text.line(seed))}


def source(seed: int) -> Arrays:
    """A file of this repository, as Magika reads it."""
    files = sorted(path for kind in ("py", "md", "yaml", "h") for path in ROOT.glob(f"*/*.{kind}"))
    return bytes_read(files[seed * 7 % len(files)].read_bytes())


CASES = {
    "ResNet-18": Case(resnet18, pictures(224), 1),
    "ResNet-18 symmetric": Case(resnet18, pictures(224), 1, symmetric=True),
    "ResNet-50": Case(resnet50, pictures(224), 1),
    "MobileNetV2": Case(mobilenetv2, pictures(224), 1),
    "U-Net": Case(unet, pictures(128), 1),
    "LSTM": Case(lstm, normal("frames", 32, 1, FEATURES), 2),
    # Of two computed operands with zero points the NPU makes no product.
    "Transformer": Case(transformer, normal("tokens", 1, 128, 256), symmetric=True),
    # What lies between its products does not bear 8 bits: it then takes most files for JavaScript.
    "Magika": Case(
        lambda: packaged(MAGIKA), source, 1, PRODUCTS, symmetric=True, package=MAGIKA[0], shapes={"bytes": (1, 2048)}
    ),
    "Text detector": Case(
        lambda: packaged(DETECTOR), page, symmetric=True, package=DETECTOR[0], shapes={"x": (1, 3, 192, 192)}
    ),
    "Text direction": Case(lambda: packaged(DIRECTION), line, 1, package=DIRECTION[0], shapes={"x": (1, 3, 48, 192)}),
}
