"""Contents of padding: the values of a padding vector from the fields of a LOAD."""

from typing import Any

from amaranth import Cat, Const, Mux, Signal
from amaranth.hdl import Value

from lathe.configs.encoding import PAD_VALUE
from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.ram import replicated

BITS = 9  # pad_value, and pad_limit above it


def has_padding(geometry: Geometry) -> bool:
    """Whether padding may hold something other than zeros on this machine."""
    return PAD_VALUE in geometry.config.extensions


def padding_signal(geometry: Geometry) -> Signal | None:
    """A signal for the padding fields of a LOAD; None on machines without them."""
    return Signal(BITS, name="padding") if has_padding(geometry) else None


def padding_of(load: Any) -> Value:
    """The padding fields of a LOAD, concatenated."""
    return Cat(load.pad_value, load.pad_limit)


def scratchpad_padding(padding: Signal | None, memory: MemoryType, size: int) -> Value:
    """A padding vector of ``size`` bytes in a scratchpad that only loads write."""
    if padding is None or memory in (MemoryType.UOP, MemoryType.PAR):
        return Const(0, size * 8)
    return replicated(padding[:8], size)


def accumulator_padding(padding: Signal | None, values: int) -> Value:
    """A padding vector in acc: with pad_limit the least or greatest int32, by the sign of pad_value, else pad_value."""
    if padding is None:
        return Const(0, values * 32)
    sign, limit = padding[7], padding[8]
    extended = Cat(padding[:8], replicated(sign, 24))
    ends = Cat(replicated(~sign, 31), sign)
    return replicated(Mux(limit, ends, extended), values)
