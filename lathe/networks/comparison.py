"""A network's outputs beside onnxruntime's, which computes the same model without its graph optimisations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.host import run_on_host
from lathe.frontend.onnx.reading import Model

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Compared:
    """One output: the cosine of the angle between both, the share of equal values, the largest difference."""

    name: str
    shape: tuple[int, ...]
    cosine: float
    equal: float
    largest: float


def compared_with_onnxruntime(model: Model, inputs: Arrays, outputs: Arrays) -> list[Compared]:
    """Each output against onnxruntime's. Raises ModelError where that does not run the model."""
    wanted = run_on_host(model.original.SerializeToString(), inputs, model.outputs)
    return [compared(name, outputs[name], wanted[name]) for name in model.outputs]


def compared(name: str, made: NDArray[Any], wanted: NDArray[Any]) -> Compared:
    """Two arrays of one shape."""
    a, b = made.astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(a @ b) / lengths if lengths else float(np.array_equal(a, b))
    largest = float(np.abs(a - b).max(initial=0))
    return Compared(name, made.shape, cosine, float(np.mean(a == b)) if a.size else 1.0, largest)
