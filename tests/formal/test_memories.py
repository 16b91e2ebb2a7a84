"""Memories: a read returns the last value written, with write enables, with and without forwarding."""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.rtl import ram

DEPTH = 4
SIZES = pytest.mark.parametrize(("width", "parts"), [(4, 1), (6, 3)])


def remembered(claim, rtl, width, parts, *, forward):
    """A memory; whether it reads an arbitrary but fixed word; that word before this cycle's write, and after it."""
    unit = claim.about(rtl.Ram(width, DEPTH, parts=parts, forward=forward))
    claim.assume(unit.r_en)
    address = claim.constant(range(DEPTH), "address")
    word, after = Signal(width, reset_less=True), Signal(width)
    each = width // parts
    for part in range(parts):
        low = part * each
        written = unit.w_en[part] & (unit.w_addr == address)
        new, old = unit.w_data[low : low + each], word[low : low + each]
        claim.m.d.comb += after[low : low + each].eq(Mux(written, new, old))
    claim.m.d.sync += word.eq(after)
    inside = unit.memory.read_port(domain="comb")
    claim.m.d.comb += inside.addr.eq(address)
    claim.always("the memory has the word", inside.data == word)
    return unit, unit.r_addr == address, word, after


@SIZES
@proved(
    ram,
    ("transparent_for=(write,) if self.forward else ()", "transparent_for=()"),
    ("write.en.eq(self.w_en)", "write.en.eq(self.w_en[0].replicate(self.parts) & -(self.w_addr[0]))"),
    induction=1,
)
def test_a_forwarding_memory_returns_what_is_written_in_the_cycle_of_the_read(claim, rtl, width, parts):
    unit, reads, _, after = remembered(claim, rtl, width, parts, forward=True)
    claim.always("the new word", ~(claim.begun & claim.before(reads)) | (unit.r_data == claim.before(after)))


@SIZES
@proved(
    ram,
    ("transparent_for=(write,) if self.forward else ()", "transparent_for=(write,)"),
    ("read.addr.eq(self.r_addr)", "read.addr.eq(self.w_addr)"),
    induction=1,
)
def test_a_memory_without_forwarding_returns_the_old_word(claim, rtl, width, parts):
    unit, reads, word, _ = remembered(claim, rtl, width, parts, forward=False)
    claim.always("the old word", ~(claim.begun & claim.before(reads)) | (unit.r_data == claim.before(word)))
