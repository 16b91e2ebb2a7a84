"""Random values that stand for the elements of tensors: the same for equal elements, different for all others.

An element is followed through the machine by a column of values, one for each sample. Where a stage has been checked
and its values go on, new ones take their place, drawn from all that the stage can make, so that what comes after is
tried on every kind of number and not only on those that random inputs lead to. New values depend on the old column
alone: elements that are equal stay equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

KINDS = 8
"""Samples of different kinds, which come in turn."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Pseudo-random 64-bit numbers, one for each given one (Steele, Lea and Flood's splitmix64)."""
    with np.errstate(over="ignore"):
        z = numbers + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, both included; ``octaves`` are the magnitudes (log2) that readers tell apart."""

    low: int
    high: int
    octaves: tuple[int, ...] = ()

    @property
    def is_wide(self) -> bool:
        """Whether uniform values would nearly all be large."""
        return self.high - self.low >= 1 << 12


class Sampler:
    """Draws the values of ``samples`` samples. ``seed`` decides everything."""

    def __init__(self, samples: int, seed: int) -> None:
        self.samples = samples
        self.seed = seed
        keys = mixed(np.arange(1, samples + 1, dtype=np.uint64) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(seed))
        self._keys = keys
        self._weights = (mixed(keys) | np.uint64(1)).view(np.int64)

    def hashes(self, columns: NDArray[np.integer]) -> Ints:
        """One number for each column of an array (samples, ...): equal columns have equal ones, others hardly ever."""
        with np.errstate(over="ignore"):
            found = np.zeros(columns.shape[1:], np.int64)
            for weight, row in zip(self._weights, columns, strict=True):
                found += row.astype(np.int64) * weight
        return mixed(found.view(np.uint64)).view(np.int64)

    def identities(self, name: str, count: int) -> Ints:
        """A number for each of ``count`` elements of a tensor."""
        start = mixed(np.array([hash_of(name) ^ self.seed], np.uint64))[0]
        with np.errstate(over="ignore"):
            return mixed(np.arange(count, dtype=np.uint64) + start).view(np.int64)

    def drawn(self, identities: Ints, values: Range, salt: str = "") -> Ints:
        """Values (samples, ...) of elements: those of equal identity are equal.

        Of every eight samples one has the ends of the range and what is near them and near 0, one or two have one end
        nearly everywhere; others are uniform, or for wide ranges of magnitudes that readers tell apart.
        """
        salted = identities.view(np.uint64) ^ mixed(np.array([hash_of(salt)], np.uint64))[0]
        rows = [self._row(sample, mixed(salted ^ self._keys[sample]), values) for sample in range(self.samples)]
        return np.stack(rows)

    def _row(self, sample: int, random: NDArray[np.uint64], values: Range) -> Ints:
        low, high = values.low, values.high
        kind = sample % KINDS
        if kind == 0:
            return _chosen(random, edges(low, high))
        if kind in (2, 3) and (kind == 3 or not values.is_wide):  # so that the least or greatest of many is an end, too
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
    """The ends of a range, what is next to them, and what is next to 0."""
    return sorted({value for value in (low, low + 1, high - 1, high, -1, 0, 1) if low <= value <= high})


def hash_of(text: str) -> int:
    """A 64-bit number of a text, the same in every run."""
    found = 0xCBF29CE484222325
    for byte in text.encode():
        found = (found ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return found


def _chosen(random: NDArray[np.uint64], choices: Sequence[int]) -> Ints:
    places = (random >> np.uint64(11)) % np.uint64(len(choices))
    return np.asarray(choices, np.int64)[places.view(np.int64)]


def _uniform(random: NDArray[np.uint64], low: int, high: int) -> Ints:
    return (random % np.uint64(high - low + 1)).view(np.int64) + low
