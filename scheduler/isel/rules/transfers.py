"""LOADs and STOREs of a copy over loops: two loops become the 2-D transfer of an instruction, the rest instructions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import Format
from lathe.configs.instructions.load import LOAD
from lathe.configs.instructions.store import STORE
from lathe.isa import Instruction, Load, MemoryType, Store
from lathe.scheduler.isel.rules.load_padding import ZEROS, Padding, padding_only

MOST_PADDING = LOAD.format.values("x_pad_0")[-1]


@dataclass(frozen=True)
class DmaLoop:
    """A loop of a copy of vectors, with its strides in the scratchpad and in DRAM."""

    extent: int
    sram: int
    dram: int
    mask_axis: int | None  # which axis of the padding mask this loop runs along


@dataclass(frozen=True)
class _Gap:
    """Padding that replaces loops with data in one iteration: vectors left and right of each row, rows above, below.

    ``dram``: the offset in DRAM of the iterations with data.
    """

    left: int = 0
    right: int = 0
    above: int = 0
    below: int = 0
    dram: int = 0


def load_rows(
    memory: MemoryType,
    loops: list[DmaLoop],
    sram: int,
    dram: int,
    mask: NDArray[np.bool_] | None,
    padding: Padding = ZEROS,
    beside: tuple[int, int] = (0, 0),
) -> Iterator[Instruction]:
    """LOADs for a copy into a scratchpad, with padding where the mask is False.

    ``beside``: how many vectors left and right of each row may be padded too, if that makes rows contiguous.
    """
    if mask is not None:
        loops, mask = _where_it_varies(loops, mask)
    loops, mask, gap = _with_gap(_merged(_moving(loops)), mask)
    if mask is None and (joined := _joining(loops, *beside)) is not None:
        gap, sram = joined, sram - joined.left
    if mask is not None and not gap.left + gap.right:
        loops, mask = _merged_under_padding(loops, mask)
    loops, rows, row = _blocks(loops, LOAD.format, gap)
    loops, mask, gap = _with_gap_of_rows(loops, mask, rows, row, gap)
    for point in product(*(range(loop.extent) for loop in loops)):
        at_sram, at_dram = _at(point, loops, sram, dram + gap.dram)
        window = _window(mask, loops, point, rows, row)
        for load in _load_window(memory, at_sram, at_dram, rows, row, window, gap):
            padded = load.y_pad_0 or load.y_pad_1 or load.x_pad_0 or load.x_pad_1
            if padded and padding is not ZEROS:
                yield replace(load, pad_value=padding.pad_value, pad_limit=padding.pad_limit)
            else:
                yield load


def _where_it_varies(loops: list[DmaLoop], mask: NDArray[np.bool_]) -> tuple[list[DmaLoop], NDArray[np.bool_]]:
    """The loops and the mask without the axes along which the mask is constant."""
    same = [axis for axis in range(mask.ndim) if (mask == mask.take([0], axis)).all()]
    varying = [axis for axis in range(mask.ndim) if axis not in same]
    position = {axis: varying.index(axis) if axis in varying else None for axis in range(mask.ndim)}
    moved = [replace(loop, mask_axis=None if loop.mask_axis is None else position[loop.mask_axis]) for loop in loops]
    return moved, mask[tuple(0 if axis in same else slice(None) for axis in range(mask.ndim))]


def _with_gap(
    loops: list[DmaLoop], mask: NDArray[np.bool_] | None
) -> tuple[list[DmaLoop], NDArray[np.bool_] | None, _Gap]:
    """Replace the loop around the rows by padding left and right of rows, if only one of its iterations has data."""
    row = loops[-1] if loops and loops[-1].sram == 1 and loops[-1].dram == 1 else None
    width = 1 if row is None else row.extent
    around = loops if row is None else loops[:-1]
    position = _iteration_with_data(around, mask, width)
    if mask is None or position is None or (row is not None and row.mask_axis is not None):
        return loops, mask, _Gap()
    left, right = position * width, (around[-1].extent - 1 - position) * width
    if max(left, right) > MOST_PADDING:
        return loops, mask, _Gap()
    replaced, dram = around[-1], position * around[-1].dram
    inside = [] if row is None else [row]
    return *_at_iteration([*around[:-1], *inside], mask, replaced, position), _Gap(left, right, dram=dram)


def _joining(loops: list[DmaLoop], left: int, right: int) -> _Gap | None:
    """Padding of exactly ``left`` and ``right`` that makes rows contiguous in the scratchpad, or None."""
    row = loops[-1].extent if loops and loops[-1].sram == 1 and loops[-1].dram == 1 else 1
    around = loops if row == 1 else loops[:-1]
    adjoin = bool(around) and around[-1].sram == left + row + right
    return _Gap(left, right) if adjoin and 0 < max(left, right) <= MOST_PADDING else None


def _with_gap_of_rows(
    loops: list[DmaLoop], mask: NDArray[np.bool_] | None, rows: DmaLoop, row: DmaLoop, gap: _Gap
) -> tuple[list[DmaLoop], NDArray[np.bool_] | None, _Gap]:
    """Replace the loop around an instruction by padding above and below, if only one of its iterations has data."""
    position = _iteration_with_data(loops, mask, rows.extent * (gap.left + row.extent + gap.right))
    if mask is None or position is None or rows.mask_axis is not None or row.mask_axis is not None:
        return loops, mask, gap
    above, below = position * rows.extent, (loops[-1].extent - 1 - position) * rows.extent
    if max(above, below) > MOST_PADDING:
        return loops, mask, gap
    dram = gap.dram + position * loops[-1].dram
    return *_at_iteration(loops[:-1], mask, loops[-1], position), replace(gap, above=above, below=below, dram=dram)


def _iteration_with_data(loops: list[DmaLoop], mask: NDArray[np.bool_] | None, inside: int) -> int | None:
    """The only iteration of the innermost loop, around ``inside`` contiguous vectors, that has data, or None."""
    if mask is None or not loops or loops[-1].mask_axis is None or loops[-1].sram != inside:
        return None
    others = tuple(axis for axis in range(mask.ndim) if axis != loops[-1].mask_axis)
    iterations = np.flatnonzero(mask.any(axis=others))
    return int(iterations[0]) if len(iterations) == 1 else None


def _at_iteration(
    loops: list[DmaLoop], mask: NDArray[np.bool_], fixed: DmaLoop, iteration: int
) -> tuple[list[DmaLoop], NDArray[np.bool_] | None]:
    """Loops and mask at one iteration of a loop, which is removed."""
    axis = fixed.mask_axis
    assert axis is not None, "a loop with gaps must have padding"
    moved = [
        replace(each, mask_axis=each.mask_axis - (each.mask_axis > axis)) if each.mask_axis is not None else each
        for each in loops
    ]
    slice_ = np.asarray(mask.take(iteration, axis))
    return moved, slice_ if slice_.ndim else None


def _moving(loops: list[DmaLoop]) -> list[DmaLoop]:
    """The loops of more than one iteration, in descending order of scratchpad stride."""
    return sorted((loop for loop in loops if loop.extent > 1), key=lambda loop: -abs(loop.sram))


def _blocks(loops: list[DmaLoop], fields: Format, gap: _Gap = _Gap()) -> tuple[list[DmaLoop], DmaLoop, DmaLoop]:
    """Split loops into those around instructions, and the rows and row of one instruction, as its fields allow."""
    loops = list(loops)
    row = DmaLoop(1, 1, 1, None)
    if loops and loops[-1].sram == 1 and loops[-1].dram == 1 and loops[-1].extent in fields.values("x_size"):
        row = loops.pop()
    width = gap.left + row.extent + gap.right
    rows = DmaLoop(1, width, row.extent, None)
    strides, extents = fields.values("x_stride"), fields.values("y_size")
    if loops and loops[-1].sram == width and loops[-1].dram in strides and loops[-1].extent in extents:
        rows = loops.pop()
    return loops, rows, row


def _at(point: tuple[int, ...], loops: list[DmaLoop], sram: int, dram: int) -> tuple[int, int]:
    """The scratchpad and DRAM addresses at one iteration of the loops."""
    at_sram = sram + sum(value * loop.sram for value, loop in zip(point, loops, strict=True))
    return at_sram, dram + sum(value * loop.dram for value, loop in zip(point, loops, strict=True))


def _window(
    mask: NDArray[np.bool_] | None, loops: list[DmaLoop], point: tuple[int, ...], rows: DmaLoop, row: DmaLoop
) -> NDArray[np.bool_] | None:
    """The mask over the rows and vectors of one instruction."""
    if mask is None:
        return None
    index: list[int | slice] = [slice(None)] * mask.ndim
    for value, loop in zip(point, loops, strict=True):
        if loop.mask_axis is not None:
            index[loop.mask_axis] = value
    remaining = [axis for axis, each in enumerate(index) if isinstance(each, slice)]
    part = mask[tuple(index)]
    order = [axis for axis in (rows.mask_axis, row.mask_axis) if axis is not None]
    part = part.transpose([remaining.index(axis) for axis in order])
    shape = [loop.extent if loop.mask_axis is not None else 1 for loop in (rows, row)]
    return np.broadcast_to(part.reshape(shape), (rows.extent, row.extent))


def _load_window(
    memory: MemoryType, sram: int, dram: int, rows: DmaLoop, row: DmaLoop, window: NDArray[np.bool_] | None, gap: _Gap
) -> Iterator[Load]:
    width = gap.left + row.extent + gap.right
    stride = rows.dram if rows.extent > 1 else row.extent
    if window is None or window.all():
        yield Load(memory, sram, dram, rows.extent, row.extent, stride, gap.above, gap.below, gap.left, gap.right)
        return
    if not window.any():
        yield from padding_only(memory, sram, (gap.above + rows.extent + gap.below) * width)
        return
    ys, xs = np.flatnonzero(window.any(axis=1)), np.flatnonzero(window.any(axis=0))
    y0, y1, x0, x1 = int(ys[0]), int(ys[-1]) + 1, int(xs[0]), int(xs[-1]) + 1
    left, right = gap.left + x0, gap.right + row.extent - x1
    if not window[y0:y1, x0:x1].all() or max(left, right) > MOST_PADDING:
        for y in range(rows.extent):
            yield from _load_runs(memory, sram + y * width, dram + y * rows.dram, window[y], gap)
        return
    top, bottom = min(y0, MOST_PADDING), min(rows.extent - y1, MOST_PADDING)
    yield from padding_only(memory, sram, (y0 - top) * width)
    yield Load(
        memory,
        sram + (y0 - top) * width,
        dram + y0 * rows.dram + x0,
        y1 - y0,
        x1 - x0,
        stride if y1 - y0 > 1 else x1 - x0,
        top,
        bottom,
        left,
        right,
    )
    end = y1 + bottom
    yield from padding_only(memory, sram + end * width, (rows.extent - end) * width)


def _load_runs(memory: MemoryType, sram: int, dram: int, valid: NDArray[np.bool_], gap: _Gap) -> Iterator[Load]:
    """Transfer one row as alternating runs of data and padding."""
    yield from padding_only(memory, sram, gap.left)
    sram += gap.left
    edges = [0, *(np.flatnonzero(np.diff(valid)) + 1).tolist(), len(valid)]
    for first, end in pairwise(edges):
        if valid[first]:
            yield Load(memory, sram + first, dram + first, 1, end - first, end - first)
        else:
            yield from padding_only(memory, sram + first, end - first)
    yield from padding_only(memory, sram + len(valid), gap.right)


def _merged(loops: list[DmaLoop]) -> list[DmaLoop]:
    """Merge neighbouring loops, outermost first, that are contiguous on both sides and that no padding depends on."""
    result: list[DmaLoop] = []
    for loop in loops:
        before = result[-1] if result else None
        if (
            before is not None
            and before.mask_axis is None
            and loop.mask_axis is None
            and before.sram == loop.sram * loop.extent
            and before.dram == loop.dram * loop.extent
        ):
            result[-1] = DmaLoop(before.extent * loop.extent, loop.sram, loop.dram, None)
        else:
            result.append(DmaLoop(loop.extent, loop.sram, loop.dram, loop.mask_axis))
    return result


def _merged_under_padding(loops: list[DmaLoop], mask: NDArray[np.bool_]) -> tuple[list[DmaLoop], NDArray[np.bool_]]:
    """Merge the row with the masked loop around it, if the padding left and right then fits the fields of a LOAD.

    For example pixels of two vectors each: padding left of a row of pixels is twice as many vectors of padding.
    """
    if len(loops) < 2 or loops[-1].mask_axis is not None or (axis := loops[-2].mask_axis) is None:
        return loops, mask
    around, row = loops[-2:]
    valid = np.flatnonzero(mask.any(axis=tuple(n for n in range(mask.ndim) if n != axis)))
    widest = max(valid[0], around.extent - 1 - valid[-1]) if len(valid) else 0
    if (
        (row.sram, row.dram) != (1, 1)
        or (around.sram, around.dram) != (row.extent, row.extent)
        or widest * row.extent > MOST_PADDING
        or around.extent * row.extent not in LOAD.format.values("x_size")
    ):
        return loops, mask
    joined = DmaLoop(around.extent * row.extent, 1, 1, axis)
    return [*loops[:-2], joined], mask.repeat(row.extent, axis)


def store_rows(loops: list[DmaLoop], sram: int, dram: int) -> Iterator[Instruction]:
    loops, rows, row = _blocks(_merged(_moving(loops)), STORE.format)
    for point in product(*(range(loop.extent) for loop in loops)):
        at_sram, at_dram = _at(point, loops, sram, dram)
        stride = rows.dram if rows.extent > 1 else row.extent
        yield Store(sram_base=at_sram, dram_base=at_dram, y_size=rows.extent, x_size=row.extent, x_stride=stride)
