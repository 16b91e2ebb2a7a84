"""The write channel: each burst once, in order, its address first, then as many beats as the address says.

Bursts are distinguished only by their number, and beats by their position in the burst. So the proofs fix an arbitrary
number and position, with the contents of that burst and beat; what holds for these holds for all.
"""

import pytest
from amaranth import Cat, Const, Mux, Signal
from claims import proved
from fifo_words import Words

from lathe.configs import load_config
from lathe.configs.memory import PACK
from lathe.rtl import write_channel
from lathe.rtl.derived_widths import Geometry

NUMBER = 6  # bits of burst numbers; enough for all bursts in progress


class Sent:
    """A channel that receives bursts as store packs them.

    A burst's first beat is packed only while the channel is not `crowded`, and a beat arrives in the channel `PACK - 1`
    cycles later. From the cycle after `hits` on, no burst is completed.
    """

    def __init__(self, claim, rtl, bus_bits, beats, latency):
        self.claim, self.beats = claim, beats
        changes = {"memory.bus_bits": bus_bits, "timing.dma_fifo_beats": beats, "timing.response_latency": latency}
        changes["memory.burst_beats"] = min(beats, 4)
        self.geometry = geometry = Geometry(load_config("tiny").with_(**changes))
        self.most = geometry.data_burst
        self.unit = claim.about(rtl.WriteChannel(geometry))
        self.data = Words(claim, claim.part(self.unit, "data"), "data")
        self.addresses = Words(claim, claim.part(self.unit, "addresses"), "addresses")
        self.inside = claim.inside(self.unit)
        self.number, self.its_position = claim.constant(NUMBER, "number"), claim.constant(4, "its_position")
        self.its_beats = claim.constant(4, "its_beats")
        self.its_address = claim.constant(len(self.unit.address), "its_address")
        self.its_data = claim.constant(bus_bits + geometry.bus_bytes, "its_data")
        claim.assume((self.its_beats != 0) & (self.its_beats <= self.most) & (self.its_position < self.its_beats))
        self._pack()
        self._leave()

    def _pack(self):
        """Assume the bursts that are packed and arrive in the channel."""
        claim, unit, m = self.claim, self.unit, self.claim.m
        self.pack, wants = claim.input(1, "pack"), claim.input(range(self.most + 1), "wants")
        self.hits = claim.input(1, "hits")
        self.dropped = Signal(name="dropped")
        m.d.sync += self.dropped.eq(self.dropped | self.hits)
        # The burst that is being packed: its number, packed beats, and all beats.
        self.packing, self.packed, self.wanted = Signal(NUMBER), Signal(4), Signal(4)
        now, last = Signal(4), Signal()
        m.d.comb += [
            now.eq(Mux(self.packed == 0, wants, self.wanted)),
            last.eq(self.packed + 1 == now),
        ]
        claim.assume((wants != 0) & (wants <= self.most))
        claim.assume((self.packing != self.number) | (now == self.its_beats))
        claim.assume(~self.pack | (self.packed != 0) | ~unit.crowded)
        with m.If(self.pack):
            m.d.sync += [
                self.packed.eq(Mux(last, 0, self.packed + 1)),
                self.wanted.eq(now),
                self.packing.eq(self.packing + last),
            ]
        # Per stage: whether there is a beat, its position, its burst's number, whether it is the last, and of how many.
        way = [(self.pack, self.packed, self.packing, last, now)]
        for stage in range(PACK - 1):
            later = tuple(Signal.like(value, name=f"way{stage}_{index}") for index, value in enumerate(way[-1]))
            m.d.sync += [new.eq(old) for new, old in zip(later, way[-1], strict=True)]
            way.append(later)
        self.way = way
        enters, position, number, last, beats = way[-1]
        self.whole = Signal()
        m.d.comb += self.whole.eq(enters & last & ~self.dropped)
        claim.assume(unit.w_en == enters)
        claim.assume(~enters | (unit.w_last == last))
        claim.assume(unit.complete == self.whole)
        claim.assume(~self.whole | (unit.beats == beats))
        claim.assume(~self.whole | (number != self.number) | (unit.address == self.its_address))
        its = enters & (number == self.number) & (position == self.its_position)
        claim.assume(~its | (Cat(unit.w_data, unit.w_strb) == self.its_data))
        # The FIFO has space for a beat when it arrives, as `test_packing.py` proves.
        claim.assume(~unit.w_en | (self.data.count != self.beats))
        claim.assume(unit.coming == (way[-2][0] & way[-2][3] & ~self.dropped & ~self.hits))
        self.completed = Signal(NUMBER)
        m.d.sync += self.completed.eq(self.completed + self.whole)

    def _leave(self):
        """Count accepted addresses, sent beats, and answered bursts."""
        claim, unit, m = self.claim, self.unit, self.claim.m
        self.accepted, self.sent, self.answered, self.position = (
            Signal(NUMBER),
            Signal(NUMBER),
            Signal(NUMBER),
            Signal(4),
        )
        self.accepts, self.sends = Signal(), Signal()
        m.d.comb += [
            self.accepts.eq(unit.aw_valid & unit.aw_ready),
            self.sends.eq(unit.bus_w_valid & unit.bus_w_ready),
        ]
        ends = self.sends & unit.bus_w_last
        m.d.sync += [
            self.accepted.eq(self.accepted + self.accepts),
            self.sent.eq(self.sent + ends),
            self.answered.eq(self.answered + unit.b_valid),
        ]
        with m.If(self.sends):
            m.d.sync += self.position.eq(Mux(unit.bus_w_last, 0, self.position + 1))
        # A burst gets a response only after all of its beats were sent.
        claim.assume(~unit.b_valid | (self.answered != self.sent))
        self.open = (self.accepted - self.sent)[:NUMBER]
        self.unanswered = (self.accepted - self.answered)[:NUMBER]

    def check_registers(self):
        """Assert the contents of the FIFOs and of the stages before them."""
        always, inside = self.claim.always, self.inside
        self.data.check()
        self.addresses.check()
        number, position = self.sent, self.position
        for at in range(self.beats):
            word, there = self.data.words[at], self.data.there(at)
            last = word[-1]
            self._is_its(f"beat {at} in the FIFO", there, number, position, last)
            its = there & (number == self.number) & (position == self.its_position)
            always(f"beat {at} in the FIFO is as it came", ~its | (word[:-1] == self.its_data))
            number, position = self._next(there, number, position, last, f"in{at}")
        following = (number, position)
        now = number  # of the next beat to arrive
        for stage in reversed(range(1, PACK)):
            enters, position, number, last, beats = self.way[stage]
            follows = (number == following[0]) & (position == following[1])
            always(f"the beat in stage {stage} comes next", ~enters | follows)
            self._is_its(f"the beat in stage {stage}", enters, number, position, last)
            ends = ~enters | (last == (position + 1 == beats))
            always(f"the burst in stage {stage} ends with its last beat", ends)
            always(
                f"of beats as announced in stage {stage}", ~enters | (number != self.number) | (beats == self.its_beats)
            )
            following = self._next(enters, following[0], following[1], last, f"way{stage}")
        always("what is packed comes next", (self.packing == following[0]) & (self.packed == following[1]))
        always("and has beats left", (self.packed == 0) | ((self.packed < self.wanted) & (self.wanted <= self.most)))
        # Bursts whose address has arrived.
        waiting = (self.completed - self.accepted)[:NUMBER]
        always("addresses are those of bursts that are complete", self.addresses.count == waiting)
        for at, word in enumerate(self.addresses.words):
            its = self.addresses.there(at) & ((self.accepted + at)[:NUMBER] == self.number)
            always(f"address {at} is as it came", ~its | (word == self.its_word()))
        always("every burst that came is complete, unless one was dropped", self.dropped | (self.completed == now))
        begun = Signal(NUMBER)
        self.claim.m.d.comb += begun.eq(now - self.sent)
        always("and none that did not come", (self.completed - self.sent)[:NUMBER] <= begun)
        always("of bursts that came a beat is left", begun <= self.data.count)
        always("none is open that is not complete", self.open <= (self.completed - self.sent)[:NUMBER])
        always("bursts that are open", inside["open_bursts"] == self.open)
        always("bursts without response", inside["unanswered"] == self.unanswered)
        always(
            "those that were sent and those that are open",
            self.unanswered == (self.sent - self.answered)[:NUMBER] + self.open,
        )
        coming = sum(stage[0] & stage[3] for stage in self.way[1:]) + (self.packed != 0)
        always("space for the addresses of bursts in packing", self.addresses.count + coming <= write_channel.ADDRESSES)

    def its_word(self):
        """The address and beats of the chosen burst, as in the FIFO."""
        shift = self.geometry.bus_bytes.bit_length() - 1
        return Cat((self.its_beats - 1)[:4], Const(0, 4 + shift), self.its_address[shift:])

    def _is_its(self, what, there, number, position, last):
        its = there & (number == self.number)
        self.claim.always(f"{what} is one of its burst", ~its | (position < self.its_beats))
        self.claim.always(f"{what} is the last, or not", ~its | (last == (position + 1 == self.its_beats)))

    def _next(self, there, number, position, last, name):
        """Number and position of the next beat."""
        following = Signal(NUMBER, name=f"{name}_number"), Signal(4, name=f"{name}_place")
        self.claim.m.d.comb += [
            following[0].eq(number + (there & last)),
            following[1].eq(Mux(there, Mux(last, 0, position + 1), position)),
        ]
        return following


