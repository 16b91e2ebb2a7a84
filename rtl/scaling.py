"""Fixed-point scaling of one accumulator value: bias, multiplication by a mantissa, and rounding."""

from amaranth import Cat, Elaboratable, Module, Signal, signed

from lathe.configs.memory import RESCALE_STAGES
from lathe.rtl.rounding import RESULT_BITS, SHIFT_BITS, TOTAL_BITS, Rounding
from lathe.rtl.rounding import STAGES as ROUNDING_STAGES
from lathe.rtl.stall import delayed

VALUE_BITS = 32
MANTISSA_BITS = 26
HALF = 16
SUM = 2  # the stage that adds up partial products


class Scaling(Elaboratable):
    """`result` = ((`value` + `bias`) · `mantissa`) / 2**`shift`, rounded and clamped, `RESCALE_STAGES` later.

    Bit k of `valid`: a value is in stage k, and in stage 0 it is `value`. With `adds`, an input of stage `SUM`, its
    product is added to that of the value before it, whose shift is ignored. For the other inputs, and the cycles in
    which they are used, see :class:`~lathe.rtl.rounding.Rounding`.
    """

    def __init__(self) -> None:
        self.valid = Signal(RESCALE_STAGES)
        self.value = Signal(signed(VALUE_BITS))
        self.bias = Signal(signed(VALUE_BITS))
        self.shift = Signal(SHIFT_BITS)
        self.mantissa = Signal(signed(MANTISSA_BITS))
        self.adds = Signal()
        self.zero_point = Signal(signed(RESULT_BITS))
        self.low = Signal(signed(RESULT_BITS))
        self.high = Signal(signed(RESULT_BITS))
        self.result = Signal(signed(RESULT_BITS))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        first = SUM + 1  # the first stage of rounding
        assert first + ROUNDING_STAGES == RESCALE_STAGES, "RESCALE_STAGES must be the stages of the sum and of rounding"
        m.submodules.rounding = rounding = Rounding()
        m.d.comb += [
            rounding.valid.eq(self.valid[first:]),
            rounding.total.eq(self._total(m)),
            rounding.shift.eq(delayed(m, first, self.shift, reset=False)[0]),
            rounding.zero_point.eq(self.zero_point),
            rounding.low.eq(self.low),
            rounding.high.eq(self.high),
            self.result.eq(rounding.result),
        ]
        return m

    def _total(self, m: Module) -> Signal:
        """Stages 0 to 2: addition of the bias, partial products of 16-bit halves, and their sum."""
        m.submodules.products = products = Products()
        total = Signal(signed(TOTAL_BITS), name="total", reset_less=True)
        m.d.comb += products.valid.eq(self.valid[1])
        with m.If(self.valid[0]):
            m.d.sync += [products.value.eq(self.value + self.bias), products.mantissa.eq(self.mantissa)]
        # A depth of two additions: `outer` and `inner` are computed in parallel.
        before, outer = Signal(signed(TOTAL_BITS)), Signal(signed(TOTAL_BITS))
        inner = Signal(signed(2 * HALF + 1))
        with m.If(self.adds):
            m.d.comb += before.eq(total)
        m.d.comb += [
            outer.eq(Cat(products.low, products.high).as_signed() + before),
            inner.eq(products.crosses[0] + products.crosses[1]),
        ]
        with m.If(self.valid[SUM]):
            m.d.sync += total.eq(outer + (inner << HALF))
        return total


class Products(Elaboratable):
    """Registered partial products of the halves of `value` and `mantissa`: `low` of both low halves, `high` of both
    high halves, `crosses` of the low half of one and the high half of the other.
    """

    def __init__(self) -> None:
        self.valid = Signal()
        self.value = Signal(signed(VALUE_BITS), reset_less=True)
        self.mantissa = Signal(signed(MANTISSA_BITS), reset_less=True)
        self.low = Signal(2 * HALF, reset_less=True)
        self.crosses = [
            Signal(signed(MANTISSA_BITS), name="cross0", reset_less=True),
            Signal(signed(2 * HALF), name="cross1", reset_less=True),
        ]
        self.high = Signal(signed(MANTISSA_BITS), reset_less=True)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        low, high = self.value[:HALF], self.value[HALF:].as_signed()
        mantissa_low, mantissa_high = self.mantissa[:HALF], self.mantissa[HALF:].as_signed()
        with m.If(self.valid):
            m.d.sync += [
                self.low.eq(low * mantissa_low),
                self.crosses[0].eq(low * mantissa_high),
                self.crosses[1].eq(high * mantissa_low),
                self.high.eq(high * mantissa_high),
            ]
        return m
