"""The burst cutter, for every address and every length of a chain: combinational, so one cycle says it all.

A chain has up to 2 ** 20 - 1 bytes here; what is proved does not depend on that width beyond the page's 13 bits.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.configs import load_config
from lathe.rtl import burst
from lathe.rtl.geometry import Geometry

PAGE = 4096
# Of bits and beats: bursts that the limit cuts, or the page, and one that only the page does.
SHORT = [(8, 2), (8, 256), (64, 3), (64, 16), (64, 256), (256, 16)]
PAGES = (256, 256)
BUSES = [*SHORT, PAGES]


def cut(claim, rtl, bus_bits, limit):
    """A cutter whose chain is not at its end yet; and the bytes of a beat, and the byte behind the burst."""
    geometry = Geometry(load_config("tiny").with_(**{"memory.bus_bits": bus_bits}))
    cutter = claim.about(rtl.BurstCutter(geometry, limit, 20))
    claim.assume(cutter.rest != 0)
    end = Signal(22)
    claim.m.d.comb += end.eq(cutter.address + cutter.size)
    return cutter, bus_bits // 8, end


@pytest.mark.parametrize(("bus_bits", "limit"), BUSES)
@proved(burst, ("(1 << PAGE_BITS) - self.address", "(2 << PAGE_BITS) - self.address"), depth=1)
def test_no_burst_crosses_a_page(claim, rtl, bus_bits, limit):
    _, _, end = cut(claim, rtl, bus_bits, limit)
    claim.always("a burst ends within its page", end <= PAGE)


@pytest.mark.parametrize(("bus_bits", "limit"), BUSES)
@proved(burst, ("+ (bus - 1)) >>", "+ bus) >>"), depth=1)
def test_the_beats_are_the_bus_words_that_the_bytes_lie_in_and_at_most_the_limit(claim, rtl, bus_bits, limit):
    cutter, bus, end = cut(claim, rtl, bus_bits, limit)
    claim.always(
        "beats from the first byte's word to the last one's",
        cutter.beats == (end - 1) // bus - cutter.address // bus + 1,
    )
    claim.always("at most the limit, and what AXI allows", (cutter.beats <= limit) & (cutter.beats <= 256))
    claim.always("at least one", cutter.beats != 0)


@pytest.mark.parametrize(("bus_bits", "limit"), [each for each in SHORT if each[0] > 8])
@proved(burst, ("self.limit * bus - offset", "self.limit * bus"), depth=1)
def test_an_address_within_a_word_shortens_the_burst_and_not_the_limit(claim, rtl, bus_bits, limit):
    cutter, bus, end = cut(claim, rtl, bus_bits, limit)
    claim.always("a burst ends with its limit of words", end <= (cutter.address // bus + limit) * bus)


@pytest.mark.parametrize(("bus_bits", "limit"), BUSES)
@proved(burst, ("self.rest <= room", "self.rest < room"), ("Mux(self.last, self.rest, room)", "room"), depth=1)
def test_a_burst_gets_ahead_and_the_last_one_takes_the_rest(claim, rtl, bus_bits, limit):
    cutter, _, _ = cut(claim, rtl, bus_bits, limit)
    claim.always(
        "a burst has a byte at least, and no more than are left", (cutter.size > 0) & (cutter.size <= cutter.rest)
    )
    claim.always("the last burst is the one after which nothing is left", cutter.last == (cutter.size == cutter.rest))


def longest(claim, rtl, bus_bits, limit):
    cutter, bus, end = cut(claim, rtl, bus_bits, limit)
    furthest = (cutter.address // bus + limit) * bus
    furthest = Mux(furthest < PAGE, furthest, PAGE)
    claim.always("a burst that is not the last goes to page or limit", cutter.last | (end == furthest))


@pytest.mark.parametrize(("bus_bits", "limit"), SHORT)
@proved(
    burst,
    ("self.limit * bus - offset", "self.limit * bus - offset - 1"),
    ("(1 << PAGE_BITS) - self", "(1 << PAGE_BITS - 1) - self"),
    depth=1,
)
def test_bursts_are_as_long_as_page_and_limit_allow(claim, rtl, bus_bits, limit):
    longest(claim, rtl, bus_bits, limit)


@proved(burst, ("room.eq(to_page)", "room.eq(to_page[:11])"), depth=1)
def test_bursts_that_no_limit_cuts_go_to_the_page(claim, rtl):
    longest(claim, rtl, *PAGES)