def sent_in_order(claim, rtl, bus_bits, beats, latency):
    found = Sent(claim, rtl, bus_bits, beats, latency)
    found.check_registers()
    unit, always = found.unit, claim.always
    most = 2 * (beats + latency) + 4
    unanswered = 1 << (most.bit_length() - 1)  # the greatest power of two up to it
    always("never more bursts without response than the limit", found.unanswered <= unanswered)
    waits = (found.accepted != found.completed) & (found.unanswered != unanswered)
    always("an address is valid as soon as its burst is complete", unit.aw_valid == waits)
    its = unit.aw_valid & (found.accepted == found.number)
    always("it is its burst's", ~its | (Cat(unit.aw_len, unit.aw_addr) == found.its_word()))
    always("data are valid as soon as their address is accepted", unit.bus_w_valid == (found.open != 0))
    its = unit.bus_w_valid & (found.sent == found.number)
    always(
        "the last beat is the last of as many as its address says",
        ~its | (unit.bus_w_last == (found.position + 1 == found.its_beats)),
    )
    its = its & (found.position == found.its_position)
    always("a beat is what was packed", ~its | (Cat(unit.bus_w_data, unit.bus_w_strb) == found.its_data))
    always("sent marks each beat that leaves", unit.sent == found.sends)
    whole = (found.completed != found.answered) | unit.complete | unit.coming
    always("idle means that no burst is pending", unit.idle == ~whole)


