"""Slicing of chunks: to a box of iterations, to single points of some loops, in two halves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from lathe.scheduler.isel.chunk import Chunk, Index, Operand


def restricted(chunk: Chunk, box: Sequence[tuple[int, int]]) -> Chunk:
    """The chunk with each loop restricted to a range (first, last) of iterations."""

    def moved(index: Index) -> Index:
        shift = sum(c * first for c, (first, _) in zip(index.coefficients, box, strict=True))
        return Index(index.constant + shift, index.coefficients)

    return with_extents(chunk, [last - first + 1 for first, last in box], moved)


def with_extents(chunk: Chunk, extents: Iterable[int], moved: Callable[[Index], Index]) -> Chunk:
    """The chunk with other loop extents, and each of its indices mapped by ``moved``."""

    def operand(each: Operand) -> Operand:
        return replace(each, index=tuple(moved(index) for index in each.index))

    return replace(
        chunk,
        loops=tuple(replace(loop, extent=extent) for loop, extent in zip(chunk.loops, extents, strict=True)),
        axes={axis: moved(index) for axis, index in chunk.axes.items()},
        write=operand(chunk.write),
        reads=tuple(operand(each) for each in chunk.reads),
    )


def points(chunk: Chunk, kind: str) -> Iterator[Chunk]:
    """The chunk at each point of its loops of a kind ("data" or "reduce"), in order."""
    for point in product(*(range(loop.extent if loop.kind == kind else 1) for loop in chunk.loops)):
        yield restricted(
            chunk,
            [
                (value, value) if loop.kind == kind else (0, loop.extent - 1)
                for value, loop in zip(point, chunk.loops, strict=True)
            ],
        )


def halves(chunk: Chunk) -> tuple[Chunk, Chunk] | None:
    """The chunk in two halves of its longest data loop; None if no data loop runs over more than one vector.

    A loop along lanes is split at a multiple of the blocks of all memories.
    """
    units = [1] * len(chunk.loops)
    for each in (chunk.write, *chunk.reads):
        for dim, index in enumerate(each.index if each.place is not None else ()):
            assert each.place is not None
            step = each.place.physical.step(dim)
            units = [max(unit, step) if c % step else unit for unit, c in zip(units, index.coefficients, strict=True)]
    best: tuple[int, int] | None = None
    for n, loop in enumerate(chunk.loops):
        unit = units[n]
        if loop.kind == "data" and loop.extent > unit and (best is None or loop.extent // unit > best[0]):
            best = loop.extent // unit, n
    if best is None:
        return None
    chosen, unit = best[1], units[best[1]]
    return parted(chunk, chosen, max(chunk.loops[chosen].extent // unit // 2, 1) * unit)


def parted(chunk: Chunk, loop: int, count: int) -> tuple[Chunk, Chunk]:
    """The chunk split in two: the first ``count`` iterations of a loop, and the others."""
    first = [(0, each.extent - 1) for each in chunk.loops]
    second = list(first)
    first[loop], second[loop] = (0, count - 1), (count, chunk.loops[loop].extent - 1)
    return restricted(chunk, first), restricted(chunk, second)
