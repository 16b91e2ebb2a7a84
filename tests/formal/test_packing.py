"""Store's packing: which byte of out is in which byte of which beat, and which bursts enter the write channel.

Burst requests are unconstrained, but assumed to behave as `test_requests.py` proves. The decoder, which
`test_decoder.py` covers, the channel and the stream guard are unconstrained, too.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved
from transfers import is_legal

from lathe.configs import load_config
from lathe.configs.memory import PACK
from lathe.rtl import store
from lathe.rtl.derived_widths import Geometry


class Packed:
    """The progress of the current store and of its current burst, in bytes."""

    def __init__(self, claim, rtl, bus_bits):
        self.claim = claim
        config = load_config("tiny").with_(**{"memory.bus_bits": bus_bits, "memory.burst_beats": 4})
        self.geometry = geometry = Geometry(config)
        self.fifo_beats = config.timing.dma_fifo_beats
        self.unit = unit = claim.about(rtl.Store(geometry))
        self.channel, self.command = unit.channel, unit.command
        self.requests, self.decoder = claim.part(unit, "requests"), claim.part(unit, "decoder")
        for part in (self.requests, self.decoder, self.channel, unit.guard):
            claim.leave_open(part)
        self.inside = claim.inside(unit)
        transfer = self.decoder.transfer
        claim.assume(~self.command.take | is_legal(transfer))
        # Progress of the current store: complete chains, bytes of the next chain and of the block; start of that chain.
        self.here = Signal(name="here")
        self.now = Signal(transfer.shape(), name="now")
        self.chain, self.done = Signal(16, name="done_chains"), Signal.like(transfer.chain_bytes, name="done_bytes")
        self.written = Signal.like(unit.out_address, name="done_block")
        self.row = Signal.like(transfer.address, name="row")
        # The current burst, if any: its address, its end within its chain, whether it is the store's last, its beats.
        self.begun, self.begin = Signal(name="burst_begun"), Signal.like(transfer.address, name="burst_begin")
        self.until, self.last = Signal.like(self.done, name="burst_until"), Signal(name="burst_last")
        self.beats = Signal(9, name="burst_beats")
        self.packed = Signal(9, name="burst_packed")
        self._ask()
        self._follow()
        self._send()

    def _ask(self):
        """Assume the next request: it starts at the end of the current burst, if any, else of the previous burst."""
        claim, m, requests, now, bus = self.claim, self.claim.m, self.requests, self.now, self.geometry.bus_bytes
        shift = bus.bit_length() - 1
        self.shift = shift
        whole = self.begun & (self.until == now.chain_bytes)  # the current burst ends its chain
        from_chain, from_byte, from_row = Signal(16), Signal.like(self.done), Signal.like(self.row)
        m.d.comb += [
            from_chain.eq(self.chain + whole),
            from_byte.eq(Mux(self.begun, Mux(whole, 0, self.until), self.done)),
            from_row.eq(Mux(whole, self.row + now.stride_bytes, self.row)),
        ]
        self.none = Signal(name="none_to_come")
        m.d.comb += self.none.eq(~self.here | (from_chain == now.chains))
        size, rest = Signal.like(self.done, name="asked_size"), Signal.like(self.done, name="asked_rest")
        m.d.comb += [size.eq(requests.end - requests.address), rest.eq(now.chain_bytes - from_byte)]
        shown = requests.valid
        claim.assume(~shown | ~self.none)
        claim.assume(~shown | (requests.address == (from_row + from_byte)[: len(requests.address)]))
        claim.assume(
            ~shown | ((size != 0) & (size <= rest) & (requests.end == (requests.address + size)[: len(requests.end)]))
        )
        claim.assume(~shown | (size == rest) | (requests.end[:shift] == 0))
        claim.assume(~shown | (requests.beats == ((requests.address[:shift] + size + bus - 1) >> shift)))
        claim.assume(~shown | (requests.last == ((size == rest) & (from_chain + 1 == now.chains))))
        self.until_next = Signal.like(self.done)
        m.d.comb += self.until_next.eq(from_byte + size)

    def _follow(self):
        m, unit, now, bus, requests = self.claim.m, self.unit, self.now, self.geometry.bus_bytes, self.requests
        self.at, self.size = Signal(8, name="at"), Signal.like(self.done, name="size")
        rest, room = Signal.like(self.done), Signal(8)
        self.steps, self.begins = Signal(name="steps"), Signal(name="begins")
        self.ends_burst, self.ends = Signal(name="ends_burst"), Signal(name="ends")
        m.d.comb += [
            self.at.eq((self.row + self.done) % bus),
            rest.eq(now.chain_bytes - self.done),
            room.eq(bus - self.at),
            self.size.eq(Mux(rest < room, rest, room)),
            self.steps.eq(self.here & ~unit.stop & (self.begun | (requests.valid & ~self.channel.crowded))),
            self.begins.eq(self.steps & ~self.begun),
        ]
        until, ends_chain = Signal.like(self.done), Signal()
        last = Mux(self.begun, self.last, requests.last)
        m.d.comb += [
            until.eq(Mux(self.begun, self.until, self.until_next)),
            self.ends_burst.eq(self.steps & (self.done + self.size == until)),
            ends_chain.eq(self.steps & (self.done + self.size == now.chain_bytes)),
            self.ends.eq(Mux(now.chains == 0, self.here & ~unit.stop, ends_chain & (self.chain + 1 == now.chains))),
        ]
        self.last_is_last = ~self.ends_burst | (last == self.ends)
        self.address, self.index, self.count = Signal.like(self.begin), Signal(9), Signal(9)
        m.d.comb += [
            self.address.eq(Mux(self.begun, self.begin, requests.address)),
            self.index.eq(Mux(self.begun, self.packed, 0)),
            self.count.eq(Mux(self.begun, self.beats, requests.beats)),
        ]
        with m.If(self.steps):
            m.d.sync += [
                self.begun.eq(~self.ends_burst),
                self.begin.eq(self.address),
                self.until.eq(until),
                self.last.eq(last),
                self.beats.eq(self.count),
                self.packed.eq(self.index + 1),
                self.written.eq(self.written + self.size),
                self.done.eq(Mux(ends_chain, 0, self.done + self.size)),
                self.chain.eq(self.chain + ends_chain),
            ]
            with m.If(ends_chain):
                m.d.sync += self.row.eq(self.row + now.stride_bytes)
        with m.If(self.command.take):
            transfer = self.decoder.transfer
            m.d.sync += [self.here.eq(1), self.now.eq(transfer), self.row.eq(transfer.address)]
            m.d.sync += [counter.eq(0) for counter in (self.chain, self.done, self.written)]
        with m.Elif(self.ends):
            m.d.sync += self.here.eq(0)

    def _send(self):
        """Count the reserved entries of the FIFO, for all unsent beats of the started bursts, and the occupied ones."""
        claim, m, channel, requests = self.claim, self.claim.m, self.channel, self.requests
        self.reserved, self.inside_fifo = Signal(9, name="reserved"), Signal(9, name="inside_fifo")
        m.d.sync += [
            self.reserved.eq(self.reserved + Mux(self.begins, requests.beats, 0) - channel.sent),
            self.inside_fifo.eq(self.inside_fifo + channel.w_en - channel.sent),
        ]
        claim.assume(~requests.valid | (self.reserved + requests.beats <= self.fifo_beats))
        claim.assume(~channel.sent | (self.inside_fifo != 0))
        self.way = [self.steps]
        for stage in range(PACK - 1):
            self.way.append(claim.register(1, f"way{stage}", self.way[-1]))

    def check_registers(self):
        """Assert the contents of store's registers."""
        always, unit, inside, now, here = self.claim.always, self.unit, self.inside, self.now, self.here
        reads = here & (now.chains != 0)
        bus = self.geometry.bus_bytes
        always("the current store is legal", ~here | is_legal(now))
        always("one is packed while it is here", inside["packing"] == here)
        always("whether it is nothing", ~here | (inside["nothing"] == (now.chains == 0)))
        always("chains are left", ~reads | (self.chain < now.chains))
        always("no progress of one without chains", ~here | reads | ((self.chain == 0) & ~self.begun))
        always("bytes of a chain are left", ~reads | (self.done < now.chain_bytes))
        always("no burst without a store", here | ~self.begun)
        always("whether a burst has begun", inside["begun"] == self.begun)
        left = self.until - self.done
        beats_left = (self.at + left + bus - 1) >> self.shift
        within = (self.done < self.until) & (self.until <= now.chain_bytes)
        always("the current burst is within its chain", ~self.begun | within)
        end = ((self.row + self.until) % bus == 0) | (self.until == now.chain_bytes)
        always("and ends with it, or with a word", ~self.begun | end)
        always("remaining beats of it", ~self.begun | (inside["left"] == beats_left))
        always("and packed ones", ~self.begun | (self.packed + beats_left == self.beats))
        always("a burst has few beats", ~self.begun | (self.beats <= self.fifo_beats))
        word = (self.row + self.done)[self.shift : len(self.begin)]
        always(
            "its beats are consecutive from its address on",
            ~self.begun | (word == (self.begin[self.shift :] + self.packed)[: len(word)]),
        )
        last = (self.until == now.chain_bytes) & (self.chain + 1 == now.chains)
        always("whether it is the last", ~self.begun | ((inside["last"] == last) & (self.last == last)))
        always("bytes of each chain", ~here | (inside["chain_bytes"] == now.chain_bytes))
        always("remaining bytes of a chain", ~reads | (inside["rest"] == now.chain_bytes - self.done))
        always("from a beat's byte on", ~reads | (unit.out_offset == self.at))
        always("where in a beat the chain begins", ~reads | (inside["row"] == self.row % bus))
        always("and the stride to the next one", ~here | (inside["stride"] == now.stride_bytes % bus))
        always(
            "bytes of out in their order",
            ~here | (unit.out_address == (now.sram + self.written)[: len(unit.out_address)]),
        )
        always(
            "where the burst is",
            ~self.begun | ((inside["packed_address"] == self.begin) & (inside["packed_beats"] == self.beats)),
        )
        coming = Signal(9)
        self.claim.m.d.comb += coming.eq(sum(self.way[1:]) + Mux(self.begun, inside["left"], 0))
        always("a beat is in the channel so much later", self.channel.w_en == self.way[-1])
        always("space is reserved for beats in the FIFO or to come", self.reserved == (self.inside_fifo + coming)[:9])
        always("it is never more than there is", self.reserved <= self.fifo_beats)
        always("nor are the beats in the FIFO", self.inside_fifo <= self.reserved)


