"""Execution of LOAD and STORE on memories, one block at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Load, MemoryType, Store
from lathe.isa.table import MEMORIES
from lathe.sim.dram import Dram
from lathe.sim.micro_ops import Addresses
from lathe.sim.scratchpads import Memories

# The dtype in DRAM of each memory type.
_DTYPES: dict[MemoryType, np.dtype[Any]] = {
    MemoryType.UOP: np.dtype("<u4"),
    MemoryType.WGT: np.dtype("i1"),
    MemoryType.INP: np.dtype("i1"),
    MemoryType.ACC: np.dtype("<i4"),
    MemoryType.ACC8: np.dtype("i1"),
    MemoryType.PAR: np.dtype("<i4"),
    MemoryType.LUT: np.dtype("i1"),
}


class Dma:
    """Executor of transfers between DRAM and the scratchpads of one machine or of samples; ranges have been checked.

    For samples, rows of DRAM are (rows, samples, bytes).
    """

    def __init__(self, cfg: HardwareConfig, pads: Memories, dram: Dram) -> None:
        self.dram = dram
        self.out_bytes = cfg.out_element_bytes
        self.targets: dict[MemoryType, tuple[NDArray[Any], int, np.dtype[Any]]] = {
            row.type: (_vectors_first(getattr(pads, row.scratchpad)), row.element_bytes(cfg), dtype)
            for row, dtype in ((MEMORIES[memory], dtype) for memory, dtype in _DTYPES.items())
        }
        self.acc, _, _ = self.targets[MemoryType.ACC]

    def load(self, load: Load, _where: Callable[[], str]) -> Sequence[Addresses]:
        """Write the block of a LOAD; returns the scratchpad vectors of the block."""
        y, x, top, left = load.y_size, load.x_size, load.y_pad_0, load.x_pad_0
        if not x:
            return ()
        scratchpad, element_bytes, dtype = self.targets[load.memory_type]
        width, height = left + x + load.x_pad_1, top + y + load.y_pad_1
        vectors = slice(load.sram_base, load.sram_base + width * height)
        block = scratchpad[vectors].reshape(height, width, *scratchpad.shape[1:])
        padding = load.padding
        if top:
            block[:top] = padding
        if load.y_pad_1:
            block[top + y :] = padding
        if not y:
            return (vectors,)
        if left:
            block[top : top + y, :left] = padding
        if load.x_pad_1:
            block[top : top + y, left + x :] = padding
        rows = self.dram.read_rows(load.dram_base * element_bytes, y, x * element_bytes, load.x_stride * element_bytes)
        values: NDArray[Any]
        if rows.ndim == 2:
            values = rows.view(dtype).reshape(y, x, -1)
        elif block.ndim == 3:  # micro-ops are the same in all samples
            values = rows[:, 0].view(dtype).reshape(y, x, -1)
        else:
            values = rows.view(dtype).reshape(y, rows.shape[1], x, -1).swapaxes(1, 2)
        block[top : top + y, left : left + x] = values
        return (vectors,)

    def store(self, store: Store, _where: Callable[[], str]) -> Sequence[Addresses]:
        """Write the block of a STORE, the accumulators' low bytes, to DRAM; writes no scratchpad."""
        y, x = store.y_size, store.x_size
        if not y or not x:
            return ()
        content = self.acc[store.sram_base : store.sram_base + y * x].astype(np.int8).view(np.uint8)
        rows: NDArray[np.uint8]
        if content.ndim == 2:
            rows = content.reshape(y, x * self.out_bytes)
        else:
            samples = content.shape[1]
            rows = content.reshape(y, x, samples, -1).swapaxes(1, 2).reshape(y, samples, x * self.out_bytes)
        self.dram.write_rows(store.dram_base * self.out_bytes, store.x_stride * self.out_bytes, rows)
        return ()


def _vectors_first(cells: NDArray[Any]) -> NDArray[Any]:
    """A view of the scratchpad with its vectors in the first dimension."""
    return cells if cells.ndim == 2 else cells.swapaxes(0, 1)
