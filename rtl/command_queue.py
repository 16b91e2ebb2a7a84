"""The command queue of a unit and the pipeline that decodes its commands."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.configs.memory import DECODE_STAGES
from lathe.rtl.fifo import Fifo
from lathe.rtl.stall import CommandPort
from lathe.rtl.up_down_counter import UpDownCounter


class CommandQueue(Elaboratable):
    """Passes commands, written with `w_en` and `word`, to the port in order; it holds at most `depth`.

    The head of the queue is decoded in `DECODE_STAGES` stages of one cycle each, without bubbles: the port's `words`
    are the queue's head and the output of each stage, and `advance` says which stages accept their input, so that
    decoded values move along. Commands in the stages count as waiting: `full` means that `depth` commands wait, `empty`
    that none does, and `settled` that the unit sees the oldest one that waits, if any does.
    """

    def __init__(self, depth: int, port: CommandPort) -> None:
        self.depth, self.port = depth, port
        self.fifo = Fifo(INSTRUCTION_BITS, depth, detour=True)
        self.w_en = Signal()
        self.word = Signal(INSTRUCTION_BITS)
        self.full = Signal()
        self.empty = Signal()
        self.settled = Signal()
        self.waiting = Signal(range(depth + 1))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        port = self.port
        m.submodules.fifo = fifo = self.fifo
        waiting = UpDownCounter(self.depth, "waiting")
        # Skid buffer for a word that the first stage cannot accept, so that the FIFO's read enable is known early.
        aside = Signal()
        kept = Signal(INSTRUCTION_BITS, reset_less=True)
        valid = [aside | fifo.r_valid, *(Signal(name=f"valid{stage}") for stage in range(1, DECODE_STAGES + 1))]
        m.d.comb += [
            fifo.w_en.eq(self.w_en),
            fifo.w_data.eq(self.word),
            fifo.r_en.eq(~aside),
            port.words[0].eq(Mux(aside, kept, fifo.r_data)),
            port.valid.eq(valid[-1]),
            self.full.eq(waiting.full),
            self.waiting.eq(waiting.count),
            self.empty.eq(self.waiting == 0),
            self.settled.eq(self.empty | port.valid),
        ]
        m.d.sync += aside.eq(valid[0] & ~port.advance[0])
        with m.If(~aside):
            m.d.sync += kept.eq(fifo.r_data)
        for stage in range(DECODE_STAGES):
            # A stage advances when it or a later one is empty or becomes so; `take` arrives late, and has a short path.
            m.d.comb += port.advance[stage].eq(port.take | ~Cat(*valid[stage + 1 :]).all())
            with m.If(port.advance[stage]):
                m.d.sync += [valid[stage + 1].eq(valid[stage]), port.words[stage + 1].eq(port.words[stage])]
        waiting.drive(m, self.w_en, port.take)
        return m
