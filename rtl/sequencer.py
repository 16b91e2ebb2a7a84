"""The two loops and the micro-op counter of instructions that run micro-ops: one step per cycle."""

from typing import Any

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.isa.constraints import IDLE, STARTING
from lathe.isa.operands import operands_of, trailing_steps
from lathe.isa.table import TABLE, MemoryType, Opcode, placements
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.instruction import StageReader, instruction_view, issued
from lathe.rtl.stall import CommandPort

OPERANDS = ("dst", "src", "wgt")
_STEPS = ("tensor_word", "quick_word", "brief_word", "slow_word")


class Sequencer(Elaboratable):
    """Walks the iterations of an instruction.

    `start` takes the port's word; `active` from the next cycle on, with a step in each `go`, up to `last`. An
    instruction of no iterations is one step that is not `valid`. `uop` is the step's micro-op and `offsets` what the
    loops add to its dst, src and wgt; an offset of the scratchpad's depth stands for that and all beyond it. The steps
    of a micro-op: `first`, which reads an accumulator besides the one that is written; one in which the result is
    waited for; and the one that `writes`: so many of them as the instruction's row says. Its trailing steps, which are
    not `valid`, come behind them. `last_next`: the step after this one is the last, unless one starts. Of the port's
    word, `runs`: which instruction it is; `single`: it is one step; `uop_overrun`: it goes beyond the micro-ops.
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
        self.uop_overrun = Signal()
        self.opcodes = issued(geometry.config)
        self.runs = {opcode: Signal(name=f"runs_{opcode.name.lower()}") for opcode in self.opcodes}
        operands = [each for opcode in self.opcodes for each in operands_of(opcode)]
        self.depth = {
            name: max(geometry.depth(each.memory) for each in operands if each.index == name) for name in OPERANDS
        }
        self.uop = Signal(max(1, log2(geometry.depth(MemoryType.UOP))))
        self.offsets = {name: Signal(log2(depth) + 1, name=f"{name}_offset") for name, depth in self.depth.items()}

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        port = self.port
        counts, empty = self._decode(m)
        tensor_word, quick, brief, slow_word = self._steps(m)
        trail = self._trailing()
        fields = instruction_view(self.geometry.config, Opcode.GEMM, port.word)  # of the loops: in all the same places
        tensor, slow = Signal(), Signal()  # an accumulator is read besides, and an operation is waited for
        begin = Signal.like(self.uop)
        micro_op_last = self.writes
        loops = [_Countdown(name, len(count)) for name, (count, _) in counts.items()]
        uops, inner, _ = loops
        step = Signal()
        once = Cat(*(one for _, one in counts.values())).all()
        m.d.comb += [
            step.eq(self.go & self.active & self.valid),
            self.single.eq(empty | (brief & once)),
            self.last_next.eq(self.last),
        ]
        for name, depth in self.depth.items():
            self._offset(m, name, depth, step & micro_op_last & uops.last, inner.last)
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                self.valid.eq(~empty),
                tensor.eq(tensor_word),
                self.first.eq(tensor_word),
                slow.eq(slow_word),
                micro_op_last.eq(quick),
                self.last.eq(self.single),
                *trail.load(~empty & quick & once),
                self.uop.eq(fields.uop_bgn),
                begin.eq(fields.uop_bgn),
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
            ends = Cat(*lasts).all()
            m.d.comb += self.last_next.eq(ends & ~trail.here)
            with m.If(micro_op_last):
                m.d.sync += self.uop.eq(Mux(uops.last, begin, self.uop + 1))
            trail.step(m, self, ends)
        trail.walk(m, self)
        return m

    def _reader(self, m: Module, opcode: Opcode) -> StageReader:
        """Reads the word that is about to come to the port's end, as that of an instruction."""
        return StageReader(m, self.geometry.config, opcode, self.port.words[-2])

    def _steps(self, m: Module) -> list[Signal]:
        """Of the port's word: whether its micro-ops read an accumulator first; are one step; are one, and none trails
        them; and wait.
        """
        advance = self.port.advance[-1]
        tensor, quick, brief, slow = (Signal(name=name) for name in _STEPS)
        for opcode in self.opcodes:
            reader = self._reader(m, opcode)
            row = TABLE[opcode]
            others = [index for index in row.indices if index.memory is MemoryType.ACC and not index.written]
            first = [each.read.on(reader) for each in others]
            steps = row.steps.on(reader)
            runs = reader.view.opcode == opcode
            m.d.comb += self.runs[opcode].eq(reader.registered(f"runs_{opcode.name.lower()}", runs, advance))
            with m.If(runs):
                m.d.comb += [
                    tensor.eq(Cat(*first).any() if first else 0),
                    quick.eq(steps == 1),
                    brief.eq(0 if trailing_steps(self.geometry.config, opcode) else steps == 1),
                    slow.eq(steps != 1 + (first[0] if first else 0)),
                ]
        found = zip(_STEPS, (tensor, quick, brief, slow), strict=True)
        return [self._reader(m, Opcode.GEMM).registered(name, value, advance) for name, value in found]

    def _trailing(self) -> "_Trail":
        """The steps that come after an instruction's own, of those that have any."""
        lengths = {opcode: trailing_steps(self.geometry.config, opcode) for opcode in self.opcodes}
        return _Trail([(self.runs[opcode], length) for opcode, length in lengths.items() if length])

    def _decode(self, m: Module) -> tuple[dict[str, tuple[Signal, Signal]], Signal]:
        """Of the port's word: passes of each loop, the innermost first, and whether it is one; whether there is none.

        That, and whether it overruns, is found out a stage before.
        """
        # All instructions have the fields of their loops in the same places.
        reader = self._reader(m, Opcode.GEMM)
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

    def _offset(self, m: Module, name: str, depth: int, advance: Value, inner_last: Value) -> None:
        """What the loops add to one operand's index."""
        bits = log2(depth) + 1
        factor_out, factor_in = Signal(bits, name=f"{name}_out"), Signal(bits, name=f"{name}_in")
        row = Signal(bits, name=f"{name}_row")  # the offset at the beginning of the inner loop
        now = self.offsets[name]
        sums = [
            _up_to(m, depth, row + factor_out, f"{name}_next_row"),
            _up_to(m, depth, now + factor_in, f"{name}_next"),
        ]
        with m.If(self.start):
            for which, factor in enumerate((factor_out, factor_in)):
                m.d.sync += factor.eq(self._factor(name, which))
            m.d.sync += Cat(now, row).eq(0)
        with m.Elif(advance):
            m.d.sync += now.eq(Mux(inner_last, *sums))
            with m.If(inner_last):
                m.d.sync += row.eq(sums[0])

    def _factor(self, name: str, which: int) -> Value:
        """What the outer or the inner loop of the port's word adds to an index of that name."""
        config, word = self.geometry.config, self.port.word
        fields: dict[tuple[int, int], list[Value]] = {}  # from bit to bit: who has it there
        for opcode in self.opcodes:
            for operand in operands_of(opcode):
                if operand.index == name:
                    place = placements(config, opcode)[operand.factor_fields[which]]
                    fields.setdefault((place.lsb, place.lsb + place.width), []).append(self.runs[opcode])
        found: Value | None = None
        for (start, end), runs in fields.items():
            bits = word[start:end]
            found = bits if found is None else Mux(Cat(*runs).any(), bits, found)
        assert found is not None, f"no instruction has an index {name}"
        return found


