"""FIFOs: how many words they hold, and which ones, for all time.

Words have two bits: control does not depend on their values.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.rtl import fifo

WIDTH = 2


class Queue:
    """A FIFO that is not written while it is full, and the numbers of its writes and reads."""

    def __init__(self, claim, rtl, depth, *, detour=False):
        self.claim, self.detour = claim, detour
        self.unit = unit = claim.about(rtl.Fifo(WIDTH, depth, detour=detour))
        claim.assume(~(unit.w_en & unit.full))
        self.written, self.read, self.reads = Signal(8), Signal(8), Signal()
        claim.m.d.comb += self.reads.eq(unit.r_en & unit.r_valid)  # reads of an empty FIFO have no effect
        claim.m.d.sync += [self.written.eq(self.written + unit.w_en), self.read.eq(self.read + self.reads)]
        self.inside = (self.written - self.read)[:8]

    def check_level(self):
        """Assert the number of words, and level, full and valid."""
        claim, unit = self.claim, self.unit
        claim.always("the level is the number of words", unit.level == self.inside)
        claim.always("there are never more words than the depth", unit.level <= unit.depth)
        claim.always("full means that there are as many words as the depth", unit.full == (self.inside == unit.depth))
        if self.detour:
            there = claim.begun & claim.before(self.inside != self.reads)
            claim.always("a word is valid when it was there a cycle ago", ~claim.begun | (unit.r_valid == there))
            claim.always("an empty FIFO is not valid", ~unit.r_valid | (self.inside != 0))
        else:
            claim.always("a word is valid while there is one", unit.r_valid == (self.inside != 0))
        if hasattr(unit, "ram"):
            self._divided()

    def _divided(self):
        """Assert how many words are in the memory, and that all others are in the output register."""
        claim, unit = self.claim, self.unit
        claim.always("head and tail are addresses", (unit.head < unit.depth) & (unit.tail < unit.depth))
        self.stored = Signal(9)
        between = Signal(9)
        claim.m.d.comb += [
            between.eq(Mux(unit.tail > unit.head, unit.tail - unit.head, unit.tail + unit.depth - unit.head)),
            self.stored.eq(Mux(unit.behind, between, 0)),
        ]
        claim.always("words wait from the head on, as far as the tail", unit.behind | (unit.tail == unit.head))
        claim.always("all words are at the head or in the memory", unit.level == unit.r_valid + self.stored)
        most = Mux(unit.r_valid, unit.depth - 1, int(self.detour))
        claim.always("the memory is never full", self.stored <= most)

    def check_order(self):
        """Assert that the word written at an arbitrary position of the sequence is read at that position."""
        claim, unit = self.claim, self.unit
        position = claim.constant(8, "position")
        self.word, self.inside_word = Signal(WIDTH), Signal()
        with claim.m.If(unit.w_en & (self.written == position)):
            claim.m.d.sync += [self.word.eq(unit.w_data), self.inside_word.eq(1)]
        with claim.m.Elif(self.reads & (self.read == position)):
            claim.m.d.sync += self.inside_word.eq(0)
        self.before = (position - self.read)[:8]
        claim.always("a word is inside until it is read", self.inside_word == (self.before < self.inside))
        leaves = self.inside_word & (self.before == 0) & unit.r_valid
        claim.always("words leave in the order in which they came", ~leaves | (unit.r_data == self.word))
        if hasattr(unit, "ram"):
            self._stored(leaves)

    def _stored(self, leaves):
        """Assert where the word is stored until it is read."""
        claim, unit = self.claim, self.unit
        at_head, at_word = (unit.ram.memory.read_port(domain="comb") for _ in range(2))
        slot = Signal(9)
        claim.m.d.comb += [
            slot.eq(unit.head + self.before - unit.r_valid),
            at_head.addr.eq(unit.head),
            at_word.addr.eq(Mux(slot >= unit.depth, slot - unit.depth, slot)),
        ]
        claim.always("the memory's output is the next word", ~unit.behind | (unit.ram.r_data == at_head.data))
        claim.always("the word is at its address", ~self.inside_word | leaves | (at_word.data == self.word))


@pytest.mark.sample(1)
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
    Queue(claim, rtl, depth).check_level()


@pytest.mark.sample(1)
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
def test_the_level_counts_words_with_a_detour_which_can_be_read_a_cycle_later(claim, rtl, depth):
    Queue(claim, rtl, depth, detour=True).check_level()


@proved(
    fifo,
    (
        "with m.If(free):\n                m.d.sync += [self.r_valid.eq(self.w_en)",
        "with m.If(1):\n                m.d.sync += [self.r_valid.eq(self.w_en)",
    ),
    ("self.r_valid.eq(self.w_en), self.r_data", "self.r_valid.eq(self.r_valid | self.w_en), self.r_data"),
    induction=1,
)
def test_a_single_entry_holds_its_word_until_it_is_read(claim, rtl):
    queue = Queue(claim, rtl, 1)
    queue.check_level()
    queue.check_order()


def proved_in_order(claim, rtl, depth, *, detour=False):
    queue = Queue(claim, rtl, depth, detour=detour)
    queue.check_level()
    queue.check_order()


@pytest.mark.sample(1)
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


@pytest.mark.sample(1)
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


@pytest.mark.sample(1)
@pytest.mark.parametrize("depth", [2, 3, 4])
@proved(
    fifo,
    ("leaves.eq(free & behind)", "leaves.eq(behind)"),
    ("self.w_en if self.detour else", "self.w_en & (behind | ~free) if self.detour else"),
    ("ram.r_data if self.detour else", "self.w_data if self.detour else"),
    ("forward=True", "forward=False"),
    induction=1,
)
def test_words_with_a_detour_keep_their_order(claim, rtl, depth):
    proved_in_order(claim, rtl, depth, detour=True)


@proved(
    fifo,
    ("self.w_en if self.detour else", "self.w_en & (behind | ~free) if self.detour else"),
    ("ram.r_data if self.detour else", "self.w_data if self.detour else"),
    ("behind if self.detour else behind | self.w_en", "behind | self.w_en if self.detour else behind"),
    induction=1,
)
def test_a_single_entry_with_a_detour_holds_its_word(claim, rtl):
    proved_in_order(claim, rtl, 1, detour=True)
