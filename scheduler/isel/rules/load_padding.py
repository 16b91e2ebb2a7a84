"""Padding of LOADs: the fields that encode its value, and LOADs that write padding only."""

from collections.abc import Iterator
from dataclasses import dataclass

from lathe.configs import HardwareConfig
from lathe.configs.encoding import PAD_VALUE
from lathe.configs.instructions.load import LOAD
from lathe.isa import Load, MemoryType
from lathe.isa.table import Opcode, placements

MOST = LOAD.format.values("x_size")[-1]
"""The most vectors of a row, and the most rows, of one instruction."""


@dataclass(frozen=True)
class Padding:
    """The fields of a LOAD that encode the value of its padding."""

    pad_value: int = 0
    pad_limit: bool = False


ZEROS = Padding()


def padding_of(config: HardwareConfig, memory: MemoryType, value: int) -> Padding | None:
    """The fields with which a LOAD pads with a value, or None if the machine cannot."""
    if value == 0:
        return ZEROS
    if PAD_VALUE not in config.extensions or memory == MemoryType.UOP:
        return None
    field = placements(config, Opcode.LOAD)["pad_value"]
    candidates = [Padding(-1, pad_limit=True), Padding(0, pad_limit=True)]
    if field.lowest <= value <= field.highest:
        candidates.insert(0, Padding(value))
    for each in candidates:
        if Load(memory, 0, 0, 0, 1, 1, 1, pad_value=each.pad_value, pad_limit=each.pad_limit).padding == value:
            return each
    return None


def padding_only(memory: MemoryType, sram: int, count: int, padding: Padding = ZEROS) -> Iterator[Load]:
    """LOADs that write ``count`` vectors of padding and read nothing: padding rows above zero rows of data."""
    while count > 0:
        size = min(count, MOST)
        value, limit = padding.pad_value, padding.pad_limit
        yield Load(memory, sram, 0, 0, size, size, 1, pad_value=value, pad_limit=limit)
        sram, count = sram + size, count - size
