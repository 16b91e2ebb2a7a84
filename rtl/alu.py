"""The ALU: one operation on every 32-bit value of an accumulator vector."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import ShapeLike, Value

from lathe.isa.table import AluOp, alu_operations
from lathe.rtl.banking import joined
from lathe.rtl.execute_stage import ExecuteStage

VALUE_BITS = 32
HALF = VALUE_BITS // 2


class Alu(Elaboratable):
    """`result` = `operation`(`a`, `b`) for each value, as in lathe.isa.arithmetic.

    `take` in cycle t registers the second operand: `operand`, or `imm` with `use_imm`. From t + 1 on, `a` and
    `operation` give `result` combinationally, between the read and the write of an accumulator. A multiplication takes
    one cycle more: with `multiply` in t, `result` in t + 1 is that of the `a` of t. `imm`: the shape of its field.
    """

    def __init__(self, values: int, operations: tuple[AluOp, ...], imm: ShapeLike) -> None:
        self.values, self.operations = values, operations
        self.take = Signal()
        self.use_imm = Signal()
        self.imm = Signal(imm)
        self.operand = Signal(values * VALUE_BITS)
        self.operation = Signal(3)
        self.multiply = Signal()
        self.a = Signal(values * VALUE_BITS)
        self.result = Signal(values * VALUE_BITS)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        results: list[Value] = []
        for lane in range(self.values):
            a = Signal(signed(VALUE_BITS), name=f"a{lane}")
            b = Signal(signed(VALUE_BITS), name=f"b{lane}", reset_less=True)
            taken = Signal(signed(VALUE_BITS), name=f"taken{lane}")
            result = Signal(signed(VALUE_BITS), name=f"result{lane}")
            m.d.comb += [
                a.eq(self.a.word_select(lane, VALUE_BITS)),
                taken.eq(Mux(self.use_imm, self.imm, self.operand.word_select(lane, VALUE_BITS).as_signed())),
            ]
            with m.If(self.take):
                m.d.sync += b.eq(taken)
            by_operation = {
                AluOp.MIN: Mux(a < b, a, b),
                AluOp.MAX: Mux(a < b, b, a),
                AluOp.ADD: a + b,
                AluOp.SHR: self._shifted(m, lane, a, b, taken),
                AluOp.MUL: self._product(m, lane, a, b),
                AluOp.SUB: a - b,
            }
            with m.Switch(self.operation):
                for operation in self.operations:
                    with m.Case(operation):
                        m.d.comb += result.eq(by_operation[operation])
            results.append(result)
        m.d.comb += self.result.eq(joined(results))
        return m

    def _shifted(self, m: Module, lane: int, a: Signal, b: Signal, taken: Signal) -> Value:
        """a shifted right by b, or left by −b; a right shift by 32 or more gives the sign, a left shift 0.

        One right shifter does both: a left shift by −b is a right shift by 32 + b of a 64-bit word with a in its upper
        half and zeros below, and 32 + b has the same low bits as b.
        """
        far = Signal(name=f"far{lane}", reset_less=True)
        beyond = taken[5:]
        with m.If(self.take):
            m.d.sync += far.eq(Mux(taken[-1], ~beyond.all() | (taken[:5] == 0), beyond.any()))
        left, sign = b[-1], a[-1].replicate(VALUE_BITS)
        whole = Cat(Mux(left, 0, a), Mux(left, a, sign))
        return Mux(far, Mux(left, 0, sign), (whole >> b[:5])[:VALUE_BITS])

    def _product(self, m: Module, lane: int, a: Signal, b: Signal) -> Value:
        """The low 32 bits of a · b in the next cycle: products of 16-bit halves are registered, then summed."""
        low = Signal(VALUE_BITS, name=f"low{lane}", reset_less=True)
        crosses = [Signal(HALF, name=f"cross{lane}_{which}", reset_less=True) for which in range(2)]
        with m.If(self.multiply):
            m.d.sync += [
                low.eq(a[:HALF] * b[:HALF]),
                crosses[0].eq(a[:HALF] * b[HALF:]),
                crosses[1].eq(a[HALF:] * b[:HALF]),
            ]
        return low + ((crosses[0] + crosses[1])[:HALF] << HALF)


def connect_alu(m: Module, place: ExecuteStage) -> Value:
    """Connect an ALU to the execute stage of the pipeline, and return its results."""
    config, holding, combining = place.geometry.config, place.holding, place.combining
    m.submodules.core_alu = alu = Alu(
        config.batch * config.block_out, alu_operations(config), holding.of.alu.imm.shape()
    )
    m.d.comb += [
        alu.take.eq(holding.valid & ~holding.first & ~holding.gemm),
        alu.use_imm.eq(holding.of.alu.use_imm),
        alu.imm.eq(holding.of.alu.imm),
        alu.operand.eq(place.value),  # the accumulator that the preceding step has read
        alu.operation.eq(combining.of.alu.alu_opcode),
        alu.multiply.eq(combining.valid & ~combining.writes & ~combining.first),
        alu.a.eq(place.value),
    ]
    return alu.result
