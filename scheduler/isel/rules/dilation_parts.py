"""Splitting of chunks over compacted buffers (``dilation_compaction.py``) so that they access stored indices only."""

from collections.abc import Iterator, Mapping
from itertools import product

from lathe.scheduler.isel.chunk import Chunk, Index, Operand
from lathe.scheduler.isel.chunk_slicing import with_extents
from lathe.scheduler.isel.rules.skip_padding_taps import Steps, boxes_of_points, progression
from lathe.scheduler.layout.dilation_compaction import Gap


def parts_without_gaps(chunk: Chunk, operand: Operand) -> Iterator[Chunk]:
    """Split a chunk so that it only accesses indices of an operand that its compacted buffer stores.

    The iterations left out read zeros for a GEMM, or write zeros.
    """
    gaps = operand.place.physical.gaps if operand.place is not None else ()
    if not any(gaps):
        yield chunk
        return
    groups: list[tuple[set[int], list[tuple[Gap, Index]]]] = []  # loops, and the dimensions that only they move
    for gap, index in zip(gaps, operand.index, strict=True):
        if gap is None:
            continue
        loops = {n for n, c in enumerate(index.coefficients) if c and chunk.loops[n].extent > 1}
        along = [(gap, index)]
        for group in [each for each in groups if each[0] & loops]:
            groups.remove(group)
            loops |= group[0]
            along = [*group[1], *along]
        groups.append((loops, along))
    for parts in product(*(list(_parts(chunk, sorted(loops), along)) for loops, along in groups)):
        yield stepped(chunk, {n: steps for part in parts for n, steps in part.items()})


def _parts(chunk: Chunk, loops: list[int], along: list[tuple[Gap, Index]]) -> Iterator[Mapping[int, Steps]]:
    """Strided boxes of some loops that contain exactly the iterations at which all indices are stored."""

    def has_cells(point: Mapping[int, int]) -> bool:
        return all(
            (index.constant + sum(index.coefficients[n] * value for n, value in point.items())) % gap.step == gap.at
            for gap, index in along
        )

    results = [n for n in loops if chunk.loops[n].kind == "data"]
    longest = max(results or loops, key=lambda n: chunk.loops[n].extent, default=None)
    if longest is None:
        if has_cells({}):
            yield {}
        return
    others = [n for n in loops if n != longest]
    met: dict[Steps, list[tuple[int, ...]]] = {}
    for values in product(*(range(chunk.loops[n].extent) for n in others)):
        point = dict(zip(others, values, strict=True))
        stored = [value for value in range(chunk.loops[longest].extent) if has_cells({**point, longest: value})]
        if stored:  # evenly spaced, since indices are linear
            met.setdefault(progression(stored), []).append(values)
    for steps, points in met.items():
        for box in boxes_of_points(points):
            yield {longest: steps, **dict(zip(others, box, strict=True))}


def free_cells_beside(chunk: Chunk) -> tuple[int, int]:
    """How many vectors left and right of each row that a chunk writes in a compacted buffer may be padded with zeros.

    The window of a tile may have room for one more column of data than it meets, so that the rows written are shorter
    than the buffer's. (0, 0) unless the chunk writes all of the data in a row.
    """
    place = chunk.write.place
    if place is None or not any(place.physical.gaps) or place.physical.group > 1 or place.data is None:
        return 0, 0
    form = place.physical
    dim = form.order[-1]
    gap, held, low = form.gaps[dim], place.data[dim], place.low[dim]
    if gap is None or held is None:
        return 0, 0
    first, last = chunk.write.index[dim].first(chunk.extents), chunk.write.index[dim].last(chunk.extents)
    if any(there and not first <= low + n <= last for n, there in enumerate(held)):
        return 0, 0
    cells = form.blocks(dim, low, place.extent[dim])
    return first // gap.step - low // gap.step, low // gap.step + cells - 1 - last // gap.step


def stepped(chunk: Chunk, part: Mapping[int, Steps]) -> Chunk:
    """The chunk with some loops restricted to a strided range of iterations."""

    def moved(index: Index) -> Index:
        first = index.constant + sum(index.coefficients[n] * steps.first for n, steps in part.items())
        return Index(first, tuple(c * part[n].step if n in part else c for n, c in enumerate(index.coefficients)))

    extents = (part[n].count if n in part else loop.extent for n, loop in enumerate(chunk.loops))
    return with_extents(chunk, extents, moved)
