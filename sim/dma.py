"""What LOAD and STORE do to memories, a block at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Load, MemoryType, Store
from lathe.isa.table import MEMORIES
from lathe.sim.dram import Dram
from lathe.sim.scratchpads import Scratchpads

# How DRAM holds the values of each memory type.
_DTYPES: dict[MemoryType, np.dtype[Any]] = {
    MemoryType.UOP: np.dtype("<u4"),
    MemoryType.WGT: np.dtype("i1"),
    MemoryType.INP: np.dtype("i1"),
    MemoryType.ACC: np.dtype("<i4"),
    MemoryType.ACC8: np.dtype("i1"),
}


class Dma:
    """Carries out transfers between one DRAM and one set of scratchpads; ranges are checked beforehand."""

    def __init__(self, cfg: HardwareConfig, pads: Scratchpads, dram: Dram) -> None:
        self.dram = dram
        self.acc = pads.acc
        self.out_bytes = cfg.out_element_bytes
        self.targets: dict[MemoryType, tuple[NDArray[Any], int, np.dtype[Any]]] = {
            memory: (getattr(pads, MEMORIES[memory].scratchpad), MEMORIES[memory].element_bytes(cfg), dtype)
            for memory, dtype in _DTYPES.items()
        }

    def load(self, load: Load) -> None:
        """Write the block of a LOAD."""
        y, x, top, left = load.y_size, load.x_size, load.y_pad_0, load.x_pad_0
        if not x:
            return
        scratchpad, element_bytes, dtype = self.targets[load.memory_type]
        width, height = left + x + load.x_pad_1, top + y + load.y_pad_1
        values = scratchpad.shape[1]
        block = scratchpad[load.sram_base : load.sram_base + width * height].reshape(height, width, values)
        padding = load.padding
        if top:
            block[:top] = padding
        if load.y_pad_1:
            block[top + y :] = padding
        if not y:
            return
        if left:
            block[top : top + y, :left] = padding
        if load.x_pad_1:
            block[top : top + y, left + x :] = padding
        rows = self.dram.read_rows(load.dram_base * element_bytes, y, x * element_bytes, load.x_stride * element_bytes)
        block[top : top + y, left : left + x] = rows.view(dtype).reshape(y, x, values)

    def store(self, store: Store) -> None:
        """Write the block of a STORE: the accumulators' low bytes."""
        y, x = store.y_size, store.x_size
        if not y or not x:
            return
        content = self.acc[store.sram_base : store.sram_base + y * x].astype(np.int8).view(np.uint8)
        self.dram.write_rows(
            store.dram_base * self.out_bytes, store.x_stride * self.out_bytes, content.reshape(y, x * self.out_bytes)
        )
