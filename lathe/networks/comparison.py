"""A network's outputs beside onnxruntime's, which computes the same model without its graph optimisations."""

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


def compared(name: str, made: Any, wanted: Any) -> Compared:
    """Two arrays of one shape, or what is none: sequences, element behind element, and nothing, as none of them."""
    shape = (len(made),) if isinstance(made, list) else np.shape(made) if made is not None else (0,)
    a, b = _flat(made), _flat(wanted)
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
    """Complex numbers as two each."""
    if values.dtype.kind == "c":
        return np.stack([values.real, values.imag], -1).astype(np.float64).reshape(-1)
    return values.astype(np.float64)
