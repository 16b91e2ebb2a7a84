"""FIFOs: how many words they hold, for ever; which ones, to a depth of several times around their memory.

Words are of two bits, for nothing that a FIFO does depends on what they are.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.rtl import fifo

WIDTH = 2


def queue(claim, rtl, depth):
    """A FIFO that is written only when it has room and read only when it has a word; and how often it has been."""
    unit = claim.about(rtl.Fifo(WIDTH, depth))
    claim.assume(~(unit.w_en & unit.full))
    claim.assume(~(unit.r_en & ~unit.r_valid))
    written, read = Signal(8), Signal(8)
    claim.m.d.sync += [written.eq(written + unit.w_en), read.eq(read + unit.r_en)]
    return unit, written, read


def levelled(claim, unit, written, read):
    inside = (written - read)[:8]
    claim.always("the level is the number of words", unit.level == inside)
    claim.always("there are never more words than places", unit.level <= unit.depth)
    claim.always("full tells that every place is taken", unit.full == (inside == unit.depth))
    claim.always("a word is valid while there is one", unit.r_valid == (inside != 0))


def ordered(claim, unit, written, read):
    """The word that is written in any one place of the sequence is read in that place."""
    place = claim.constant(8, "place")
    word, inside = Signal(WIDTH), Signal()
    with claim.m.If(unit.w_en & (written == place)):
        claim.m.d.sync += [word.eq(unit.w_data), inside.eq(1)]
    with claim.m.Elif(unit.r_en & (read == place)):
        claim.m.d.sync += inside.eq(0)
    before, words = (place - read)[:8], (written - read)[:8]
    claim.always("a word is inside until it is read in its turn", inside == (before < words))
    claim.always("the word that came in a place leaves in it", ~(inside & (before == 0)) | (unit.r_data == word))
    return word, inside, before


def kept(claim, unit, word, inside, before):
    """Where the words are until then: from the head on, as far as the tail."""
    at_head, at_word = (unit.ram.memory.read_port(domain="comb") for _ in range(2))
    slot = Signal(9)
    claim.m.d.comb += [
        slot.eq(unit.head + before),
        at_head.addr.eq(unit.head),
        at_word.addr.eq(Mux(slot >= unit.depth, slot - unit.depth, slot)),
    ]
    ends = unit.head + unit.level
    claim.always("head and tail are places", (unit.head < unit.depth) & (unit.tail < unit.depth))
    claim.always("words end at the tail", unit.tail == Mux(ends >= unit.depth, ends - unit.depth, ends))
    claim.always("the head's word is shown", ~unit.r_valid | (unit.r_data == at_head.data))
    claim.always("the word is where it was put", ~inside | (at_word.data == word))


@pytest.mark.parametrize("depth", [2, 3, 4, 16])
@proved(
    fifo,
    ("self.level + self.w_en - self.r_en", "self.level + (self.w_en & ~self.r_en) - self.r_en"),
    ("self.level == self.depth)", "self.level == self.depth - 1)"),
    ("self.level != 0", "self.level > 1"),
    induction=1,
    depth=40,
)
def test_the_level_is_what_was_written_less_what_was_read(claim, rtl, depth):
    levelled(claim, *queue(claim, rtl, depth))


@proved(
    fifo,
    ("self.level + self.w_en - self.r_en", "self.level | self.w_en"),
    ("self.level == self.depth)", "self.level == self.depth - 1)"),
    induction=1,
    depth=20,
)
def test_the_level_of_a_single_place_is_whether_it_is_taken(claim, rtl):
    levelled(claim, *queue(claim, rtl, 1))


@proved(
    fifo,
    (
        "with m.If(self.w_en):\n                m.d.sync += self.r_data",
        "with m.If(1):\n                m.d.sync += self.r_data",
    ),
    induction=1,
)
def test_a_single_place_keeps_its_word_until_it_is_read(claim, rtl):
    unit = queue(claim, rtl, 1)
    levelled(claim, *unit)
    ordered(claim, *unit)


def proved_in_order(claim, rtl, depth):
    unit = queue(claim, rtl, depth)
    levelled(claim, *unit)
    kept(claim, unit[0], *ordered(claim, *unit))


@pytest.mark.parametrize("depth", [2, 4, 16])
@proved(
    fifo,
    ("Mux(self.r_en, self._next(head), head)", "Mux(self.w_en, self._next(head), head)"),
    ("forward=True", "forward=False"),
    ("with m.If(self.w_en):\n            m.d.sync += tail", "with m.If(self.r_en):\n            m.d.sync += tail"),
    induction=1,
)
def test_words_leave_in_the_order_in_which_they_came(claim, rtl, depth):
    proved_in_order(claim, rtl, depth)


@pytest.mark.parametrize("depth", [3, 5])
@proved(fifo, ("pointer == self.depth - 1", "pointer == self.depth"), ("forward=True", "forward=False"), induction=1)
def test_words_keep_their_order_where_the_depth_is_no_power_of_two(claim, rtl, depth):
    proved_in_order(claim, rtl, depth)
