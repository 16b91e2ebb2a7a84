"""FIFOs: how many words they hold, and which ones, for ever.

Words are of two bits, for nothing that a FIFO does depends on what they are.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.rtl import fifo

WIDTH = 2


class Queue:
    """A FIFO that is written only when it has room, and how often it has been written and read."""

    def __init__(self, claim, rtl, depth, *, detour=False):
        self.claim, self.detour = claim, detour
        self.unit = unit = claim.about(rtl.Fifo(WIDTH, depth, detour=detour))
        claim.assume(~(unit.w_en & unit.full))
        self.written, self.read, self.reads = Signal(8), Signal(8), Signal()
        claim.m.d.comb += self.reads.eq(unit.r_en & unit.r_valid)  # of an empty FIFO nothing is taken
        claim.m.d.sync += [self.written.eq(self.written + unit.w_en), self.read.eq(self.read + self.reads)]
        self.inside = (self.written - self.read)[:8]

    def levelled(self):
        """How many words are in it, and what it tells of that."""
        claim, unit = self.claim, self.unit
        claim.always("the level is the number of words", unit.level == self.inside)
        claim.always("there are never more words than places", unit.level <= unit.depth)
        claim.always("full tells that every place is taken", unit.full == (self.inside == unit.depth))
        if self.detour:
            there = claim.begun & claim.before(self.inside != self.reads)
            claim.always("a word is valid when it was there a cycle ago", ~claim.begun | (unit.r_valid == there))
            claim.always("and of none there is none", ~unit.r_valid | (self.inside != 0))
        else:
            claim.always("a word is valid while there is one", unit.r_valid == (self.inside != 0))
        if hasattr(unit, "ram"):
            self._divided()

    def _divided(self):
        """What of it is at the head, and what in the memory."""
        claim, unit = self.claim, self.unit
        claim.always("head and tail are places", (unit.head < unit.depth) & (unit.tail < unit.depth))
        self.stored = Signal(9)
        between = Signal(9)
        claim.m.d.comb += [
            between.eq(Mux(unit.tail > unit.head, unit.tail - unit.head, unit.tail + unit.depth - unit.head)),
            self.stored.eq(Mux(unit.behind, between, 0)),
        ]
        claim.always("words wait from the head on, as far as the tail", unit.behind | (unit.tail == unit.head))
        claim.always("all words are at the head or in the memory", unit.level == unit.r_valid + self.stored)
        most = Mux(unit.r_valid, unit.depth - 1, int(self.detour))
        claim.always("the memory is never full behind a head", self.stored <= most)

    def ordered(self):
        """The word that is written in any one place of the sequence is read in that place."""
        claim, unit = self.claim, self.unit
        place = claim.constant(8, "place")
        self.word, self.kept = Signal(WIDTH), Signal()
        with claim.m.If(unit.w_en & (self.written == place)):
            claim.m.d.sync += [self.word.eq(unit.w_data), self.kept.eq(1)]
        with claim.m.Elif(self.reads & (self.read == place)):
            claim.m.d.sync += self.kept.eq(0)
        self.before = (place - self.read)[:8]
        claim.always("a word is inside until it is read in its turn", self.kept == (self.before < self.inside))
        leaves = self.kept & (self.before == 0) & unit.r_valid
        claim.always("the word that came in a place leaves in it", ~leaves | (unit.r_data == self.word))
        if hasattr(unit, "ram"):
            self._stored(leaves)

    def _stored(self, leaves):
        """Where the words are until then."""
        claim, unit = self.claim, self.unit
        at_head, at_word = (unit.ram.memory.read_port(domain="comb") for _ in range(2))
        slot = Signal(9)
        claim.m.d.comb += [
            slot.eq(unit.head + self.before - unit.r_valid),
            at_head.addr.eq(unit.head),
            at_word.addr.eq(Mux(slot >= unit.depth, slot - unit.depth, slot)),
        ]
        claim.always("the word that comes next is shown", ~unit.behind | (unit.ram.r_data == at_head.data))
        claim.always("the word is where it was put", ~self.kept | leaves | (at_word.data == self.word))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 16])
@proved(
    fifo,
    ("self.level + self.w_en - (self.r_en", "self.level + (self.w_en & ~self.r_en) - (self.r_en"),
    ("(self.r_en & self.r_valid))", "self.r_en)"),
    ("self.level == self.depth)", "self.level == self.depth - 1)"),
    induction=1,
    depth=40,
)
def test_the_level_is_what_was_written_less_what_was_read(claim, rtl, depth):
    Queue(claim, rtl, depth).levelled()


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 16])
@proved(
    fifo,
    ("self.level + self.w_en - (self.r_en", "self.level + (self.w_en & ~self.r_en) - (self.r_en"),
    ("(self.r_en & self.r_valid))", "self.r_en)"),
    ("self.level == self.depth)", "self.level == self.depth - 1)"),
    ("behind if self.detour else behind | self.w_en", "behind | self.w_en if self.detour else behind"),
    induction=1,
    depth=40,
)
def test_the_level_counts_words_on_a_detour_which_are_there_a_cycle_later(claim, rtl, depth):
    Queue(claim, rtl, depth, detour=True).levelled()


@proved(
    fifo,
    (
        "with m.If(free):\n                m.d.sync += [self.r_valid.eq(self.w_en)",
        "with m.If(1):\n                m.d.sync += [self.r_valid.eq(self.w_en)",
    ),
    ("self.r_valid.eq(self.w_en), self.r_data", "self.r_valid.eq(self.r_valid | self.w_en), self.r_data"),
    induction=1,
)
def test_a_single_place_keeps_its_word_until_it_is_read(claim, rtl):
    queue = Queue(claim, rtl, 1)
    queue.levelled()
    queue.ordered()


def proved_in_order(claim, rtl, depth, *, detour=False):
    queue = Queue(claim, rtl, depth, detour=detour)
    queue.levelled()
    queue.ordered()


@pytest.mark.parametrize("depth", [2, 4, 16])
@proved(
    fifo,
    ("leaves.eq(free & behind)", "leaves.eq(behind)"),
    ("forward=True", "forward=False"),
    ("with m.If(enters):\n            m.d.sync += tail", "with m.If(leaves):\n            m.d.sync += tail"),
    induction=1,
)
def test_words_leave_in_the_order_in_which_they_came(claim, rtl, depth):
    proved_in_order(claim, rtl, depth)


@pytest.mark.parametrize("depth", [3, 5])
@proved(
    fifo,
    ("pointer == self.depth - 1", "pointer == self.depth"),
    ("self.w_en & (behind | ~free))", "self.w_en & ~free)"),
    ("Mux(behind, ram.r_data, self.w_data)", "Mux(self.w_en, self.w_data, ram.r_data)"),
    ("forward=True", "forward=False"),
    induction=1,
)
def test_words_keep_their_order_where_the_depth_is_no_power_of_two(claim, rtl, depth):
    proved_in_order(claim, rtl, depth)


@pytest.mark.parametrize("depth", [2, 3, 4])
@proved(
    fifo,
    ("leaves.eq(free & behind)", "leaves.eq(behind)"),
    ("self.w_en if self.detour else", "self.w_en & (behind | ~free) if self.detour else"),
    ("ram.r_data if self.detour else", "self.w_data if self.detour else"),
    ("forward=True", "forward=False"),
    induction=1,
)
def test_words_on_a_detour_keep_their_order(claim, rtl, depth):
    proved_in_order(claim, rtl, depth, detour=True)


@proved(
    fifo,
    ("self.w_en if self.detour else", "self.w_en & (behind | ~free) if self.detour else"),
    ("ram.r_data if self.detour else", "self.w_data if self.detour else"),
    ("behind if self.detour else behind | self.w_en", "behind | self.w_en if self.detour else behind"),
    induction=1,
)
def test_a_single_place_on_a_detour_keeps_its_word(claim, rtl):
    proved_in_order(claim, rtl, 1, detour=True)
