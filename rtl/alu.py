"""The ALU: what an ALU micro-op writes, for every value of an accumulator element, within one cycle."""

from amaranth import Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import Value

from lathe.isa.table import AluOp
from lathe.rtl.lanes import joined

VALUE_BITS = 32


class Alu(Elaboratable):
    """`result` = `operation`(`a`, `b`) value by value, where `b` is `operand` or, with `use_imm`, `imm`; as in
    lathe.isa.arithmetic. Combinational, between the read and the write of an accumulator.
    """

    def __init__(self, values: int) -> None:
        self.values = values
        self.operation = Signal(3)
        self.use_imm = Signal()
        self.imm = Signal(signed(16))
        self.a = Signal(values * VALUE_BITS)
        self.operand = Signal(values * VALUE_BITS)
        self.result = Signal(values * VALUE_BITS)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        results: list[Value] = []
        for lane in range(self.values):
            a = Signal(signed(VALUE_BITS), name=f"a{lane}")
            b = Signal(signed(VALUE_BITS), name=f"b{lane}")
            result = Signal(signed(VALUE_BITS), name=f"result{lane}")
            m.d.comb += [
                a.eq(self.a.word_select(lane, VALUE_BITS)),
                b.eq(Mux(self.use_imm, self.imm, self.operand.word_select(lane, VALUE_BITS).as_signed())),
            ]
            with m.Switch(self.operation):
                with m.Case(AluOp.MIN):
                    m.d.comb += result.eq(Mux(a < b, a, b))
                with m.Case(AluOp.MAX):
                    m.d.comb += result.eq(Mux(a < b, b, a))
                with m.Case(AluOp.ADD):
                    m.d.comb += result.eq(a + b)
                with m.Case(AluOp.SHR):
                    m.d.comb += result.eq(self._shifted(m, a, b, lane))
                with m.Case(AluOp.MUL):
                    m.d.comb += result.eq(a * b)
            results.append(result)
        m.d.comb += self.result.eq(joined(results))
        return m

    @staticmethod
    def _shifted(m: Module, a: Signal, b: Signal, lane: int) -> Value:
        """a shifted right by b, left by −b; by the width and beyond gives the sign to the right, 0 to the left."""
        left = Signal(name=f"left{lane}")
        far = Signal(name=f"far{lane}")
        places = Signal(5, name=f"places{lane}")
        shifted_right = Signal(signed(VALUE_BITS), name=f"shifted_right{lane}")
        shifted_left = Signal(signed(VALUE_BITS), name=f"shifted_left{lane}")
        m.d.comb += [
            left.eq(b < 0),
            far.eq(Mux(left, b <= -VALUE_BITS, b >= VALUE_BITS)),
            places.eq(Mux(left, -b, b)),
            shifted_right.eq(a >> Mux(far, VALUE_BITS - 1, places)),
            shifted_left.eq(Mux(far, 0, a << places)),
        ]
        return Mux(left, shifted_left, shifted_right)
