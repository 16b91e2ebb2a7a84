"""Sets of scratchpad cells that instructions access, cheap to compute and to compare. A cell is one address.

A GEMM or ALU instruction may run millions of iterations, but accesses at most as many cells as the scratchpad's depth.
Sets are computed as bit masks in Python integers, where repeating a set n times at a stride takes log2(n) shifts, and
are converted to index arrays or slices for work on arrays.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Cells = slice | NDArray[np.int64]

NO_CELLS = slice(0, 0)


@dataclass(frozen=True, slots=True)
class Reach:
    """The cells that an operand accesses, up to the depth, and the highest of all its indices."""

    cells: Cells
    highest: int


class ReachTable:
    """Cache of reaches: programs repeat a few patterns of loops and micro-ops many times."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int, int, int, int, int], Reach] = {}

    def of(
        self, starts: NDArray[np.int64], iter_out: int, factor_out: int, iter_in: int, factor_in: int, depth: int
    ) -> Reach:
        """The cells start + o·factor_out + i·factor_in for every start, o and i; there is at least one of each."""
        key = (starts.tobytes(), iter_out, factor_out, iter_in, factor_in, depth)
        reach = self._known.get(key)
        if reach is None:
            highest = int(starts.max()) + (iter_out - 1) * factor_out + (iter_in - 1) * factor_in
            full = (1 << depth) - 1
            mask = 0
            for start in np.unique(starts).tolist():
                mask |= 1 << start
            mask = _repeated(mask & full, iter_in, factor_in, depth)
            mask = _repeated(mask, iter_out, factor_out, depth)
            reach = self._known[key] = Reach(_cells(mask, depth), highest)
        return reach


def _repeated(mask: int, count: int, distance: int, depth: int) -> int:
    """The union of ``mask`` shifted by 0, 1, … count − 1 times the distance, truncated at the depth."""
    if distance == 0:
        return mask
    full = (1 << depth) - 1
    count = min(count, (depth - 1) // distance + 1)  # Further repetitions are entirely beyond the depth.
    covered = 1
    while covered < count:
        more = min(covered, count - covered)
        mask |= mask << (more * distance) & full
        covered += more
    return mask


def _cells(mask: int, depth: int) -> Cells:
    """The set bits of a mask as a slice if they are contiguous, else as indices."""
    if mask == 0:
        return NO_CELLS
    first = (mask & -mask).bit_length() - 1
    end = mask.bit_length()
    if mask >> first == (1 << (end - first)) - 1:
        return slice(first, end)
    content = np.frombuffer(mask.to_bytes((depth + 7) // 8, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(content, bitorder="little"))


def cell_numbers(cells: Cells) -> NDArray[np.int64]:
    """The cells as an index array."""
    return np.arange(cells.start, cells.stop) if isinstance(cells, slice) else cells
