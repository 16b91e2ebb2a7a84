"""How elements lie in beats and in banks.

A scratchpad that takes several elements of a beat in one cycle has a bank for each: element i is in bank i mod banks,
in row i div banks. Elements of a beat (its lanes) go to consecutive places, beginning anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.rtl.derived_widths import log2


@dataclass(frozen=True)
class Banking:
    """A scratchpad of `depth` elements in `banks` banks, each a power of two."""

    depth: int
    banks: int

    @property
    def rows(self) -> int:
        """Elements of a bank."""
        return self.depth // self.banks

    @property
    def bank_bits(self) -> int:
        """Bits of an element's index that name its bank."""
        return log2(self.banks)

    def bank_of(self, index: Value) -> Value:
        """The bank of an element."""
        return cast(Value, index[: self.bank_bits])

    def row_of(self, index: Value) -> Value:
        """The row of an element in its bank."""
        return cast(Value, index[self.bank_bits : log2(self.depth)])


class LaneMap:
    """Where the lanes of a beat go, when lane `first` goes to element `index` and `count` lanes are meant.

    For bank b, `row[b]`, `lane[b]` and `valid[b]` name the row and the lane that goes there, if any.
    """

    def __init__(
        self, m: Module, banking: Banking, lanes: int, index: Value, first: Value, count: Value, name: str
    ) -> None:
        bits = log2(banking.depth)
        origin = Signal(max(1, bits), name=f"{name}_origin")  # where lane 0 would go, modulo the depth
        m.d.comb += origin.eq(index - first)
        end = Signal(range(lanes + 1), name=f"{name}_end")
        m.d.comb += end.eq(first + count)
        self.row: list[Value] = []
        self.lane: list[Value] = []
        self.valid: list[Value] = []
        for bank in range(banking.banks):
            near = Signal(max(1, banking.bank_bits), name=f"{name}_near{bank}")  # the lowest lane that goes here
            if banking.bank_bits:
                m.d.comb += near.eq((bank - banking.bank_of(origin))[: banking.bank_bits])
            candidates = [near + step for step in range(0, lanes, banking.banks)] if lanes > banking.banks else [near]
            lane = Signal(range(max(2, lanes, banking.banks)), name=f"{name}_lane{bank}")
            valid = Signal(name=f"{name}_valid{bank}")
            for candidate in candidates:
                with m.If((candidate >= first) & (candidate < end)):
                    m.d.comb += [lane.eq(candidate), valid.eq(1)]
            row = Signal(range(max(2, banking.rows)), name=f"{name}_row{bank}")
            if banking.rows > 1:
                carry = bank < banking.bank_of(origin) if banking.bank_bits else 0
                m.d.comb += row.eq(banking.row_of(origin) + carry)
            self.row.append(row)
            self.lane.append(lane)
            self.valid.append(valid)


def select(index: Value, choices: Sequence[Value]) -> Value:
    """The value of an index, by a tree of multiplexers; the last ones beyond a power of two."""
    assert choices, "nothing to select from"
    values = list(choices)
    bit = 0
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        odd = [values[-1]] if len(values) % 2 else []
        values = [cast(Value, Mux(index[bit], high, low)) for low, high in pairs] + odd
        bit += 1
    return values[0]


def joined(values: list[Value]) -> Value:
    """Values side by side, the first lowest."""
    return cast(Value, Cat(*values))
