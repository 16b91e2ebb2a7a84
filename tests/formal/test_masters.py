"""Read masters: a request is stable until it is granted, as the proofs of the read arbiter assume."""

import pytest
from amaranth import Cat
from claims import proved
from cutting import Cut

from lathe.configs import load_config
from lathe.isa.table import Unit
from lathe.rtl import fetch, read_requests
from lathe.rtl.derived_widths import Geometry

TINY = Geometry(load_config("tiny"))


@pytest.mark.slow
@proved(
    read_requests,
    ("with m.Elif(self.take):", "with m.Else():"),
    ("(~self.valid | self.take)", "1"),
    induction=1,
)
def test_a_loads_address_and_request_stay_until_the_grant(claim, rtl):
    unit = claim.about(rtl.AddressSide(TINY, TINY.loaded_by(Unit.LOAD), TINY.config.timing.dma_fifo_beats))
    credits = unit.requests.credits
    left = (credits.used - credits.gone)[:8]
    claim.assume(~unit.start | unit.idle)
    claim.assume(~unit.grant | unit.request)
    claim.assume(~unit.beat | (left != 0))
    cut = Cut(claim, unit.requests.cutter, TINY.data_burst)
    cut.check_registers()
    cut.check_burst()
    waits = claim.begun & claim.before(unit.request & ~unit.grant)
    shown = Cat(unit.address, unit.beats)
    claim.always("credits of beats that have left are in use", credits.gone <= credits.used)
    claim.always("no more credits than beats of the FIFO", credits.used <= TINY.config.timing.dma_fifo_beats)
    claim.always("the request stays", ~waits | unit.request)
    claim.always("its address is stable", ~waits | (shown == claim.before(shown)))
    claim.always("a burst has a beat", ~unit.request | (unit.beats != 0))


@pytest.mark.slow
@proved(
    fetch,
    ("requests.take.eq(port.grant)", "requests.take.eq(port.request)"),
    ("port.request.eq(requests.valid)", "port.request.eq(1)"),
    induction=1,
    depth=10,
)
def test_fetchs_address_stays_until_the_grant_and_every_burst_has_a_beat(claim, rtl):
    unit = claim.about(rtl.Fetch(TINY))
    port = unit.port
    claim.assume(~port.grant | port.request)
    requests = claim.part(unit, "requests")
    claim.assume(~unit.start | (requests.idle & (unit.count != 0)))
    cut = Cut(claim, requests.cutter, TINY.fetch_burst)
    cut.check_registers()
    cut.check_burst()
    shown = Cat(port.address, port.beats)
    waits = claim.begun & claim.before(port.request & ~port.grant)
    claim.always("the request stays", ~waits | port.request)
    claim.always("its address is stable", ~waits | (shown == claim.before(shown)))
    claim.always("a burst has a beat", ~port.request | (port.beats != 0))


@pytest.mark.slow
@proved(
    fetch,
    ("self.dispatch.eq(~full)", "self.dispatch.eq(1)"),
    ("self.full.bit_select(self.unit, 1)", "self.full[0]"),
    depth=8,
)
def test_fetch_dispatches_nothing_to_a_full_queue_and_nothing_illegal(claim, rtl):
    unit = claim.about(rtl.Fetch(TINY))
    claim.assume(~unit.port.grant | unit.port.request)
    for number in range(3):
        claim.always("no dispatch to a full queue", ~(unit.dispatch & (unit.unit == number) & unit.full[number]))
    claim.always("no dispatch with a fault", ~(unit.dispatch & (unit.fault != 0)))
    claim.always("none when all are dispatched or all is stopped", ~(unit.dispatch & (unit.done | unit.stop)))
