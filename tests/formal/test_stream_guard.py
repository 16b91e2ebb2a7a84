"""The stream guard: a burst of store is detected exactly if it overlaps the stream."""

from amaranth import Signal
from claims import proved

from lathe.configs import load_config
from lathe.rtl import self_modify_guard
from lathe.rtl.derived_widths import Geometry


@proved(
    self_modify_guard,
    ("(self.burst_address >> shift) < end", "(self.burst_address >> shift) <= end"),
    ("self.burst_end > begin << shift", "self.burst_end >= begin << shift"),
    ("(self.address >> shift) + self.count)", "(self.address >> shift) + self.count[:16])"),
    depth=4,
)
def test_a_burst_is_detected_exactly_when_it_touches_the_stream(claim, rtl):
    guard = claim.about(rtl.StreamGuard(Geometry(load_config("tiny"))))
    # A stream without instructions ends before anything is stored.
    claim.assume((guard.address % 16 == 0) & (guard.count != 0) & (guard.burst_end > guard.burst_address))
    begin, end, known, touched = Signal(64), Signal(64), Signal(), Signal()
    with claim.m.If(guard.start):
        claim.m.d.sync += [begin.eq(guard.address), end.eq(guard.address + 16 * guard.count), known.eq(1)]
    claim.assume(~guard.burst | known)
    first, last = guard.burst_address, guard.burst_end - 1
    with claim.m.If(guard.burst & (first < end) & (last >= begin)):
        claim.m.d.sync += touched.eq(1)
    claim.always("detected from the next cycle on", guard.hit == touched)
