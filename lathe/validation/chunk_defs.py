"""Which elements chunks make, and which of these are whole afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.validation.sampling import Ints


def elements_of(chunk: ChunkProvenance) -> Ints:
    """The row-major numbers of the elements of a chunk, each once, ascending."""
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
    numbers, there = np.broadcast_arrays(flat, inside)
    made = np.zeros(int(np.prod(shape)), np.bool_)
    made[numbers[there]] = True
    return np.flatnonzero(made)


@dataclass(frozen=True)
class Final:
    """The elements that are whole after a part of reductions; ``goes_on``: whether parts of others are to come."""

    elements: Ints
    goes_on: bool


def final_elements(chunks: Sequence[ChunkProvenance], order: Sequence[int]) -> dict[int, Final]:
    """For chunks that add parts of reductions, by number: the elements that are whole afterwards.

    ``order`` has the numbers of the chunks in the order in which they are through. An element is whole after the last
    part that is added before it is begun again.
    """
    more: dict[Tensor, NDArray[np.bool_]] = {}
    finals: dict[int, Final] = {}
    for number in reversed(order):
        chunk = chunks[number]
        if chunk.role in ("map", "reduce") and chunk.tensor not in more:
            continue
        elements = elements_of(chunk)
        open_ = more.setdefault(chunk.tensor, np.zeros(int(np.prod(chunk.tensor.shape)), np.bool_))
        if chunk.role == "update":
            finals[number] = Final(elements[~open_[elements]], bool(open_.any()))
        open_[elements] = chunk.role == "update"
    return finals