@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "beats", "latency"), [(16, 2, 3), pytest.param(64, 3, 1, marks=pytest.mark.slow)])
@proved(
    write_channel,
    ("data.r_valid & (open_bursts != 0)", "data.r_valid"),
    ("accepted - (sent & self.bus_w_last)", "accepted - sent"),
    ("(self.beats - 1)[:8], (self.address >> shift) << shift", "(self.beats - 1)[:8], self.address >> shift"),
    ("(self.beats - 1)[:8]", "self.beats[:8]"),
    ("Cat(self.w_data, self.w_strb, self.w_last)", "Cat(self.w_data, self.w_strb, self.complete)"),
    ("data.r_en.eq(sent)", "data.r_en.eq(self.bus_w_ready)"),
    ("addresses.w_en.eq(self.complete)", "addresses.w_en.eq(self.w_en & self.w_last)"),
    ("unanswered + accepted - self.b_valid", "unanswered + accepted - sent"),
    ("(unanswered == 0)", "(open_bursts == 0)"),
    ("& ~self.complete & ~self.coming)", "& ~self.complete)"),
    induction=1,
    depth=12,
)
def test_bursts_are_sent_once_and_in_order_after_their_addresses(claim, rtl, bus_bits, beats, latency):
    sent_in_order(claim, rtl, bus_bits, beats, latency)


@pytest.mark.nightly
@pytest.mark.slow
@proved(
    write_channel,
    ("addresses.r_valid & ~unanswered[-1]", "addresses.r_valid"),
    ("addresses.r_en.eq(accepted)", "addresses.r_en.eq(self.aw_ready)"),
    induction=1,
    depth=18,
)
def test_addresses_wait_while_the_maximum_number_of_bursts_has_no_response(claim, rtl):
    sent_in_order(claim, rtl, 8, 2, 1)


@pytest.mark.slow
@proved(
    write_channel,
    ("addresses.level >= ADDRESSES - ON_THE_WAY", "addresses.level > ADDRESSES - ON_THE_WAY"),
    induction=1,
    depth=12,
)
def test_there_is_space_for_the_addresses_of_bursts_begun_before_the_channel_was_crowded(claim, rtl):
    sent_in_order(claim, rtl, 8, 7, 1)
