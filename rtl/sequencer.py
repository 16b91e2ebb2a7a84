"""The sequencer: the two loops and the micro-op counter of an instruction; issues one step per cycle."""

from typing import Any

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.isa.constraints import IDLE, STARTING
from lathe.isa.operands import extra_latency, operands_of
from lathe.isa.table import TABLE, MemoryType, Opcode, placements
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.instruction import StageReader, instruction_view, issued
from lathe.rtl.stall import CommandPort

OPERANDS = ("dst", "src", "wgt")
_STEPS = ("tensor_word", "quick_word", "brief_word", "slow_word")


class Sequencer(Elaboratable):
    """Issues the steps of an instruction.

    `start` takes the port's word; `active` from the next cycle on, with a step in each cycle of `go`, up to `last`. An
    instruction without iterations is one step that is not `valid`. `uop` is the index of the step's micro-op, and
    `offsets` are what the loops add to its dst, src and wgt; they saturate at the depth of the scratchpad. A micro-op
    has as many steps as the instruction's row says: optionally `first`, which reads an accumulator other than the one
    that is written; optionally one that waits for a result; and the one that `writes`. The trailing steps of an
    instruction, which are not `valid`, follow its micro-ops. `last_next`: the step after this one is the last, unless
    an instruction starts. Of the port's word, `runs`: which instruction it is; `single`: it has one step;
    `uop_overrun`: its micro-ops exceed the scratchpad uop.
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
        fields = instruction_view(self.geometry.config, Opcode.GEMM, port.word)  # loop fields; all have them here
        tensor, slow = Signal(), Signal()  # micro-ops have a `first` step, and one that waits
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
            m.d.sync += [self.first.eq(micro_op_last & tensor), micro_op_last.eq(again), self.last.eq(self.last_next)]
            # A loop advances when all inner ones have finished; in the last step, all are in their last iteration.
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
        """A reader of the word that is about to reach the port's end, as one of this opcode."""
        return StageReader(m, self.geometry.config, opcode, self.port.words[-2])

    def _steps(self, m: Module) -> list[Signal]:
        """Of the port's word: whether its micro-ops have a `first` step; have one step; have one, without trailing
        steps; and wait for a result.
        """
        advance = self.port.advance[-1]
        tensor, quick, brief, slow = (Signal(name=name) for name in _STEPS)
        for opcode in self.opcodes:
            reader = self._reader(m, opcode)
            row = TABLE[opcode]
            others = [index for index in row.indices if index.memory is MemoryType.ACC and not index.written]
            first = [each.read.evaluate(reader) for each in others]
            steps = row.issue_cycles.evaluate(reader)
            runs = reader.view.opcode == opcode
            m.d.comb += self.runs[opcode].eq(reader.registered(f"runs_{opcode.name.lower()}", runs, advance))
            with m.If(runs):
                m.d.comb += [
                    tensor.eq(Cat(*first).any() if first else 0),
                    quick.eq(steps == 1),
                    brief.eq(0 if extra_latency(self.geometry.config, opcode) else steps == 1),
                    slow.eq(steps != 1 + (first[0] if first else 0)),
                ]
        found = zip(_STEPS, (tensor, quick, brief, slow), strict=True)
        return [self._reader(m, Opcode.GEMM).registered(name, value, advance) for name, value in found]

    def _trailing(self) -> "_Trail":
        """The trailing steps of the instructions that have any."""
        lengths = {opcode: extra_latency(self.geometry.config, opcode) for opcode in self.opcodes}
        return _Trail([(self.runs[opcode], length) for opcode, length in lengths.items() if length])

    def _decode(self, m: Module) -> tuple[dict[str, tuple[Signal, Signal]], Signal]:
        """Of the port's word: iterations of each loop, innermost first, and whether that is one; whether it has none.

        These, and `uop_overrun`, are computed one decode stage ahead.
        """
        # All instructions have the fields of their loops at the same positions.
        reader = self._reader(m, Opcode.GEMM)
        (beyond,) = (rule for rule in STARTING if rule.opcode is Opcode.GEMM)
        advance = self.port.advance[-1]
        m.d.comb += self.uop_overrun.eq(reader.registered("uop_overrun", beyond.broken.evaluate(reader), advance))
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
        return counts, reader.registered("empty", IDLE.evaluate(reader), advance)

    def _offset(self, m: Module, name: str, depth: int, advance: Value, inner_last: Value) -> None:
        """Compute what the loops add to the index of one operand."""
        bits = log2(depth) + 1
        factor_out, factor_in = Signal(bits, name=f"{name}_out"), Signal(bits, name=f"{name}_in")
        row = Signal(bits, name=f"{name}_row")  # the offset at the start of the inner loop
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
        """The factor of the outer or the inner loop for an index of this name, from the port's word."""
        config, word = self.geometry.config, self.port.word
        fields: dict[tuple[int, int], list[Value]] = {}  # by bit range: the instructions that have it there
        for opcode in self.opcodes:
            for operand in operands_of(opcode):
                if operand.index == name:
                    bits = placements(config, opcode)[operand.factor_fields[which]]
                    fields.setdefault((bits.lsb, bits.lsb + bits.width), []).append(self.runs[opcode])
        factor: Value | None = None
        for (start, end), runs in fields.items():
            own = word[start:end]
            factor = own if factor is None else Mux(Cat(*runs).any(), own, factor)
        assert factor is not None, f"no instruction has an index {name}"
        return factor


