"""The burst cutter, for all time: for every number of chains, every address and every length of a chain.

Addresses have 15 bits here and wrap; lengths have 14 bits. The proofs do not depend on these widths as long as they
exceed the 12 bits of a page.
"""

from types import SimpleNamespace

import pytest
from amaranth import Signal
from claims import proved
from cutting import PAGE, Cut

from lathe.configs import load_config
from lathe.rtl import burst
from lathe.rtl.derived_widths import Geometry

# Bus bits and limit in beats. SHORT: bursts end at the limit or the page's end; PAGES: only at the page's end.
SHORT = [(8, 2), (8, 256), (64, 3), (64, 16), (64, 256), (256, 16)]
PAGES = (256, 256)
BUSES = [*SHORT, PAGES]
WITHIN = [each for each in SHORT if each[0] > 8]  # with words of several bytes


def cut(claim, rtl, bus_bits, limit):
    """A burst cutter with the reference model of its chains."""
    geometry = Geometry(load_config("tiny").with_(**{"memory.bus_bits": bus_bits}))
    narrow = SimpleNamespace(bus_bytes=geometry.bus_bytes, address_bits=15)
    found = Cut(claim, claim.about(rtl.BurstCutter(narrow, limit, 14, 14)), limit)
    found.check_registers()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "limit"), BUSES)
@proved(
    burst,
    ("self.address.eq(Cat(Mux(begins, offset, 0)[: self.shift], word))", "self.address.eq(Cat(offset, word + 1))"),
    ("self.end.eq(Mux(ends, chain_end, beyond << self.shift))", "self.end.eq(chain_end)"),
    ("self.last.eq(ends & single)", "self.last.eq(ends)"),
    ("with m.If(self.take):", "with m.If(self.take & more):"),
    ("*begin(following, chain_bytes)", "*begin(following, self.chain_bytes)"),
    ("following.eq(following + stride)", "following.eq(following)"),
    induction=1,
    depth=8,
)
def test_bursts_follow_each_other_without_gap_or_overlap_to_the_end_of_each_chain(claim, rtl, bus_bits, limit):
    cut(claim, rtl, bus_bits, limit).check_burst()


@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "limit"), BUSES)
@proved(
    burst,
    ("room.eq(Mux(page > most, most, page))", "room.eq(most)"),
    ("page = words - behind", "page = words + 1 - behind"),
    induction=1,
    depth=8,
)
def test_no_burst_crosses_a_page(claim, rtl, bus_bits, limit):
    found = cut(claim, rtl, bus_bits, limit)
    found.check_burst()
    cutter, size = found.cutter, Signal(14)
    claim.m.d.comb += size.eq(cutter.end - cutter.address)
    claim.always("a burst ends within its page", ~cutter.valid | (cutter.address[:12] + size <= PAGE))
    claim.always("and has a byte at least", ~cutter.valid | (size != 0))


@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "limit"), BUSES)
@proved(
    burst,
    ("self.geometry.bus_bytes - 1)) >>", "self.geometry.bus_bytes)) >>"),
    ("Mux(ends, left, room)", "room"),
    induction=1,
    depth=8,
)
def test_the_beats_are_the_bus_words_that_the_bytes_touch_and_at_most_the_limit(claim, rtl, bus_bits, limit):
    found = cut(claim, rtl, bus_bits, limit)
    found.check_burst()
    cutter = found.cutter
    claim.always("at most the limit, and what AXI allows", (cutter.beats <= limit) & (cutter.beats <= 256))
    claim.always("at least one", ~cutter.valid | (cutter.beats != 0))


@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "limit"), WITHIN)
@proved(
    burst,
    ("at, behind = address[: self.shift], address[self.shift :]", "at, behind = address[:0], address[self.shift :]"),
    ("left.eq((at + size +", "left.eq((size +"),
    induction=1,
    depth=8,
)
def test_an_address_within_a_word_shortens_the_burst_and_not_the_limit(claim, rtl, bus_bits, limit):
    found = cut(claim, rtl, bus_bits, limit)
    found.check_burst()
    cutter, bytes_ = found.cutter, Signal.like(found.cutter.address)
    claim.m.d.comb += bytes_.eq(cutter.end - (found.begin << cutter.shift))
    claim.always("a burst ends with its limit of words", ~cutter.valid | (bytes_ <= limit * found.bus))


@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "limit"), SHORT)
@proved(
    burst,
    ("(to_page > most) & (to_page <= 2 * most)", "to_page > 2 * most"),
    ("Mux(to_page > most, to_page - most, words)", "to_page - most"),
    induction=1,
    depth=12,
)
def test_bursts_are_as_long_as_page_and_limit_allow(claim, rtl, bus_bits, limit):
    cut(claim, rtl, bus_bits, limit).check_burst()


@pytest.mark.slow
@proved(burst, ("page = words - behind", "page = words // 2 - behind"), induction=1, depth=8)
def test_bursts_within_the_limit_go_to_the_end_of_the_page(claim, rtl):
    cut(claim, rtl, *PAGES).check_burst()


@pytest.mark.slow
@proved(
    burst,
    ("((~self.valid | self.take) & more)", "(~self.valid & more)"),
    ("more.eq(self.chains != 0)", "more.eq(self.chains != 1)"),
    ("self.idle.eq(~self.valid & ~more)", "self.idle.eq(~self.valid)"),
    induction=1,
    depth=8,
)
def test_a_burst_is_valid_in_the_second_cycle_and_the_next_one_right_after_each(claim, rtl):
    found = cut(claim, rtl, 64, 16)
    cutter = found.cutter
    claim.always("idle means that no chain remains", cutter.idle == (found.chains == 0))
    due = claim.begun & claim.before(~cutter.valid & (found.chains != 0))
    claim.always("in the second cycle after the start", ~due | cutter.valid)
    due = claim.begun & claim.before(cutter.take & (found.ahead["chains"] != 0))
    claim.always("in the cycle after the previous one was taken", ~due | cutter.valid)
