"""FIFOs with a registered head: what is written in cycle t can be read from cycle t + 1 on."""

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.rtl.ram import Ram


class Fifo(Elaboratable):
    """A FIFO of `depth` words of `width` bits, any depth.

    `r_data` is the head while `r_valid`; `r_en` removes it, if there is one. `w_en` writes; the writer must not write
    while `full`, which is the state at the start of the cycle. An entry freed in cycle t can be used from t + 1 on.

    The head is a register, since a memory's output arrives late in its cycle: a word that is written to an empty FIFO
    goes straight to the register, all others go through the memory. With `detour`, all words go through the memory, so
    that writing does not depend on whether the head is read: what is written in t is at the head from t + 2 on.
    """

    def __init__(self, width: int, depth: int, *, detour: bool = False) -> None:
        self.width, self.depth, self.detour = width, depth, detour
        self.w_en = Signal()
        self.w_data = Signal(width)
        self.r_en = Signal()
        self.r_data = Signal(width, reset_less=True)
        self.r_valid = Signal()
        self.full = Signal()
        self.level = Signal(range(depth + 1))
        if depth > 1 or detour:
            self.ram = Ram(width, depth, forward=True)
            self.head = Signal(range(depth))  # of the memory: where it is read, and written
            self.tail = Signal(range(depth))
            self.behind = Signal()  # the memory holds words

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.d.comb += self.full.eq(self.level == self.depth)
        m.d.sync += self.level.eq(self.level + self.w_en - (self.r_en & self.r_valid))
        free = Signal()  # the head register takes the next word
        m.d.comb += free.eq(~self.r_valid | self.r_en)
        if self.depth == 1 and not self.detour:
            with m.If(free):
                m.d.sync += [self.r_valid.eq(self.w_en), self.r_data.eq(self.w_data)]
            return m
        m.submodules.ram = ram = self.ram
        head, tail, behind = self.head, self.tail, self.behind
        following = Signal(range(self.depth))
        leaves, enters = Signal(), Signal()
        m.d.comb += [
            leaves.eq(free & behind),
            enters.eq(self.w_en if self.detour else self.w_en & (behind | ~free)),
            following.eq(Mux(leaves, self._next(head), head)),
            ram.r_addr.eq(following),
            ram.w_en.eq(enters),
            ram.w_addr.eq(tail),
            ram.w_data.eq(self.w_data),
        ]
        # The memory is never full, since one word is in the head register: pointers that differ by one mean one word.
        m.d.sync += [head.eq(following), behind.eq(enters | (behind & ~(leaves & (self._next(head) == tail))))]
        with m.If(enters):
            m.d.sync += tail.eq(self._next(tail))
        with m.If(free):
            m.d.sync += [
                self.r_valid.eq(behind if self.detour else behind | self.w_en),
                self.r_data.eq(ram.r_data if self.detour else Mux(behind, ram.r_data, self.w_data)),
            ]
        return m

    def _next(self, pointer: Signal) -> Value:
        if self.depth & (self.depth - 1) == 0:
            return (pointer + 1)[: len(pointer)]
        return Mux(pointer == self.depth - 1, 0, pointer + 1)
