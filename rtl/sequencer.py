"""The two loops and the micro-op counter of GEMM and ALU: one step per cycle."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.isa.legality import IDLE, STARTING
from lathe.isa.table import MemoryType, Opcode
from lathe.rtl.geometry import Geometry, log2
from lathe.rtl.instruction import WordReader, instruction_view

OPERANDS = ("dst", "src", "wgt")


class Sequencer(Elaboratable):
    """Walks the iterations of an instruction.

    `start` takes `word`; `active` from the next cycle on, with a step in each `go`, up to `last`. An instruction of no
    iterations is one step that is not `valid`. `uop` is the step's micro-op and `offsets` what the loops add to its
    dst, src and wgt; an offset of the scratchpad's depth stands for that and all beyond it. ALU with a tensor operand
    takes two steps for each micro-op, `second` the latter.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.start = Signal()
        self.word = Signal(INSTRUCTION_BITS)
        self.go = Signal()
        self.active = Signal()
        self.valid = Signal()
        self.last = Signal()
        self.second = Signal()
        self.tensor = Signal()
        self.gemm = Signal()
        self.uop_overrun = Signal()
        config = geometry.config
        self.depth = {
            "dst": config.acc_depth,
            "src": max(config.acc_depth, config.inp_depth),
            "wgt": config.wgt_depth,
        }
        self.uop = Signal(max(1, log2(geometry.depth(MemoryType.UOP))))
        self.offsets = {name: Signal(log2(depth) + 1, name=f"{name}_offset") for name, depth in self.depth.items()}

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self.geometry.config
        reader = WordReader(m, config, Opcode.GEMM, self.word)
        gemm = reader.view
        alu = instruction_view(config, Opcode.ALU, self.word)
        is_gemm = Signal()
        # GEMM and ALU have the fields of their loops in the same places.
        empty = IDLE.on(reader)
        (beyond,) = (rule for rule in STARTING if rule.opcode is Opcode.GEMM)
        m.d.comb += [
            is_gemm.eq(gemm.opcode == Opcode.GEMM),
            self.gemm.eq(is_gemm),
            self.uop_overrun.eq(beyond.broken.on(reader)),
        ]
        begin = Signal.like(self.uop)
        end = Signal(len(self.uop) + 1)
        outer, inner = Signal(14), Signal(14)
        outer_left, inner_left = Signal(14), Signal(14)
        uop_last, inner_last, iteration_last = Signal(), Signal(), Signal()
        m.d.comb += [
            uop_last.eq(self.uop + 1 == end),
            inner_last.eq(inner_left == 1),
            iteration_last.eq(self.second | ~self.tensor),
            self.last.eq(self.active & (~self.valid | (iteration_last & uop_last & inner_last & (outer_left == 1)))),
        ]
        step = Signal()
        m.d.comb += step.eq(self.go & self.active & self.valid)
        for name, depth in self.depth.items():
            self._offset(m, name, depth, (gemm, alu, is_gemm), step & iteration_last & uop_last, inner_last)
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                self.valid.eq(~empty),
                self.tensor.eq(~is_gemm & ~alu.use_imm),
                self.second.eq(0),
                self.uop.eq(gemm.uop_bgn),
                begin.eq(gemm.uop_bgn),
                end.eq(gemm.uop_end),
                outer.eq(gemm.iter_out),
                inner.eq(gemm.iter_in),
                outer_left.eq(gemm.iter_out),
                inner_left.eq(gemm.iter_in),
            ]
        with m.Elif(self.go & self.last):
            m.d.sync += self.active.eq(0)
        with m.Elif(step):
            m.d.sync += self.second.eq(self.tensor & ~self.second)
            with m.If(iteration_last):
                m.d.sync += self.uop.eq(Mux(uop_last, begin, self.uop + 1))
                with m.If(uop_last):
                    m.d.sync += inner_left.eq(Mux(inner_last, inner, inner_left - 1))
                    with m.If(inner_last):
                        m.d.sync += outer_left.eq(outer_left - 1)
        return m

    def _offset(
        self, m: Module, name: str, depth: int, views: tuple[Value, Value, Value], advance: Value, inner_last: Value
    ) -> None:
        """What the loops add to one operand's index."""
        gemm, alu, is_gemm = views
        bits = log2(depth) + 1
        factor_out, factor_in = Signal(bits, name=f"{name}_out"), Signal(bits, name=f"{name}_in")
        row = Signal(bits, name=f"{name}_row")  # the offset at the beginning of the inner loop
        following = Signal(bits, name=f"{name}_following")
        wide = Signal(bits + 1, name=f"{name}_sum")
        now = self.offsets[name]
        m.d.comb += [
            wide.eq(Mux(inner_last, row + factor_out, now + factor_in)),
            following.eq(Mux(wide >= depth, depth, wide)),
        ]
        with m.If(self.start):
            for factor, which in ((factor_out, "out"), (factor_in, "in")):
                field = f"{name}_factor_{which}"
                value = gemm[field] if name == "wgt" else Mux(is_gemm, gemm[field], alu[field])
                m.d.sync += factor.eq(value)
            m.d.sync += Cat(now, row).eq(0)
        with m.Elif(advance):
            m.d.sync += now.eq(following)
            with m.If(inner_last):
                m.d.sync += row.eq(following)
