"""The tensor elements that a chunk computes, and those whose reductions are complete after it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.validation.sampling import Ints


def elements_of(chunk: ChunkProvenance) -> Ints:
    """The row-major numbers of the elements that a chunk computes, each once, ascending."""
    shape = chunk.tensor.shape
    varying = [n for n, loop in enumerate(chunk.loops) if any(index.coefficients[n] for index in chunk.index)]
    grids = {
        n: np.arange(chunk.loops[n].extent).reshape([-1 if n == other else 1 for other in varying]) for n in varying
    }
    flat: Ints = np.zeros((), np.int64)
    inside = np.ones((), np.bool_)
    for extent, index in zip(shape, chunk.index, strict=True):
        value: Ints = np.asarray(index.constant)
        for n in varying:
            if index.coefficients[n]:
                value = value + index.coefficients[n] * grids[n]
        flat = flat * extent + value
        inside = inside & (value >= 0) & (value < extent)
    numbers, valid = np.broadcast_arrays(flat, inside)
    computed = np.zeros(int(np.prod(shape)), np.bool_)
    computed[numbers[valid]] = True
    return np.flatnonzero(computed)


@dataclass(frozen=True)
class CompleteElements:
    """The elements whose reductions an update completes; ``goes_on``: whether other elements of the tensor are open."""

    elements: Ints
    goes_on: bool


def complete_elements(chunks: Sequence[ChunkProvenance], order: Sequence[int]) -> dict[int, CompleteElements]:
    """For each update chunk, by number: the elements whose reductions it completes.

    ``order``: the numbers of the chunks in the order in which their last instructions are executed. An element is
    complete after the last update before its next initialisation.
    """
    updated_later: dict[Tensor, NDArray[np.bool_]] = {}
    complete: dict[int, CompleteElements] = {}
    for number in reversed(order):
        chunk = chunks[number]
        if chunk.role in ("map", "reduce") and chunk.tensor not in updated_later:
            continue
        elements = elements_of(chunk)
        open_ = updated_later.setdefault(chunk.tensor, np.zeros(int(np.prod(chunk.tensor.shape)), np.bool_))
        if chunk.role == "update":
            complete[number] = CompleteElements(elements[~open_[elements]], bool(open_.any()))
        open_[elements] = chunk.role == "update"
    return complete