@pytest.mark.slow
@pytest.mark.parametrize("bus_bits", [pytest.param(16, marks=pytest.mark.slow), 64])
@proved(
    store,
    ("ends.eq(rest <= room)", "ends.eq(rest < room)"),
    ("rest.eq(chain_bytes), row.eq(following)", "rest.eq(chain_bytes), row.eq(row)"),
    ("last_beat.eq(remaining == 1)", "last_beat.eq(requests.beats == 1)"),
    ("self.out_address + self.out_size)", "self.out_address + bus)"),
    ("(begun | (requests.valid & ~channel.crowded))", "(begun | requests.valid)"),
    ("left.eq(remaining - 1)", "left.eq(remaining)"),
    ("Mux(begun, last, requests.last)", "requests.last"),
    induction=2,
    depth=10,
)
def test_each_byte_of_a_chain_is_packed_once_at_its_position(claim, rtl, bus_bits):
    packs = Packed(claim, rtl, bus_bits)
    packs.check_registers()
    unit, always, activity = packs.unit, claim.always, packs.unit.activity
    always("a beat is packed as soon as possible", unit.out_en == packs.steps)
    bytes_of_beat = (unit.out_offset == packs.at) & (unit.out_size == packs.size)
    always("the bytes of the chain, and no others", ~packs.steps | bytes_of_beat)
    address = (packs.now.sram + packs.written)[: len(unit.out_address)]
    always("at consecutive addresses of out", ~packs.steps | (unit.out_address == address))
    word = (packs.row + packs.done)[packs.shift : len(packs.address)]
    where = (packs.address[packs.shift :] + packs.index)[: len(word)]
    always("the beat is at its position in the burst", ~packs.steps | (word == where))
    always("a burst is taken with its first beat", packs.requests.take == packs.begins)
    always("its last one is its last", ~packs.steps | (packs.ends_burst == (packs.index + 1 == packs.count)))
    always("the store's last burst is the last", packs.last_is_last)
    always("and with it the store is packed", activity.retire == packs.ends)
    always("it waits else", activity.wait == (packs.here & (packs.now.chains != 0) & ~packs.steps))
    always("a store starts when the previous one is packed", ~packs.command.take | ~packs.here | packs.ends)
    always("the guard checks each burst", unit.guard.burst == packs.begins)
    asked = (unit.guard.burst_address == packs.requests.address) & (unit.guard.burst_end == packs.requests.end)
    always("from its first byte to its last", ~packs.begins | asked)


