"""Sensitivity analysis: the magnitudes of a tensor's values that its consumers are sensitive to.

A clipped result is the same for nearly all 32-bit operands, so that a wrong operand would go unnoticed. Values are
therefore drawn mostly from magnitudes at which the consumers' expressions give different results for different values.
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
"""For each tensor, the computations that read it, with the tensors that they compute."""

POINTS = 64
OCTAVES = range(31)


def computes(body: Expr) -> bool:
    """Whether an expression does arithmetic on its operands, rather than only move, select or narrow them."""
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


def sensitive_octaves(tensor: Tensor, readers: Readers, seed: int) -> tuple[int, ...]:
    """The magnitudes (log2) at which consumers of a tensor are sensitive to its values; () if at all of them."""
    octaves: set[int] = set()
    seen = {tensor}
    pending = [tensor]
    while pending:
        for reader, outputs in readers.get(pending.pop(), ()):
            for output, body in zip(outputs, reader.bodies, strict=True):
                reads = [node for node in walk(body) if isinstance(node, Read) and node.tensor in seen]
                if computes(body):
                    octaves |= _octaves(reader, body, reads, seed)
                elif DTYPES[body.dtype].bits < DTYPES[tensor.dtype].bits:
                    octaves |= set(range(DTYPES[body.dtype].bits))
                elif output not in seen:
                    seen.add(output)
                    pending.append(output)
    return tuple(sorted(octaves)) if len(octaves) < len(OCTAVES) - 1 else ()  # octave 0 has one value only


def _octaves(computation: Computation, body: Expr, reads: list[Read], seed: int) -> set[int]:
    value = body.body if isinstance(body, Reduce) else body
    before, after = (_Probe(computation, reads, seed, varied).value(value) for varied in (0, 1))
    differs = np.broadcast_to(before != after, (len(OCTAVES) * POINTS,)).reshape(len(OCTAVES), POINTS)
    scores = differs.mean(axis=1)
    sensitive = (scores > 0) & (scores >= scores.max() / 2)
    return {int(octave) for octave in np.flatnonzero(sensitive)}


class _Probe(Evaluator):
    """Evaluates an expression at random points, ``POINTS`` for each octave, with a random value for every read.

    Values of wide types have the octave's magnitude. ``varied`` selects the values of ``reads``; all else is equal.
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
        self.positions = {id(node): n for n, node in enumerate(walk(computation.bodies[0]))}

    def read(self, read: Read) -> NDArray[Any]:
        position, chosen = self.positions.get(id(read), 0), id(read) in self.chosen
        generator = np.random.default_rng([self.seed, position, self.varied if chosen else 2])
        signs = np.random.default_rng([self.seed, position, 3])  # not varied: nearly all consumers are sensitive to it
        dtype, count = DTYPES[read.tensor.dtype], POINTS * len(OCTAVES)
        if dtype.bits <= 8:
            return generator.integers(dtype.minimum, dtype.maximum, count, endpoint=True).astype(dtype.numpy)
        least = np.repeat(np.int64(1) << np.asarray(OCTAVES), POINTS)
        magnitude = least + generator.integers(0, 1 << 31, count) % least
        signed = np.where(signs.integers(0, 2, count) > 0, magnitude, -magnitude)
        return np.clip(signed, dtype.minimum, dtype.maximum).astype(dtype.numpy)
