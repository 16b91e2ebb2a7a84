"""Random values that identify tensor elements: equal elements have equal columns of values, others different ones.

An element is tracked through the machine by its column, one value for each sample. After a stage has been checked, its
values are replaced by fresh ones from the range of its expression, so that later stages are tested on all kinds of
operands, not only on those that random inputs lead to. Fresh values depend on the old column alone: equal elements stay
equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

KINDS = 8
"""The number of kinds of samples; sample n is of kind n modulo this."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A pseudo-random 64-bit number for each number (splitmix64 of Steele, Lea and Flood)."""
    with np.errstate(over="ignore"):
        z = numbers + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, inclusive; ``octaves``: magnitudes (log2) that consumers are sensitive to."""

    low: int
    high: int
    octaves: tuple[int, ...] = ()

    @property
    def is_wide(self) -> bool:
        """Whether uniform values would nearly all be large."""
        return self.high - self.low >= 1 << 12


class Sampler:
    """Draws values for ``samples`` samples, deterministically from ``seed``."""

    def __init__(self, samples: int, seed: int) -> None:
        self.samples = samples
        self.seed = seed
        keys = mixed(np.arange(1, samples + 1, dtype=np.uint64) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(seed))
        self._keys = keys
        self._weights = (mixed(keys) | np.uint64(1)).view(np.int64)

    def hashes(self, columns: NDArray[np.integer]) -> Ints:
        """A 64-bit hash for each column of an array (samples, ...)."""
        with np.errstate(over="ignore"):
            sums = np.zeros(columns.shape[1:], np.int64)
            for weight, row in zip(self._weights, columns, strict=True):
                sums += row.astype(np.int64) * weight
        return mixed(sums.view(np.uint64)).view(np.int64)

    def identities(self, name: str, count: int) -> Ints:
        """A distinct number for each of ``count`` elements of a tensor."""
        start = mixed(np.array([hash_of(name) ^ self.seed], np.uint64))[0]
        with np.errstate(over="ignore"):
            return mixed(np.arange(count, dtype=np.uint64) + start).view(np.int64)

    def draw(self, identities: Ints, values: Range, salt: str = "") -> Ints:
        """Values (samples, ...) of elements; equal identities get equal values.

        Of every eight samples one has values next to 0 and to the ends of the range, one or two have the same end
        nearly everywhere; the others are uniform or, for wide ranges, mostly of ``octaves``.
        """
        salted = identities.view(np.uint64) ^ mixed(np.array([hash_of(salt)], np.uint64))[0]
        rows = [self._row(sample, mixed(salted ^ self._keys[sample]), values) for sample in range(self.samples)]
        return np.stack(rows)

    def _row(self, sample: int, random: NDArray[np.uint64], values: Range) -> Ints:
        low, high = values.low, values.high
        kind = sample % KINDS
        if kind == 0:
            return _chosen(random, edges(low, high))
        if kind in (2, 3) and (kind == 3 or not values.is_wide):  # so that a minimum or maximum of many is an end, too
            end = low if kind == 2 or sample // KINDS % 2 else high
            return np.where(random % np.uint64(8) > 0, np.int64(end), _uniform(mixed(random), low, high))
        if not values.is_wide or kind == 1:
            return _uniform(random, low, high)
        octaves: Sequence[int] = values.octaves if values.octaves and kind > 2 else range(31)
        octave = _chosen(random, list(octaves))
        rest = mixed(random)
        with np.errstate(over="ignore"):
            magnitude = (np.int64(1) << octave) + (rest >> np.uint64(8)).view(np.int64) % (np.int64(1) << octave)
        signed = np.where(rest & np.uint64(1), magnitude, -magnitude)
        inside = (signed >= low) & (signed <= high)
        return np.where(inside, signed, _uniform(mixed(rest), low, high))


def edges(low: int, high: int) -> list[int]:
    """The values of a range next to its ends and to 0."""
    return sorted({value for value in (low, low + 1, high - 1, high, -1, 0, 1) if low <= value <= high})


def hash_of(text: str) -> int:
    """A 64-bit hash of a text (FNV-1a), the same in every run."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def _chosen(random: NDArray[np.uint64], choices: Sequence[int]) -> Ints:
    indices = (random >> np.uint64(11)) % np.uint64(len(choices))
    return np.asarray(choices, np.int64)[indices.view(np.int64)]


def _uniform(random: NDArray[np.uint64], low: int, high: int) -> Ints:
    return (random % np.uint64(high - low + 1)).view(np.int64) + low
