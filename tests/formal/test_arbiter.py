"""The read arbiter: stable addresses, one grant at a time, reads in flight, round-robin order."""

import pytest
from amaranth import Cat, Mux, Signal
from claims import proved

from lathe.configs import load_config
from lathe.rtl import arbiter
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.read_master import ReadPort

MASTERS = 3
outstanding = pytest.mark.parametrize("outstanding", [1, 2, 8])


def arbitrated(claim, rtl, outstanding):
    """An arbiter whose masters keep an address stable until its grant, though they may withdraw the request.

    The memory sends only beats of bursts in flight. Returns the arbiter and an independent count of these bursts.
    """
    cfg = load_config("tiny").with_(**{"memory.outstanding_reads": outstanding})
    unit = claim.about(rtl.ReadArbiter(Geometry(cfg), [ReadPort(Geometry(cfg)) for _ in range(MASTERS)]))
    for number, port in enumerate(unit.ports):
        shown = Cat(port.address, port.beats)
        bound = port.request | (unit.held & unit.latest[number])
        stays = claim.begun & claim.before(bound & ~port.grant)
        claim.assume(~stays | (shown == claim.before(shown)))
        claim.assume((port.beats > 0) & (port.beats <= 256))
    inflight = Signal(8)
    grants = Cat(*(port.grant for port in unit.ports)).any()
    claim.m.d.sync += inflight.eq(inflight + grants - (unit.r_valid & unit.r_last))
    claim.assume(~unit.r_valid | (inflight != 0))
    claim.always("the arbiter knows how many bursts are in flight", unit.inflight.count == inflight)
    claim.always("and when they are as many as the memory accepts", unit.inflight.full == (inflight == outstanding))
    claim.always("and never more than the memory accepts", inflight <= outstanding)
    one = Cat(*(unit.latest == 1 << number for number in range(MASTERS))).any()
    claim.always("the latest address is one master's", one)
    claim.always("an address is issued only while its burst is within the limit", ~unit.held | (inflight < outstanding))
    return unit, inflight


@pytest.mark.sample(1)
@outstanding
@proved(
    arbiter,
    ("held.eq(~self.ar_ready)", "held.eq(0)"),
    ("with m.If(held):", "with m.If(held & ports[0].request):"),
    ("(held | ~self.stop)", "~self.stop"),
    induction=1,
)
def test_an_address_is_stable_until_the_bus_accepts_it(claim, rtl, outstanding):
    unit, _ = arbitrated(claim, rtl, outstanding)
    shown = Cat(unit.ar_addr, unit.ar_len, unit.ar_id)
    waits = claim.begun & claim.before(unit.ar_valid & ~unit.ar_ready)
    claim.always("valid stays", ~waits | unit.ar_valid)
    claim.always("address, length and id stay", ~waits | (shown == claim.before(shown)))


@pytest.mark.slow
@proved(
    arbiter,
    ("port.grant.eq(shown[number] & opened", "port.grant.eq(opened"),
    ("held.eq(~self.ar_ready)", "held.eq(1)"),
    induction=1,
)
def test_a_grant_is_one_masters_who_asked_and_comes_when_the_bus_takes_the_address(claim, rtl):
    unit, _ = arbitrated(claim, rtl, 2)
    grants = Cat(*(port.grant for port in unit.ports))
    claim.always("at most one grant", (grants & (grants - 1)[:MASTERS]) == 0)
    claim.always("a grant when the bus takes an address", grants.any() == (unit.ar_valid & unit.ar_ready))
    for number, port in enumerate(unit.ports):
        asked = claim.register(1, f"asked{number}", port.request | (unit.held & unit.latest[number]))
        claim.always("to the master of the id", ~port.grant | (unit.ar_id == number))
        claim.always("which requests, or did when its address was issued", ~port.grant | port.request | asked)


