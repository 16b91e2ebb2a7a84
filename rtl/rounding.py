"""Division by a power of two with rounding, addition of a zero point, and clamping, in pipeline stages."""

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import Value

from lathe.rtl.banking import select
from lathe.rtl.ram import replicated
from lathe.rtl.stall import delayed

SHIFT_BITS = 6
TOTAL_BITS = 59
RESULT_BITS = 9  # −256 to 255
STAGES = 3
_FINE = 3  # low bits of the shift amount, applied in stage 1
_COARSE = 1 << _FINE
# Bits of the quotient: one that needs more is beyond the bounds, whatever the zero point.
_QUOTIENT = 10
# The quotient and the bit below it, for every fine shift.
_WINDOW = (_COARSE - 1) + 1 + _QUOTIENT


class Rounding(Elaboratable):
    """`result` = round(`total` / 2**`shift`) + `zero_point`, clamped to `low` and `high`, three cycles later.

    Ties are rounded to even. Bit k of `valid`: a value is in stage k, and in stage 0 it is `total`. `zero_point`, `low`
    and `high` (`low` <= `high`) are those of the last stage's cycle.
    """

    def __init__(self) -> None:
        self.valid = Signal(STAGES)
        self.total = Signal(signed(TOTAL_BITS))
        self.shift = Signal(SHIFT_BITS)
        self.zero_point = Signal(signed(RESULT_BITS))
        self.low = Signal(signed(RESULT_BITS))
        self.high = Signal(signed(RESULT_BITS))
        self.result = Signal(signed(RESULT_BITS), reset_less=True)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        (fine,) = delayed(m, 1, self.shift[:_FINE], reset=False)
        self._bounded(m, *self._quotient(m, *self._window(m), fine))
        return m

    def _window(self, m: Module) -> tuple[Signal, Signal, Signal, Signal]:
        """Stage 0, the coarse shift: the window of bits for the fine shift; the sign; whether a bit below the window is
        set; whether a bit above it differs from the sign.
        """
        total, coarse, sign = self.total, self.shift[_FINE:], self.total[-1]
        starts = range(0, 1 << SHIFT_BITS, _COARSE)
        bits = Cat(Const(0, 1), total, replicated(sign, starts[-1] + _WINDOW - TOTAL_BITS - 1))
        differs = bits ^ replicated(sign, len(bits))
        values = {
            "window": select(coarse, [bits[start : start + _WINDOW] for start in starts]),
            "sign": sign,
            "below": select(coarse, [bits[:start].any() for start in starts]),
            "above": select(coarse, [differs[start + _WINDOW :].any() for start in starts]),
        }
        window, kept_sign, below, above = (
            Signal(value.shape(), name=name, reset_less=True) for name, value in values.items()
        )
        with m.If(self.valid[0]):
            for register, value in zip((window, kept_sign, below, above), values.values(), strict=True):
                m.d.sync += register.eq(value)
        return window, kept_sign, below, above

    def _quotient(
        self, m: Module, window: Signal, sign: Signal, below: Signal, above: Signal, fine: Value
    ) -> tuple[Signal, Signal, Signal]:
        """Stage 1, the fine shift: the quotient rounded down, whether to round it up by one, whether it overflows."""
        differs = window ^ replicated(sign, _WINDOW)
        shifted, under, beyond = Signal(_WINDOW), Signal(), Signal()
        m.d.comb += [
            shifted.eq(window >> fine),
            under.eq(below | select(fine, [window[:start].any() for start in range(_COARSE)])),
            beyond.eq(above | select(fine, [differs[start + _QUOTIENT :].any() for start in range(_COARSE)])),
        ]
        quotient = Signal(signed(_QUOTIENT), reset_less=True)
        up, wide = Signal(reset_less=True), Signal(reset_less=True)
        with m.If(self.valid[1]):
            m.d.sync += [
                quotient.eq(Cat(shifted[1:_QUOTIENT], sign)),
                up.eq(shifted[0] & (under | shifted[1])),
                wide.eq(beyond),
            ]
        return quotient, up, wide

    def _bounded(self, m: Module, quotient: Signal, up: Signal, wide: Signal) -> None:
        """Stage 2: addition of the zero point, and clamping."""
        moved = Signal(signed(_QUOTIENT + 1))
        least, most = Signal(), Signal()
        m.d.comb += [
            moved.eq(quotient + self.zero_point + up),
            least.eq(Mux(wide, quotient[-1], moved < self.low)),
            most.eq(Mux(wide, ~quotient[-1], moved > self.high)),
        ]
        with m.If(self.valid[2]):
            m.d.sync += self.result.eq(Mux(least, self.low, Mux(most, self.high, moved)))