@pytest.mark.slow
@proved(
    store,
    (
        "Const((1 << bus) - 1, bus) >> spare) << offset",
        "Const((1 << bus) - 1, bus) << offset) >> spare",
    ),
    ("channel.complete.eq(complete & ~hit)", "channel.complete.eq(complete)"),
    ("first[-1] & ~self.guard.hit", "first[-1] & ~hit"),
    ("delayed(m, PACK - 2, packed_address, packed_beats, reset=False)", "delayed(m, 0, packed_address, packed_beats)"),
    ("packed.eq(step & last_beat)", "packed.eq(begins)"),
    ("step & ~begun)", "step)"),
    induction=2,
    depth=10,
)
def test_bursts_are_in_the_channel_as_they_were_packed(claim, rtl):
    packs = Packed(claim, rtl, 64)
    packs.check_registers()
    channel, always = packs.channel, claim.always

    def arriving(value, name):
        """The value, delayed by the latency from packing a beat to its arrival in the channel."""
        for stage in range(PACK - 1):
            value = claim.register(value.shape(), f"{name}{stage}", value)
        return value

    always("a beat after as many cycles", channel.w_en == packs.way[-1])
    for byte in range(packs.geometry.bus_bytes):
        within = arriving(packs.steps & (packs.at <= byte) & (byte < packs.at + packs.size), f"within{byte}")
        always(f"byte {byte} is written when it is the chain's", ~channel.w_en | (channel.w_strb[byte] == within))
    always("its last is the burst's", ~channel.w_en | (channel.w_last == arriving(packs.ends_burst, "last")))
    always("its data are those of out", channel.w_data == packs.unit.out_data)
    hit = packs.unit.guard.hit
    whole = arriving(packs.ends_burst, "whole") & ~claim.register(1, "was_hit", hit)
    always("a burst is complete with its last beat, unless one hit the stream", channel.complete == whole)
    always("that is announced a cycle before", channel.coming == (claim.register(1, "packed", packs.ends_burst) & ~hit))
    address, beats = arriving(packs.address, "its_address"), arriving(packs.count, "its_beats")
    always("at its address", ~channel.complete | (channel.address == address))
    always("of as many beats", ~channel.complete | (channel.beats == beats))
    always("none is begun while the channel is crowded", ~packs.begins | ~channel.crowded)
    always("there is space for a beat when it comes", ~channel.w_en | (packs.inside_fifo != packs.fifo_beats))
