"""LOADs and STOREs for a copy over loops: two of them become rows and rows of rows, the others instructions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import Format
from lathe.configs.instructions.load import LOAD
from lathe.configs.instructions.store import STORE
from lathe.isa import Instruction, Load, MemoryType, Store
from lathe.scheduler.target.rules.padding import ZEROS, Padding, padding_only

MOST_PADDING = LOAD.format.values("x_pad_0")[-1]


@dataclass
class DmaLoop:
    """A loop of a copy over elements, with its step on both sides."""

    extent: int
    sram: int
    dram: int
    mask_axis: int | None  # which axis of the padding mask this loop runs along


def load_rows(
    memory: MemoryType,
    loops: list[DmaLoop],
    sram: int,
    dram: int,
    mask: NDArray[np.bool_] | None,
    padding: Padding = ZEROS,
) -> Iterator[Instruction]:
    """LOADs for a copy into a scratchpad over element loops, padding where the mask is False."""
    loops, rows, row = _blocks(loops, LOAD.format)
    for point in product(*(range(loop.extent) for loop in loops)):
        at_sram, at_dram = _at(point, loops, sram, dram)
        window = _window(mask, loops, point, rows, row)
        for load in _load_window(memory, at_sram, at_dram, rows, row, window):
            padded = load.y_pad_0 or load.y_pad_1 or load.x_pad_0 or load.x_pad_1
            if padded and padding is not ZEROS:
                yield replace(load, pad_value=padding.pad_value, pad_limit=padding.pad_limit)
            else:
                yield load


def _blocks(loops: list[DmaLoop], fields: Format) -> tuple[list[DmaLoop], DmaLoop, DmaLoop]:
    """Loops around the instructions, then the rows of one instruction, as its fields hold them, then their elements."""
    loops = _merged(sorted((loop for loop in loops if loop.extent > 1), key=lambda loop: -abs(loop.sram)))
    row = DmaLoop(1, 1, 1, None)
    if loops and loops[-1].sram == 1 and loops[-1].dram == 1 and loops[-1].extent in fields.values("x_size"):
        row = loops.pop()
    rows = DmaLoop(1, row.extent, row.extent, None)
    strides, extents = fields.values("x_stride"), fields.values("y_size")
    if loops and loops[-1].sram == row.extent and loops[-1].dram in strides and loops[-1].extent in extents:
        rows = loops.pop()
    return loops, rows, row


def _at(point: tuple[int, ...], loops: list[DmaLoop], sram: int, dram: int) -> tuple[int, int]:
    """Where the block of one iteration of the loops begins, in the scratchpad and in DRAM."""
    at_sram = sram + sum(value * loop.sram for value, loop in zip(point, loops, strict=True))
    return at_sram, dram + sum(value * loop.dram for value, loop in zip(point, loops, strict=True))


def _window(
    mask: NDArray[np.bool_] | None, loops: list[DmaLoop], point: tuple[int, ...], rows: DmaLoop, row: DmaLoop
) -> NDArray[np.bool_] | None:
    """The mask over the rows and elements of one instruction."""
    if mask is None:
        return None
    index: list[int | slice] = [slice(None)] * mask.ndim
    for value, loop in zip(point, loops, strict=True):
        if loop.mask_axis is not None:
            index[loop.mask_axis] = value
    kept = [axis for axis, each in enumerate(index) if isinstance(each, slice)]
    part = mask[tuple(index)]
    order = [axis for axis in (rows.mask_axis, row.mask_axis) if axis is not None]
    part = part.transpose([kept.index(axis) for axis in order])
    shape = [loop.extent if loop.mask_axis is not None else 1 for loop in (rows, row)]
    return np.broadcast_to(part.reshape(shape), (rows.extent, row.extent))


def _load_window(
    memory: MemoryType, sram: int, dram: int, rows: DmaLoop, row: DmaLoop, window: NDArray[np.bool_] | None
) -> Iterator[Load]:
    stride = rows.dram if rows.extent > 1 else row.extent
    if window is None or window.all():
        yield Load(memory, sram, dram, rows.extent, row.extent, stride)
        return
    if not window.any():
        yield from padding_only(memory, sram, rows.extent * row.extent)
        return
    ys, xs = np.flatnonzero(window.any(axis=1)), np.flatnonzero(window.any(axis=0))
    y0, y1, x0, x1 = int(ys[0]), int(ys[-1]) + 1, int(xs[0]), int(xs[-1]) + 1
    left, right = x0, row.extent - x1
    if not window[y0:y1, x0:x1].all() or max(left, right) > MOST_PADDING:
        for y in range(rows.extent):
            yield from _load_runs(memory, sram + y * row.extent, dram + y * rows.dram, window[y])
        return
    top, bottom = min(y0, MOST_PADDING), min(rows.extent - y1, MOST_PADDING)
    yield from padding_only(memory, sram, (y0 - top) * row.extent)
    yield Load(
        memory,
        sram + (y0 - top) * row.extent,
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
    yield from padding_only(memory, sram + end * row.extent, (rows.extent - end) * row.extent)


def _load_runs(memory: MemoryType, sram: int, dram: int, valid: NDArray[np.bool_]) -> Iterator[Load]:
    """One row piece by piece: runs of data and runs of padding."""
    edges = [0, *(np.flatnonzero(np.diff(valid)) + 1).tolist(), len(valid)]
    for first, end in pairwise(edges):
        if valid[first]:
            yield Load(memory, sram + first, dram + first, 1, end - first, end - first)
        else:
            yield from padding_only(memory, sram + first, end - first)


def _merged(loops: list[DmaLoop]) -> list[DmaLoop]:
    """Loops, outermost first, with neighbours joined where one continues the other and no padding depends on it."""
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


def store_rows(loops: list[DmaLoop], sram: int, dram: int) -> Iterator[Instruction]:
    loops, rows, row = _blocks(loops, STORE.format)
    for point in product(*(range(loop.extent) for loop in loops)):
        at_sram, at_dram = _at(point, loops, sram, dram)
        stride = rows.dram if rows.extent > 1 else row.extent
        yield Store(sram_base=at_sram, dram_base=at_dram, y_size=rows.extent, x_size=row.extent, x_stride=stride)
