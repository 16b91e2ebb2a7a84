"""The ALU: what an ALU micro-op writes, for every value of an accumulator element."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import Value

from lathe.isa.table import AluOp
from lathe.rtl.lanes import joined

VALUE_BITS = 32
HALF = VALUE_BITS // 2


class Alu(Elaboratable):
    """`result` = `operation`(`a`, `b`) value by value, as in lathe.isa.arithmetic, but for MUL.

    `take` in cycle t takes the second operand: `operand`, or with `use_imm` `imm`. In t + 1, `a` and `operation` give
    `result` at once, between the read and the write of an accumulator; `product`, the low bits of `a` · `b`, is there
    in t + 2, since a multiplication takes a cycle of its own.
    """

    def __init__(self, values: int, operations: tuple[AluOp, ...]) -> None:
        self.values, self.operations = values, operations
        self.take = Signal()
        self.use_imm = Signal()
        self.imm = Signal(signed(16))
        self.operand = Signal(values * VALUE_BITS)
        self.operation = Signal(3)
        self.a = Signal(values * VALUE_BITS)
        self.result = Signal(values * VALUE_BITS)
        self.product = Signal(values * VALUE_BITS)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        results: list[Value] = []
        products: list[Value] = []
        for lane in range(self.values):
            a = Signal(signed(VALUE_BITS), name=f"a{lane}")
            b = Signal(signed(VALUE_BITS), name=f"b{lane}")
            taken = Signal(signed(VALUE_BITS), name=f"taken{lane}")
            result = Signal(signed(VALUE_BITS), name=f"result{lane}")
            m.d.comb += [
                a.eq(self.a.word_select(lane, VALUE_BITS)),
                taken.eq(Mux(self.use_imm, self.imm, self.operand.word_select(lane, VALUE_BITS).as_signed())),
            ]
            with m.If(self.take):
                m.d.sync += b.eq(taken)
            made = self._results(m, lane, a, b, taken)
            with m.Switch(self.operation):
                for operation in self.operations:
                    if operation in made:
                        with m.Case(operation):
                            m.d.comb += result.eq(made[operation])
            results.append(result)
            products.append(_product(m, lane, a, b))
        m.d.comb += [self.result.eq(joined(results)), self.product.eq(joined(products))]
        return m

    def _results(self, m: Module, lane: int, a: Signal, b: Signal, taken: Signal) -> dict[AluOp, Value]:
        """What each operation makes of a and b within the cycle; its low bits are taken."""
        less = Signal(name=f"less{lane}")
        m.d.comb += less.eq(a < b)
        return {
            AluOp.MIN: Mux(less, a, b),
            AluOp.MAX: Mux(less, b, a),
            AluOp.ADD: a + b,
            AluOp.SHR: self._shifted(m, lane, a, taken),
            AluOp.SUB: a - b,
        }

    def _shifted(self, m: Module, lane: int, a: Signal, taken: Signal) -> Value:
        """a shifted right by b, left by −b; by the width and beyond gives the sign to the right, 0 to the left.

        How far and where to is found out when b is taken.
        """
        left = Signal(name=f"left{lane}")
        far = Signal(name=f"far{lane}")
        places = Signal(range(VALUE_BITS), name=f"places{lane}")
        high, low = taken[5:], taken[:5]
        with m.If(self.take):
            m.d.sync += [
                left.eq(taken < 0),
                far.eq(Mux(taken < 0, ~high.all() | (low == 0), high.any())),
                places.eq(Mux(taken < 0, -low, low)),
            ]
        # One shifter to the right does both: a shift to the left is one of the bits in reverse order.
        turned = Signal(VALUE_BITS, name=f"turned{lane}")
        shifted = Signal(VALUE_BITS, name=f"shifted{lane}")
        fill = Signal(name=f"fill{lane}")
        m.d.comb += [
            turned.eq(Mux(left, a[::-1], a)),
            fill.eq(a[-1] & ~left),
            shifted.eq(Mux(far, fill.replicate(VALUE_BITS), Cat(turned, fill).as_signed() >> places)),
        ]
        return Mux(left, shifted[::-1], shifted)


def _product(m: Module, lane: int, a: Signal, b: Signal) -> Value:
    """The low bits of a · b in the next cycle: products of halves, and then their sum."""
    low = Signal(VALUE_BITS, name=f"low{lane}")
    crosses = [Signal(HALF, name=f"cross{lane}_{which}") for which in range(2)]
    m.d.sync += [
        low.eq(a[:HALF] * b[:HALF]),
        crosses[0].eq(a[:HALF] * b[HALF:]),
        crosses[1].eq(a[HALF:] * b[:HALF]),
    ]
    return (low + ((crosses[0] + crosses[1])[:HALF] << HALF))[:VALUE_BITS]
