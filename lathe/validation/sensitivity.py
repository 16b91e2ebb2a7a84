"""Which magnitudes of a tensor's values make a difference to those who read it.

A clipped result is the same for nearly all numbers of 32 bits: a wrong operand would not be noticed. So values are
drawn mostly from the magnitudes for which the readers' expressions give different results for different operands.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Computation, Tensor, reads_data
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.evaluation import Evaluator
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Read, Reduce, Select

Readers = dict[Tensor, list[tuple[Computation, tuple[Tensor, ...]]]]
"""For each tensor the computations that read it, with the tensors that they make."""

POINTS = 64
OCTAVES = range(31)


def computes(body: Expr) -> bool:
    """Whether an expression makes numbers of its operands, rather than moving, cutting or leaving out some."""
    for node in walk(body):
        if isinstance(node, Reduce) or (isinstance(node, Select) and reads_data(node.condition)):
            return True
        moved = isinstance(node, Read | Select) or len(node.children) < 2
        if not moved and reads_data(node):
            return True
    return False


def is_wide(dtype: str) -> bool:
    """Whether values of a type have more than 8 bits."""
    return DTYPES[dtype].bits > 8


def telling_octaves(tensor: Tensor, readers: Readers, seed: int) -> tuple[int, ...]:
    """The magnitudes, as powers of two, at which readers of a tensor tell its values apart; () where all do equally."""
    found: set[int] = set()
    seen = {tensor}
    ways = [tensor]
    while ways:
        for reader, outputs in readers.get(ways.pop(), ()):
            for made, body in zip(outputs, reader.bodies, strict=True):
                reads = [node for node in walk(body) if isinstance(node, Read) and node.tensor in seen]
                if computes(body):
                    found |= _octaves(reader, body, reads, seed)
                elif DTYPES[body.dtype].bits < DTYPES[tensor.dtype].bits:
                    found |= set(range(DTYPES[body.dtype].bits))
                elif made not in seen:
                    seen.add(made)
                    ways.append(made)
    return tuple(sorted(found)) if len(found) < len(OCTAVES) - 1 else ()  # octave 0 has one value only


def _octaves(computation: Computation, body: Expr, reads: list[Read], seed: int) -> set[int]:
    value = body.body if isinstance(body, Reduce) else body
    before, after = (_Probe(computation, reads, seed, varied).value(value) for varied in (0, 1))
    differs = np.broadcast_to(before != after, (len(OCTAVES) * POINTS,)).reshape(len(OCTAVES), POINTS)
    scores = differs.mean(axis=1)
    told = (scores > 0) & (scores >= scores.max() / 2)
    return {int(octave) for octave in np.flatnonzero(told)}


class _Probe(Evaluator):
    """Evaluates an expression at random points, ``POINTS`` for each octave, where every read yields a random number.

    Those of wide types have the magnitude of the octave. ``varied`` makes the values of some reads others and leaves
    everything else as it is.
    """

    def __init__(self, computation: Computation, reads: list[Read], seed: int, varied: int) -> None:
        generator = np.random.default_rng(seed)
        axes: dict[Any, Any] = {
            axis: generator.integers(axis.start, axis.stop, POINTS * len(OCTAVES))
            for axis in (*computation.axes, *computation.reduce_axes)
        }
        super().__init__(axes)
        self.chosen = {id(read) for read in reads}
        self.varied = varied
        self.seed = seed
        self.places = {id(node): n for n, node in enumerate(walk(computation.bodies[0]))}

    def read(self, read: Read) -> NDArray[Any]:
        place, chosen = self.places.get(id(read), 0), id(read) in self.chosen
        generator = np.random.default_rng([self.seed, place, self.varied if chosen else 2])
        signs = np.random.default_rng([self.seed, place, 3])  # nearly every reader tells these apart
        dtype, count = DTYPES[read.tensor.dtype], POINTS * len(OCTAVES)
        if dtype.bits <= 8:
            return generator.integers(dtype.minimum, dtype.maximum, count, endpoint=True).astype(dtype.numpy)
        least = np.repeat(np.int64(1) << np.asarray(OCTAVES), POINTS)
        magnitude = least + generator.integers(0, 1 << 31, count) % least
        signed = np.where(signs.integers(0, 2, count) > 0, magnitude, -magnitude)
        return np.clip(signed, dtype.minimum, dtype.maximum).astype(dtype.numpy)
