"""DRAM traffic of an instruction stream: bytes and number of transfers by memory type."""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa import Instruction, Load, MemoryType, Store

OF_PROGRAM = ("instructions", MemoryType.UOP.name.lower())
"""Names of the traffic of the program itself, as opposed to data."""


def traffic_of(
    config: HardwareConfig, instructions: Sequence[Instruction]
) -> tuple[dict[str, int], dict[str, int], dict[str, int], dict[str, int]]:
    """Bytes loaded and stored, and numbers of loads and stores, by memory type; the stream itself is loaded, too."""
    sizes = {
        MemoryType.UOP: config.uop_element_bytes,
        MemoryType.WGT: config.wgt_element_bytes,
        MemoryType.INP: config.inp_element_bytes,
        MemoryType.ACC: config.acc_element_bytes,
        MemoryType.OUT: config.out_element_bytes,
        MemoryType.ACC8: config.acc8_element_bytes,
    }
    loads = {memory.name.lower(): 0 for memory in MemoryType if memory is not MemoryType.OUT}
    loaded = {"instructions": INSTRUCTION_BYTES * len(instructions), **loads}
    stored, stores = {"out": 0}, {"out": 0}
    for each in instructions:
        if isinstance(each, Load | Store):
            name = each.memory_type.name.lower()
            moved = each.y_size * each.x_size * sizes[each.memory_type]
            if not moved:
                continue  # a no-op, or padding only
            size, times = (loaded, loads) if isinstance(each, Load) else (stored, stores)
            size[name] += moved
            times[name] += 1
    return loaded, stored, loads, stores
