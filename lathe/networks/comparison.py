"""Comparison of a network's outputs with onnxruntime's for the same model, without graph optimisations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.run_host_nodes import run_on_host

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Compared:
    """Comparison of one output: the cosine similarity, the share of equal values, the largest difference."""

    name: str
    shape: tuple[int, ...]
    cosine: float
    equal: float
    largest: float


def compared_with_onnxruntime(model: Model, inputs: Arrays, outputs: Arrays) -> list[Compared]:
    """Compare each output with onnxruntime's. Raises ModelError if onnxruntime cannot run the model."""
    expected = run_on_host(model.original.SerializeToString(), inputs, model.outputs)
    return [compared(name, outputs[name], expected[name]) for name in model.outputs]


def compared(name: str, made: Any, expected: Any) -> Compared:
    """Compare two arrays of the same shape; sequences are concatenated, and None is an empty array."""
    shape = (len(made),) if isinstance(made, list) else np.shape(made) if made is not None else (0,)
    a, b = _flat(made), _flat(expected)
    if a.dtype.kind in "OSU" or b.dtype.kind in "OSU":  # texts
        same = np.array_equal(a, b)
        return Compared(name, shape, float(same), float(np.mean(a == b)) if a.size else 1.0, float(not same))
    a, b = _numbers(a), _numbers(b)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(a @ b) / lengths if lengths else float(np.array_equal(a, b))
    largest = float(np.abs(a - b).max(initial=0))
    return Compared(name, shape, cosine, float(np.mean(a == b)) if a.size else 1.0, largest)


def _flat(values: Any) -> NDArray[Any]:
    if values is None:
        return np.zeros(0)
    if isinstance(values, list):
        return np.concatenate([_flat(each) for each in values]) if values else np.zeros(0)
    return np.asarray(values).reshape(-1)


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Values as float64; complex numbers become two each."""
    if values.dtype.kind == "c":
        return np.stack([values.real, values.imag], -1).astype(np.float64).reshape(-1)
    return values.astype(np.float64)
