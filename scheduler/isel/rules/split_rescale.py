"""Halves of what is rescaled and stored: the first is stored while the second is rescaled.

Rescaling a tile ends the work on it, and nothing else hides its last store. A half more costs the steps that trail.
"""

from collections.abc import Sequence
from math import prod

FEWEST = 256
"""Elements from which halves are worth it: rescaling one takes longer than what trails an instruction."""


def in_halves(loops: Sequence[tuple[int, int]]) -> list[list[range]]:
    """The iterations of loops, (extent, stride) each, in two parts or one: cut where elements are furthest apart."""
    whole = [range(extent) for extent, _ in loops]
    moving = [n for n, (extent, stride) in enumerate(loops) if extent > 1 and stride]
    if not moving or prod(extent for extent, _ in loops) < FEWEST:
        return [whole]
    cut = max(moving, key=lambda n: loops[n][1])
    half = len(whole[cut]) // 2
    parts = (whole[cut][:half], whole[cut][half:])
    return [[part if n == cut else each for n, each in enumerate(whole)] for part in parts]