class _Trail:
    """Trailing steps: of the port's word, whether any `follows`; of the instruction under way, whether it has them.

    Without an instruction that has some, all of it is constant.
    """

    def __init__(self, lengths: list[tuple[Signal, int]]) -> None:
        self.lengths = lengths
        self.follows: Value = Cat(*(runs for runs, _ in lengths)).any() if lengths else Const(0, 1)
        most = max((length for _, length in lengths), default=0)
        self.here: Value = Signal(name="trails") if lengths else Const(0, 1)
        self.closes = Signal(name="closes")  # the step is the last that is valid
        self.left = Signal(range(most + 1), name="trailing_left")

    def load(self, closes: Value) -> list[Any]:
        """An instruction begins; whether it has one valid step."""
        if not self.lengths:
            return []
        length: Value = Const(0)
        for runs, steps in self.lengths:
            length = Mux(runs, steps, length)
        return [self.here.eq(self.follows), self.closes.eq(closes & self.follows), self.left.eq(length)]

    def step(self, m: Module, sequencer: Sequencer, ends: Value) -> None:
        """A valid step; whether the next one is the last of them."""
        if self.lengths:
            m.d.sync += self.closes.eq(ends & self.here)
            with m.If(self.closes):
                m.d.sync += sequencer.valid.eq(0)
                m.d.comb += sequencer.last_next.eq(self.left == 1)

    def walk(self, m: Module, sequencer: Sequencer) -> None:
        """A trailing step, in the branch behind that of valid ones."""
        if self.lengths:
            with m.Elif(sequencer.go & sequencer.active):
                m.d.comb += sequencer.last_next.eq(self.left == 2)
                m.d.sync += [self.left.eq(self.left - 1), sequencer.last.eq(sequencer.last_next)]


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
