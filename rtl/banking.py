"""Banks of a scratchpad, and how the vectors of a bus beat map to them.

A scratchpad that takes several vectors of a beat in one cycle has a bank for each: vector i is in row i div banks of
bank i mod banks. The vectors in the slots of a beat have consecutive indices, from any index on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.rtl.derived_widths import log2


@dataclass(frozen=True)
class Banking:
    """A scratchpad of `depth` vectors in `banks` banks, both powers of two."""

    depth: int
    banks: int

    @property
    def rows(self) -> int:
        """Vectors per bank."""
        return self.depth // self.banks

    @property
    def bank_bits(self) -> int:
        """The number of low index bits that select the bank."""
        return log2(self.banks)

    def bank_of(self, index: Value) -> Value:
        """The bank of the vector with this index."""
        return cast(Value, index[: self.bank_bits])

    def row_of(self, index: Value) -> Value:
        """The row of the vector with this index in its bank."""
        return cast(Value, index[self.bank_bits : log2(self.depth)])


class BeatMap:
    """Maps the slots of a beat to banks; slots from `first` on hold `count` vectors with indices from `index` on.

    For bank b, `row[b]` is the row, `slot[b]` the slot that goes there, and `valid[b]` whether there is one.
    """

    def __init__(
        self, m: Module, banking: Banking, slots: int, index: Value, first: Value, count: Value, name: str
    ) -> None:
        bits = log2(banking.depth)
        origin = Signal(max(1, bits), name=f"{name}_origin")  # the index of slot 0, modulo the depth
        m.d.comb += origin.eq(index - first)
        end = Signal(range(slots + 1), name=f"{name}_end")
        m.d.comb += end.eq(first + count)
        self.row: list[Value] = []
        self.slot: list[Value] = []
        self.valid: list[Value] = []
        for bank in range(banking.banks):
            low = Signal(max(1, banking.bank_bits), name=f"{name}_near{bank}")  # the lowest slot of this bank
            if banking.bank_bits:
                m.d.comb += low.eq((bank - banking.bank_of(origin))[: banking.bank_bits])
            candidates = [low + each for each in range(0, slots, banking.banks)] if slots > banking.banks else [low]
            slot = Signal(range(max(2, slots, banking.banks)), name=f"{name}_lane{bank}")
            valid = Signal(name=f"{name}_valid{bank}")
            for candidate in candidates:
                with m.If((candidate >= first) & (candidate < end)):
                    m.d.comb += [slot.eq(candidate), valid.eq(1)]
            row = Signal(range(max(2, banking.rows)), name=f"{name}_row{bank}")
            if banking.rows > 1:
                carry = bank < banking.bank_of(origin) if banking.bank_bits else 0
                m.d.comb += row.eq(banking.row_of(origin) + carry)
            self.row.append(row)
            self.slot.append(slot)
            self.valid.append(valid)


def select(index: Value, choices: Sequence[Value]) -> Value:
    """`choices[index]` by a tree of multiplexers; an index beyond them selects one of the last."""
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
    """Values concatenated, the first in the lowest bits."""
    return cast(Value, Cat(*values))
