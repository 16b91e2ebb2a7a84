"""The two loops and the micro-op counter of GEMM and ALU: one step per cycle."""

from collections.abc import Iterable
from typing import Any

from amaranth import Cat, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.isa.legality import IDLE, STARTING
from lathe.isa.table import AluOp, MemoryType, Opcode
from lathe.rtl.geometry import Geometry, log2
from lathe.rtl.instruction import StageReader, instruction_view
from lathe.rtl.stall import CommandPort

OPERANDS = ("dst", "src", "wgt")


class Sequencer(Elaboratable):
    """Walks the iterations of an instruction.

    `start` takes the port's word; `active` from the next cycle on, with a step in each `go`, up to `last`. An
    instruction of no iterations is one step that is not `valid`. `uop` is the step's micro-op and `offsets` what the
    loops add to its dst, src and wgt; an offset of the scratchpad's depth stands for that and all beyond it. The steps
    of a micro-op: `first`, which reads the operand of an ALU that has it in an accumulator; one for each cycle that its
    operation takes longer than others; and the one that `writes`. `last_next`: the step after this one is the last,
    unless one starts. Of the port's word, `single`: it is one step; `uop_overrun`: it goes beyond the micro-ops.
    """

    def __init__(self, geometry: Geometry, port: CommandPort) -> None:
        self.geometry, self.port = geometry, port
        self.start = Signal()
        self.go = Signal()
        self.active = Signal()
        self.valid = Signal()
        self.last = Signal()
        self.last_next = Signal()
        self.single = Signal()
        self.first = Signal()
        self.writes = Signal()
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
        config, port = self.geometry.config, self.port
        counts, empty = self._decode(m)
        gemm = instruction_view(config, Opcode.GEMM, port.word)
        alu = instruction_view(config, Opcode.ALU, port.word)
        slow_word = ~self.gemm & _any(alu.alu_opcode == each for each in AluOp if each.waits)
        quick = self.gemm | (alu.use_imm & ~slow_word)  # a micro-op is one step
        tensor, slow = Signal(), Signal()  # an operand in an accumulator, and an operation that waits
        begin = Signal.like(self.uop)
        micro_op_last = self.writes
        loops = [_Countdown(name, len(count)) for name, (count, _) in counts.items()]
        uops, inner, _ = loops
        step = Signal()
        m.d.comb += [
            self.gemm.eq(gemm.opcode == Opcode.GEMM),
            step.eq(self.go & self.active & self.valid),
            self.single.eq(empty | (quick & Cat(*(one for _, one in counts.values())).all())),
            self.last_next.eq(self.last),
        ]
        for name, depth in self.depth.items():
            self._offset(m, name, depth, (gemm, alu, self.gemm), step & micro_op_last & uops.last, inner.last)
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                self.valid.eq(~empty),
                tensor.eq(~self.gemm & ~alu.use_imm),
                self.first.eq(~self.gemm & ~alu.use_imm),
                slow.eq(slow_word),
                micro_op_last.eq(quick),
                self.last.eq(self.single),
                self.uop.eq(gemm.uop_bgn),
                begin.eq(gemm.uop_bgn),
                *(
                    each
                    for loop, (count, one) in zip(loops, counts.values(), strict=True)
                    for each in loop.load(count, one)
                ),
            ]
        with m.Elif(self.go & self.last):
            m.d.sync += [self.active.eq(0), self.last.eq(0)]
            m.d.comb += self.last_next.eq(0)
        with m.Elif(step):
            again = Mux(micro_op_last, ~tensor & ~slow, ~self.first | ~slow)
            m.d.sync += [
                self.first.eq(micro_op_last & tensor),
                micro_op_last.eq(again),
                self.last.eq(self.last_next),
            ]
            # A loop goes on when those inside it are through; the last step is one in which all are in their last pass.
            through: Value = micro_op_last
            lasts = [again]
            for loop in loops:
                with m.If(through):
                    m.d.sync += loop.step()
                lasts.append(Mux(through, loop.following, loop.last))
                through = through & loop.last
            m.d.comb += self.last_next.eq(Cat(*lasts).all())
            with m.If(micro_op_last):
                m.d.sync += self.uop.eq(Mux(uops.last, begin, self.uop + 1))
        return m

    def _decode(self, m: Module) -> tuple[dict[str, tuple[Signal, Signal]], Signal]:
        """Of the port's word: passes of each loop, the innermost first, and whether it is one; whether there is none.

        That, and whether it overruns, is found out a stage before.
        """
        # GEMM and ALU have the fields of their loops in the same places.
        reader = StageReader(m, self.geometry.config, Opcode.GEMM, self.port.words[-2])
        (beyond,) = (rule for rule in STARTING if rule.opcode is Opcode.GEMM)
        advance = self.port.advance[-1]
        m.d.comb += self.uop_overrun.eq(reader.registered("uop_overrun", beyond.broken.on(reader), advance))
        fields = reader.view
        passes = {
            "uops": (fields.uop_end - fields.uop_bgn)[: len(self.uop) + 1],
            "inner": fields.iter_in,
            "outer": fields.iter_out,
        }
        counts = {
            name: (
                reader.registered(f"{name}_passes", count, advance),
                reader.registered(f"{name}_one", count == 1, advance),
            )
            for name, count in passes.items()
        }
        return counts, reader.registered("empty", IDLE.on(reader), advance)

    def _offset(
        self, m: Module, name: str, depth: int, views: tuple[Value, Value, Value], advance: Value, inner_last: Value
    ) -> None:
        """What the loops add to one operand's index."""
        gemm, alu, is_gemm = views
        bits = log2(depth) + 1
        factor_out, factor_in = Signal(bits, name=f"{name}_out"), Signal(bits, name=f"{name}_in")
        row = Signal(bits, name=f"{name}_row")  # the offset at the beginning of the inner loop
        now = self.offsets[name]
        sums = [
            _up_to(m, depth, row + factor_out, f"{name}_next_row"),
            _up_to(m, depth, now + factor_in, f"{name}_next"),
        ]
        with m.If(self.start):
            for factor, which in ((factor_out, "out"), (factor_in, "in")):
                field = f"{name}_factor_{which}"
                value = gemm[field] if name == "wgt" else Mux(is_gemm, gemm[field], alu[field])
                m.d.sync += factor.eq(value)
            m.d.sync += Cat(now, row).eq(0)
        with m.Elif(advance):
            m.d.sync += now.eq(Mux(inner_last, *sums))
            with m.If(inner_last):
                m.d.sync += row.eq(sums[0])