@pytest.mark.sample(1)
@pytest.mark.parametrize("bus_bits", [8, 64, 256])
@proved(
    arbiter,
    ("(port.address >> bus_shift) << bus_shift", "port.address[1:] << 1"),
    ("port.beats - 1", "port.beats"),
    depth=1,
)
def test_the_issued_burst_is_the_masters_from_its_first_word_on(claim, rtl, bus_bits):
    geometry = Geometry(load_config("tiny").with_(**{"memory.bus_bits": bus_bits}))
    unit = claim.about(rtl.ReadArbiter(geometry, [ReadPort(geometry) for _ in range(MASTERS)]))
    for number, port in enumerate(unit.ports):
        own = unit.ar_valid & (unit.ar_id == number)
        claim.assume((port.beats > 0) & (port.beats <= 256))
        offset = Signal(9)
        claim.m.d.comb += offset.eq(port.address - unit.ar_addr)
        claim.always("an address of a word", ~own | (unit.ar_addr % (bus_bits // 8) == 0))
        claim.always("the word that the first byte is in", ~own | (unit.ar_addr + offset == port.address))
        claim.always("and no earlier one", ~own | (offset < bus_bits // 8))
        claim.always("beats less one", ~own | (unit.ar_len + 1 == port.beats))


@pytest.mark.sample(1)
@outstanding
@proved(
    arbiter,
    ("opened.eq(~inflight.full & ", "opened.eq("),
    ("self.r_valid & self.r_last)", "self.r_valid)"),
    induction=1,
)
def test_no_more_reads_are_in_flight_than_the_memory_accepts(claim, rtl, outstanding):
    unit, inflight = arbitrated(claim, rtl, outstanding)
    waits = claim.register(1, "waits", unit.ar_valid & ~unit.ar_ready)
    claim.always("idle means that nothing is in flight or issued", unit.idle == ((inflight == 0) & ~waits))


@pytest.mark.sample(1)
@outstanding
@proved(
    arbiter,
    ("(number - 1 - distance) % count", "(number - distance) % count"),
    ("for distance in range(1, count)]\n                beaten", "for distance in (2, 1)]\n                beaten"),
    induction=1,
)
def test_a_master_that_waits_sees_each_other_master_granted_once_at_most(claim, rtl, outstanding):
    unit, _ = arbitrated(claim, rtl, outstanding)
    for number, port in enumerate(unit.ports):
        claim.assume(~claim.begun | ~claim.before(port.request & ~port.grant) | port.request)
        others = Cat(*(other.grant for other in unit.ports if other is not port)).any()
        passed = Signal(3)
        claim.m.d.sync += passed.eq(Mux(port.request & ~port.grant, passed + others, 0))
        # The number of masters before this one in round-robin order, from the one after the latest.
        before = Signal(2)
        with claim.m.Switch(unit.latest):
            for latest in range(MASTERS):
                with claim.m.Case(1 << latest):
                    distance = (number - latest - 1) % MASTERS
                    claim.m.d.comb += before.eq(Mux(unit.held, 0 if latest == number else distance + 1, distance))
        claim.always("each other master is granted once at most", passed + before <= MASTERS - 1)


@pytest.mark.sample(1)
@outstanding
@proved(
    arbiter,
    ("opened.eq(~inflight.full & ", "opened.eq((inflight.count == 0) & ~held & "),
    ("(wants.any() | held)", "(wants[0] | held)"),
    ("(held | ~self.stop)", "1"),
    induction=1,
)
def test_a_request_is_issued_whenever_a_master_has_one_within_the_limit_unless_stopped(claim, rtl, outstanding):
    unit, inflight = arbitrated(claim, rtl, outstanding)
    asked = Cat(*(port.request for port in unit.ports)).any()
    claim.always("an address is issued", ~(asked & (inflight < outstanding) & ~unit.stop) | unit.ar_valid)
    waits = claim.register(1, "waits", unit.ar_valid & ~unit.ar_ready)
    claim.always("while stopped, only one that waits", ~(unit.stop & unit.ar_valid) | waits)


@proved(
    arbiter,
    ("(self.r_id == number)", "(self.r_id >= number)"),
    ("port.r_data.eq(self.r_data)", "port.r_data.eq(self.r_data[1:])"),
    induction=1,
)
def test_beats_go_to_the_master_of_their_id_and_to_no_other(claim, rtl):
    unit, _ = arbitrated(claim, rtl, 2)
    for number, port in enumerate(unit.ports):
        claim.always("a beat of the id, and only such", port.r_valid == (unit.r_valid & (unit.r_id == number)))
        claim.always("as it came", (port.r_data == unit.r_data) & (port.r_last == unit.r_last))


@proved(arbiter, ("self.r_resp[1]", "self.r_resp[0]"), induction=1)
def test_an_error_is_raised_by_every_beat_with_an_error_response(claim, rtl):
    unit, _ = arbitrated(claim, rtl, 2)
    claim.always("SLVERR and DECERR are errors", unit.error == (unit.r_valid & (unit.r_resp >= 2)))
