"""Memories with one write and one read port."""

from typing import cast

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory


class Ram(Elaboratable):
    """`depth` words of `width` bits; read data come in the next cycle.

    A read in the cycle of a write to the same word gives the new data with `forward`, otherwise the old. `parts`
    divides the word into equal parts with a write enable each.
    """

    def __init__(self, width: int, depth: int, *, parts: int = 1, forward: bool = False) -> None:
        assert width % parts == 0, f"{width} bits cannot be divided into {parts} equal parts"
        self.width, self.depth, self.parts, self.forward = width, depth, parts, forward
        # At least two words, since many tools do not support a memory without address bits.
        self.memory = Memory(shape=width, depth=max(2, depth), init=[])
        bits = max(1, (depth - 1).bit_length())
        self.w_en = Signal(parts)
        self.w_addr = Signal(bits)
        self.w_data = Signal(width)
        self.r_en = Signal(init=1)
        self.r_addr = Signal(bits)
        self.r_data = Signal(width)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        write = memory.write_port(granularity=self.width // self.parts if self.parts > 1 else None)
        read = memory.read_port(transparent_for=(write,) if self.forward else ())
        m.d.comb += [
            write.en.eq(self.w_en),
            write.addr.eq(self.w_addr),
            write.data.eq(self.w_data),
            read.en.eq(self.r_en),
            read.addr.eq(self.r_addr),
            self.r_data.eq(read.data),
        ]
        return m


def replicated(value: Value, times: int) -> Value:
    """`times` concatenated copies of a value."""
    return cast(Value, value.replicate(times))