class _Countdown:
    """Passes of a loop: `last` tells, out of a register, that the one under way is the last; then they begin again."""

    def __init__(self, name: str, bits: int) -> None:
        self.all, self.left = Signal(bits, name=f"{name}_all"), Signal(bits, name=f"{name}_left")
        self.single = Signal(name=f"{name}_single")
        self.last = Signal(name=f"{name}_last")

    @property
    def following(self) -> Value:
        """Whether the pass after this one is the last."""
        return Mux(self.last, self.single, self.left == 2)

    def load(self, count: Value, one: Value) -> list[Any]:
        """So many passes; whether that is one."""
        return [self.all.eq(count), self.left.eq(count), self.single.eq(one), self.last.eq(one)]

    def step(self) -> list[Any]:
        """A pass is over."""
        return [self.left.eq(Mux(self.last, self.all, self.left - 1)), self.last.eq(self.following)]


def _up_to(m: Module, depth: int, value: Value, name: str) -> Signal:
    """A value, or the depth where that is less; the depth is a power of two."""
    found = Signal(log2(depth) + 1, name=name)
    beyond = value[log2(depth) :].any()
    m.d.comb += found.eq(Cat(Mux(beyond, 0, value[: log2(depth)])[: log2(depth)], beyond))
    return found


def _any(conditions: Iterable[Value]) -> Value:
    return Cat(*conditions).any()
