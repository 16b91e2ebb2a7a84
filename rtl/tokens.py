"""The queues of dependence tokens, as counters."""

from amaranth import Elaboratable, Module, Signal

from lathe.isa.table import TOKEN_BITS


class TokenCounter(Elaboratable):
    """One queue of dependence tokens; these carry no data, so a counter suffices.

    `push` and `pop` in cycle t change `count` from t + 1 on. `overflow`: a token is pushed to a full queue.
    """

    def __init__(self) -> None:
        self.load = Signal()
        self.value = Signal(TOKEN_BITS)
        self.push = Signal()
        self.pop = Signal()
        self.count = Signal(TOKEN_BITS)
        self.available = Signal()
        self.overflow = Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.d.comb += self.overflow.eq(self.push & ~self.pop & self.count.all())
        with m.If(self.load):
            m.d.sync += [self.count.eq(self.value), self.available.eq(self.value != 0)]
        with m.Else():
            m.d.sync += self.count.eq(self.count + self.push - self.pop)
            # A separate register, since `pop` depends on it combinationally.
            m.d.sync += self.available.eq(self.push | (self.available & ~(self.pop & (self.count == 1))))
        return m
