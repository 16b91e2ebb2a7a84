"""Reference model of the data-side steps of a load, for proofs of the data side, and of both sides together."""

from amaranth import Mux, Signal
from fifo_words import Words, kept_in_order
from transfers import is_legal

from lathe.configs import load_config
from lathe.rtl.derived_widths import Geometry


class Steps:
    """The transfers in progress, in order, and the progress of the first one step by step."""

    def __init__(self, claim, rtl, bus_bits, loads, pending):
        self.claim, self.pending = claim, pending
        self.geometry = geometry = Geometry(load_config("tiny").with_(**{"memory.bus_bits": bus_bits}))
        self.memories = geometry.loaded_by(loads)
        self.unit = unit = claim.about(rtl.DataSide(geometry, self.memories, pending))
        self.inside = claim.inside(unit)
        claim.assume(~unit.start | ~unit.full)
        claim.assume(~unit.start | is_legal(unit.transfer))
        # The transfers, the current one first.
        self.transfers = [Signal(unit.transfer.shape(), name=f"transfer{index}") for index in range(pending)]
        self.count = Signal(range(pending + 2), name="transfers")
        self.now = self.transfers[0]
        # Its progress: complete chains, bytes of the next chain, padding vectors before that chain, bytes of the block.
        self.chain = Signal(16, name="done_chains")
        self.done = Signal.like(self.now.chain_bytes, name="done_bytes")
        self.padded = Signal.like(self.now.lead, name="done_pads")
        self.written = Signal.like(unit.write.address, name="done_block")
        self.row = Signal.like(self.now.address, name="row")  # start of the next chain in DRAM
        self._follow()

    def _follow(self):
        m, unit, now, bus = self.claim.m, self.unit, self.now, self.geometry.bus_bytes
        element = Signal(16, name="element")
        with m.Switch(now.memory):
            for kind in self.memories:
                with m.Case(kind):
                    m.d.comb += element.eq(1 << self.geometry.shift(kind))
        self.due = Signal.like(now.lead, name="due")  # padding vectors before the next chain, or after the last
        self.complete = Signal(name="complete")
        m.d.comb += [
            self.complete.eq(self.chain == now.chains),
            self.due.eq(Mux(self.chain == 0, now.lead, Mux(self.complete, now.tail, now.gap))),
        ]
        self.pads, self.reads = Signal(name="pads_now"), Signal(name="reads_now")
        self.at, self.size = Signal(16, name="at"), Signal(16, name="size_now")
        there = self.count != 0
        room = Signal(16, name="room_now")
        m.d.comb += [
            self.pads.eq(there & ~now.nothing & (self.padded != self.due)),
            self.reads.eq(there & ~now.nothing & (self.padded == self.due) & ~self.complete),
            self.at.eq((self.row + self.done) % bus),
            room.eq(bus - self.at),
            self.size.eq(Mux(now.chain_bytes - self.done < room, now.chain_bytes - self.done, room)),
        ]
        self.steps = Signal(name="steps")
        m.d.comb += self.steps.eq(there & ~unit.stop & ~unit.hold & (~self.reads | unit.beat_valid))
        ends_chain = self.reads & (self.done + self.size == now.chain_bytes)
        # After the last chain, only the trailing padding remains.
        after, pads_after = Signal(17, name="chains_after"), Signal.like(self.due)
        m.d.comb += [
            after.eq(self.chain + ends_chain),
            pads_after.eq(Mux(ends_chain, 0, self.padded + self.pads)),
        ]
        # A transfer without chains has only leading padding.
        end = Mux(now.chains == 0, now.lead, now.tail)
        self.ends = Signal(name="ends")
        m.d.comb += self.ends.eq(self.steps & (now.nothing | ((after == now.chains) & (pads_after == end))))
        counters = (self.chain, self.done, self.padded, self.written)
        with m.If(self.ends):
            m.d.sync += [counter.eq(0) for counter in counters]
        with m.Elif(self.steps):
            m.d.sync += [
                self.chain.eq(after),
                self.padded.eq(pads_after),
                self.written.eq(self.written + Mux(self.pads, element, self.size)),
            ]
            with m.If(self.reads):
                m.d.sync += self.done.eq(Mux(ends_chain, 0, self.done + self.size))
            with m.If(ends_chain):
                m.d.sync += self.row.eq(self.row + now.stride_bytes)
        words = [transfer.as_value() for transfer in self.transfers]
        stays = kept_in_order(self.claim, words, self.count, self.ends, unit.start, unit.transfer.as_value())
        with m.If(self.ends | ~there):
            following = Mux(stays == 0, unit.transfer.address, self.transfers[min(1, self.pending - 1)].address)
            m.d.sync += self.row.eq(following)

    def check_registers(self):
        """Assert the contents of the data side's registers."""
        always, unit, now, there = self.claim.always, self.unit, self.now, self.count != 0
        inside, bus, more = self.inside, self.geometry.bus_bytes, ~self.complete
        legal = [is_legal(transfer) | (self.count <= index) for index, transfer in enumerate(self.transfers)]
        always("all transfers are legal", sum(legal) == len(legal))
        always("no more transfers than it can have", self.count <= self.pending)
        always("they are counted", unit.count == self.count)
        always("full when it has as many as it can have", unit.full == (self.count == self.pending))
        always("there is a current one while there is any", inside["here"] == there)
        always("and it is the first one", ~there | (inside["now"] == now.as_value()))
        if self.pending > 1:
            waiting = Words(self.claim, self.claim.part(unit, "waiting"), "waiting")
            waiting.check()
            always("the others wait", waiting.count == Mux(there, self.count - 1, 0))
            for index in range(1, self.pending):
                same = waiting.words[index - 1] == self.transfers[index].as_value()
                always(f"transfer {index} waits in order", ~(self.count > index) | same)
        goes_on = there & ~now.nothing
        reads = goes_on & more
        always("chains are left, or padding", ~goes_on | (self.chain < now.chains) | (self.padded < self.due))
        always("never more chains than it has", ~goes_on | (self.chain <= now.chains))
        always("never more padding than is due", ~goes_on | (self.padded <= self.due))
        always("never more bytes than a chain has", ~reads | (self.done < now.chain_bytes))
        always("a chain comes after its padding", ~goes_on | (self.done == 0) | (self.padded == self.due))
        always("none after the last one", ~goes_on | more | (self.done == 0))
        begins = (self.chain == 0) & (self.done == 0) & (self.padded == 0) & (self.written == 0)
        always("no progress without a transfer, or of one that is nothing", goes_on | begins)
        always("remaining padding", ~goes_on | (inside["pads"] == self.due - self.padded))
        always("remaining chains", ~goes_on | (inside["chains"] == now.chains - self.chain))
        always("remaining bytes of a chain", ~reads | (inside["rest"] == now.chain_bytes - self.done))
        always("where in a beat they begin", ~reads | (inside["offset"] == self.at))
        always("where in a beat the chain begins", ~reads | (inside["first_offset"] == self.row % bus))
        always("whether a beat ends the chain", ~reads | (inside["chain_ends"] == (inside["rest"] <= bus - self.at)))
        always("where they go", ~there | (inside["address"] == (now.sram + self.written)[: len(unit.write.address)]))
