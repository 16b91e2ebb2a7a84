"""Queues: what is written in cycle t is at the head, or behind it, from cycle t + 1 on."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.rtl.ram import Ram


class Fifo(Elaboratable):
    """A queue of `depth` words of `width` bits, any depth.

    The head is on `r_data` while `r_valid`; `r_en` takes it. `w_en` writes; the writer sees to it that there is room:
    `full` tells of the cycle's beginning. A place that is freed in cycle t can be used from t + 1 on.
    """

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        self.w_en = Signal()
        self.w_data = Signal(width)
        self.r_en = Signal()
        self.r_data = Signal(width)
        self.r_valid = Signal()
        self.full = Signal()
        self.level = Signal(range(depth + 1))
        if depth > 1:
            self.ram = Ram(width, depth, forward=True)
            self.head = Signal(range(depth))
            self.tail = Signal(range(depth))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.d.comb += [self.r_valid.eq(self.level != 0), self.full.eq(self.level == self.depth)]
        m.d.sync += self.level.eq(self.level + self.w_en - self.r_en)
        if self.depth == 1:
            with m.If(self.w_en):
                m.d.sync += self.r_data.eq(self.w_data)
            return m
        m.submodules.ram = ram = self.ram
        head, tail = self.head, self.tail
        following = Signal(range(self.depth))
        m.d.comb += [
            following.eq(Mux(self.r_en, self._next(head), head)),
            ram.r_addr.eq(following),
            ram.w_en.eq(self.w_en),
            ram.w_addr.eq(tail),
            ram.w_data.eq(self.w_data),
            self.r_data.eq(ram.r_data),
        ]
        m.d.sync += head.eq(following)
        with m.If(self.w_en):
            m.d.sync += tail.eq(self._next(tail))
        return m

    def _next(self, pointer: Signal) -> Value:
        if self.depth & (self.depth - 1) == 0:
            return (pointer + 1)[: len(pointer)]
        return Mux(pointer == self.depth - 1, 0, pointer + 1)