class _Trail:
    """Trailing steps. `follows`: the port's word has some; `here`: the current instruction has some.

    All signals are constant on machines without such instructions.
    """

    def __init__(self, lengths: list[tuple[Signal, int]]) -> None:
        self.lengths = lengths
        self.follows: Value = Cat(*(runs for runs, _ in lengths)).any() if lengths else Const(0, 1)
        most = max((length for _, length in lengths), default=0)
        self.here: Value = Signal(name="trails") if lengths else Const(0, 1)
        self.closes = Signal(name="closes")  # the step is the last valid one
        self.left = Signal(range(most + 1), name="trailing_left")

    def load(self, closes: Value) -> list[Any]:
        """An instruction begins; `closes`: it has one valid step."""
        if not self.lengths:
            return []
        length: Value = Const(0)
        for runs, steps in self.lengths:
            length = Mux(runs, steps, length)
        return [self.here.eq(self.follows), self.closes.eq(closes & self.follows), self.left.eq(length)]

    def step(self, m: Module, sequencer: Sequencer, ends: Value) -> None:
        """A valid step; `ends`: the next step is the last valid one."""
        if self.lengths:
            m.d.sync += self.closes.eq(ends & self.here)
            with m.If(self.closes):
                m.d.sync += sequencer.valid.eq(0)
                m.d.comb += sequencer.last_next.eq(self.left == 1)

    def walk(self, m: Module, sequencer: Sequencer) -> None:
        """A trailing step, in the branch after that of valid ones."""
        if self.lengths:
            with m.Elif(sequencer.go & sequencer.active):
                m.d.comb += sequencer.last_next.eq(self.left == 2)
                m.d.sync += [self.left.eq(self.left - 1), sequencer.last.eq(sequencer.last_next)]


class _Countdown:
    """Counts a loop's iterations: `last`, a register, marks the last one, after which counting starts over."""

    def __init__(self, name: str, bits: int) -> None:
        self.all, self.left = Signal(bits, name=f"{name}_all"), Signal(bits, name=f"{name}_left")
        self.single = Signal(name=f"{name}_single")
        self.last = Signal(name=f"{name}_last")

    @property
    def following(self) -> Value:
        """Whether the next iteration is the last."""
        return Mux(self.last, self.single, self.left == 2)

    def load(self, count: Value, one: Value) -> list[Any]:
        """Set the number of iterations; `one`: it is 1."""
        return [self.all.eq(count), self.left.eq(count), self.single.eq(one), self.last.eq(one)]

    def step(self) -> list[Any]:
        """End an iteration."""
        return [self.left.eq(Mux(self.last, self.all, self.left - 1)), self.last.eq(self.following)]


def _up_to(m: Module, depth: int, value: Value, name: str) -> Signal:
    """min(value, depth), for a depth that is a power of two."""
    saturated = Signal(log2(depth) + 1, name=name)
    beyond = value[log2(depth) :].any()
    m.d.comb += saturated.eq(Cat(Mux(beyond, 0, value[: log2(depth)])[: log2(depth)], beyond))
    return saturated
