"""An up/down counter of items in flight."""

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value


class UpDownCounter:
    """Counts up to `most`: `enter` and `leave` in cycle t change `count` from t + 1 on.

    `full` is a separate register, since `enter` often depends on it combinationally.
    """

    def __init__(self, most: int, name: str) -> None:
        self.most = most
        self.count = Signal(range(most + 1), name=name)
        self.full = Signal(name=f"{name}_full")

    def drive(self, m: Module, enter: Value, leave: Value) -> None:
        """Drive the counter: `enter` and `leave` are conditions of the cycle."""
        before = self.count == self.most - 1
        m.d.sync += [
            self.count.eq(self.count + enter - leave),
            self.full.eq(Mux(enter, Mux(leave, self.full, before), self.full & ~leave)),
        ]
