"""LOADs of a copy over loops: they transfer what the loops describe, and are few."""

from random import Random

import numpy as np
import pytest

from lathe.isa import Instruction, Load, MemoryType
from lathe.scheduler.isel.rules.transfers import DmaLoop, load_rows

PADDING = -1


def loaded(loads: list[Instruction], size: int) -> np.ndarray:
    """The DRAM address that each vector of a scratchpad is loaded from; PADDING for zeros, -2 if not written."""
    cells = np.full(size, -2, np.int64)
    for load in loads:
        assert isinstance(load, Load)
        width = load.x_pad_0 + load.x_size + load.x_pad_1
        height = load.y_pad_0 + load.y_size + load.y_pad_1
        box = np.full((height, width), PADDING, np.int64)
        rows = load.dram_base + np.arange(load.y_size)[:, None] * load.x_stride + np.arange(load.x_size)
        box[load.y_pad_0 : load.y_pad_0 + load.y_size, load.x_pad_0 : load.x_pad_0 + load.x_size] = rows
        cells[load.sram_base : load.sram_base + box.size] = box.ravel()
    return cells


def expected(loops: list[DmaLoop], mask: np.ndarray, size: int, dram: int) -> np.ndarray:
    cells = np.full(size, -2, np.int64)
    for point in np.ndindex(*(loop.extent for loop in loops)):
        index: list[int] = [0] * mask.ndim
        for value, loop in zip(point, loops, strict=True):
            if loop.mask_axis is not None:
                index[loop.mask_axis] = value
        at = sum(value * loop.sram for value, loop in zip(point, loops, strict=True))
        source = dram + sum(value * loop.dram for value, loop in zip(point, loops, strict=True))
        cells[at] = source if mask[tuple(index)] else PADDING
    return cells


@pytest.mark.parametrize(
    ("elements", "left", "fields"),
    [
        (1, 2, (2, 0, 2, 0)),
        (2, 2, (2, 0, 4, 0)),
        (3, 4, (2, 0, 12, 0)),
    ],
)
def test_a_window_over_a_border_is_one_load(elements: int, left: int, fields: tuple[int, ...]) -> None:
    """Rows of pixels of several vectors, contiguous on both sides, with a border above and left of them."""
    loops = [
        DmaLoop(9, 7 * elements, 20 * elements, 0),
        DmaLoop(7, elements, elements, 1),
        DmaLoop(elements, 1, 1, None),
    ]
    mask = np.add.outer(np.where(np.arange(9) < 2, -9, 0), np.where(np.arange(7) < left, -9, 0)) == 0
    (load,) = load_rows(MemoryType.INP, loops, 0, 0, mask)
    assert isinstance(load, Load)
    assert (load.y_size, load.x_size) == (7, (7 - left) * elements)
    assert (load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1) == fields


def test_a_border_of_more_elements_than_a_load_pads_is_written_line_by_line() -> None:
    """Six pixels of three vectors are more than 15: each row of pixels is a LOAD, with the border as rows above."""
    loops = [DmaLoop(9, 21, 60, None), DmaLoop(7, 3, 3, 0), DmaLoop(3, 1, 1, None)]
    mask = np.arange(7) >= 6
    loads = list(load_rows(MemoryType.INP, loops, 0, 0, mask))
    assert [(each.x_size, each.y_pad_0) for each in loads if isinstance(each, Load)] == [(3, 6)] * 9


@pytest.mark.parametrize("seed", range(60))
def test_loads_transfer_what_the_loops_describe(seed: int) -> None:
    """Rows of pixels of several vectors, with borders of all widths, and contiguous or strided rows."""
    random = Random(seed)
    extents = [random.randint(1, 4) for _ in range(random.randint(1, 4))]
    sram = dram = 1
    loops: list[DmaLoop] = []
    axes = 0
    for extent in reversed(extents):
        masked = random.random() < 0.6
        loops.insert(0, DmaLoop(extent, sram, dram, axes if masked else None))
        axes += masked
        sram *= extent
        dram *= extent
        dram += random.choice([0, 0, 3])
    mask = np.ones([next(loop.extent for loop in loops if loop.mask_axis == axis) for axis in range(axes)], np.bool_)
    for axis in range(axes):
        first = random.randint(0, mask.shape[axis])
        inside = np.arange(mask.shape[axis])
        there = (inside >= first) & (inside < random.randint(first, mask.shape[axis]))
        mask &= there.reshape([-1 if n == axis else 1 for n in range(axes)])
    loads = list(load_rows(MemoryType.INP, loops, 0, 100, mask if axes else None))
    assert loaded(loads, sram).tolist() == expected(loops, mask, sram, 100).tolist(), f"seed {seed}: {loops} {mask}"
