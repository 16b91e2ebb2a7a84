"""How many of something are under way."""

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value


class UpDownCounter:
    """Counts up to `most`: `enter` and `leave` in cycle t change `count` from t + 1 on.

    `full` is a register of its own, since what enters often waits for it within the cycle.
    """

    def __init__(self, most: int, name: str) -> None:
        self.most = most
        self.count = Signal(range(most + 1), name=name)
        self.full = Signal(name=f"{name}_full")

    def counts(self, m: Module, enter: Value, leave: Value) -> None:
        """What enters and what leaves."""
        before = self.count == self.most - 1
        m.d.sync += [
            self.count.eq(self.count + enter - leave),
            self.full.eq(Mux(enter, Mux(leave, self.full, before), self.full & ~leave)),
        ]
