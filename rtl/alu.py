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

    def __init__(self, values: int, operations: tuple[AluOp, ...]) -> None:
        self.values, self.operations = values, operations
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
            made = _results(m, a, b)
            with m.Switch(self.operation):
                for operation in self.operations:
                    with m.Case(operation):
                        m.d.comb += result.eq(made[operation])
            results.append(result)
        m.d.comb += self.result.eq(joined(results))
        return m


def _shifted(m: Module, a: Signal, b: Signal) -> Value:
    """a shifted right by b, left by −b; by the width and beyond gives the sign to the right, 0 to the left."""
    lane = a.name.removeprefix("a")
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


def _results(m: Module, a: Signal, b: Signal) -> dict[AluOp, Value]:
    """What each operation makes of a and b; its low bits are taken."""
    return {
        AluOp.MIN: Mux(a < b, a, b),
        AluOp.MAX: Mux(a < b, b, a),
        AluOp.ADD: a + b,
        AluOp.SHR: _shifted(m, a, b),
        AluOp.MUL: a * b,
        AluOp.SUB: a - b,
    }
