"""The DRAM bytes that LOAD and STORE access: rows as byte ranges, for a whole stream at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa.columnar_stream import Columns, Ints
from lathe.isa.table import MEMORIES, Kind, MemoryType


@dataclass(frozen=True)
class Rows:
    """Byte ranges [``start``, ``end``) of DRAM, each with the ``instruction`` that accesses it; sorted by instruction.

    Rows of an instruction that overlap or are contiguous are merged into one range.
    """

    instruction: Ints
    start: Ints
    end: Ints

    def chosen(self, which: NDArray[np.bool_]) -> "Rows":
        """The rows where ``which`` holds."""
        return Rows(self.instruction[which], self.start[which], self.end[which])


def rows_of(config: HardwareConfig, columns: Columns, chosen: NDArray[np.bool_]) -> Rows:
    """The rows of the transfer instructions of a stream for which ``chosen`` (N,) holds."""
    sizes = np.ones(8, np.int64)  # Also for invalid memory types, which other checks report.
    for memory in MemoryType:
        sizes[memory] = MEMORIES[memory].element_bytes(config)
    moves = np.flatnonzero(chosen & (columns.kind == Kind.TRANSFER) & (columns["x_size"] > 0) & (columns["y_size"] > 0))
    size = sizes[columns["memory_type"][moves]]
    x_size, x_stride, y_size = (columns[name][moves] for name in ("x_size", "x_stride", "y_size"))
    joined = x_stride <= x_size
    width = np.where(joined, (y_size - 1) * x_stride + x_size, x_size) * size
    count = np.where(joined, 1, y_size)
    instruction = np.repeat(moves, count)
    row = np.arange(len(instruction)) - np.repeat(np.cumsum(count) - count, count)
    start = np.repeat(columns["dram_base"][moves] * size, count) + row * np.repeat(x_stride * size, count)
    return Rows(instruction, start, start + np.repeat(width, count))


@dataclass(frozen=True)
class Ranges:
    """A set of bytes as sorted ranges with gaps between them."""

    start: Ints
    end: Ints

    @classmethod
    def union(cls, start: Ints, end: Ints) -> "Ranges":
        """The union of any ranges."""
        if not len(start):
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        order = np.argsort(start, kind="stable")
        start, reach = start[order], np.maximum.accumulate(end[order])
        first = np.concatenate(([True], start[1:] > reach[:-1]))
        last = np.concatenate((first[1:], [True]))
        return cls(start[first], reach[last])

    @classmethod
    def of_pairs(cls, pairs: Sequence[tuple[int, int]]) -> "Ranges":
        """The union of (start, end) pairs."""
        array = np.array(pairs, np.int64).reshape(-1, 2)
        return cls.union(array[:, 0], array[:, 1])

    def first_outside(self, start: Ints, end: Ints) -> Ints:
        """For each range, its first byte that is not in the set, or ``end`` when all are."""
        if not len(self.start):
            return np.asarray(start)
        at = np.searchsorted(self.start, start, side="right") - 1
        inside = (at >= 0) & (self.end[np.maximum(at, 0)] > start)
        return np.where(inside, np.minimum(self.end[np.maximum(at, 0)], end), start)

    def touched(self, start: Ints, end: Ints) -> NDArray[np.bool_]:
        """Whether each range overlaps the set."""
        return np.asarray(np.searchsorted(self.end, start, side="right") < np.searchsorted(self.start, end))


@dataclass(frozen=True)
class Pieces:
    """Rows split at each other's borders, so that each row covers a piece completely or not at all.

    ``border``: sorted addresses; piece k is [border[k], border[k + 1]). ``lower`` and ``upper`` are each row's pieces;
    ``first`` (N + 1,) is the index of each instruction's first row.
    """

    border: Ints
    lower: Ints
    upper: Ints
    first: Ints

    def of(self, instruction: int) -> slice | Ints | None:
        """The pieces that an instruction accesses, or None."""
        begin, end = int(self.first[instruction]), int(self.first[instruction + 1])
        if begin == end:
            return None
        if end - begin == 1:
            return slice(int(self.lower[begin]), int(self.upper[begin]))
        counts = self.upper[begin:end] - self.lower[begin:end]
        offsets = np.cumsum(counts) - counts
        return np.repeat(self.lower[begin:end] - offsets, counts) + np.arange(int(counts.sum()))


def pieces_of(rows: Rows, count: int, extra_borders: Ints) -> Pieces:
    """The pieces of the rows of a stream of ``count`` instructions, also split at the extra borders."""
    border = np.unique(np.concatenate((rows.start, rows.end, extra_borders)))
    return Pieces(
        border,
        np.searchsorted(border, rows.start),
        np.searchsorted(border, rows.end),
        np.searchsorted(rows.instruction, np.arange(count + 1)),
    )
