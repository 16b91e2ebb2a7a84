"""Splitting of a RESCALE and its STORE in halves, so that the first is stored while the second is rescaled.

Rescaling is the last computation on a tile, so that nothing else hides its store. The split costs one pipeline drain.
"""

from collections.abc import Sequence
from math import prod

FEWEST = 256
"""Vectors from which a split is worthwhile: rescaling a half takes longer than the pipeline drain of an instruction."""


def in_halves(loops: Sequence[tuple[int, int]]) -> list[list[range]]:
    """Split loops (extent, stride) in two halves of the loop with the largest stride; one part if they are short."""
    whole = [range(extent) for extent, _ in loops]
    moving = [n for n, (extent, stride) in enumerate(loops) if extent > 1 and stride]
    if not moving or prod(extent for extent, _ in loops) < FEWEST:
        return [whole]
    cut = max(moving, key=lambda n: loops[n][1])
    half = len(whole[cut]) // 2
    parts = (whole[cut][:half], whole[cut][half:])
    return [[part if n == cut else each for n, each in enumerate(whole)] for part in parts]
