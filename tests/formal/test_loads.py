"""The two sides of a load: the data side takes as many beats of a transfer as the address side requests.

Proved for all time for each side alone: for every chain, the beats are those that it overlaps. Proved for a bounded
number of cycles for both together, with their FIFO and a memory with arbitrary response times.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved
from cutting import Cut
from stepping import Steps
from transfers import is_legal

from lathe.configs import load_config
from lathe.isa.table import Unit
from lathe.rtl import read_data, read_master, read_requests
from lathe.rtl.derived_widths import Geometry


def touched(begin, size, bus):
    """The number of beats that `size` bytes from `begin` on overlap."""
    return (begin % bus + size + (bus - 1)) >> (bus.bit_length() - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bus_bits", "loads"), [pytest.param(64, Unit.LOAD, marks=pytest.mark.slow), (16, Unit.COMPUTE)]
)
@proved(
    read_data,
    ("chain_ends.eq(rest + offset <= 2 * bus)", "chain_ends.eq(rest <= bus)"),
    ("offset.eq(next_offset),\n                        first", "offset.eq(0),\n                        first"),
    ("write.en.eq(1), self.take.eq(1)", "write.en.eq(1), self.take.eq(offset == 0)"),
    ("chain_ends.eq(now.chain_bytes + next_offset <= bus)", "chain_ends.eq(now.chain_bytes + offset <= bus)"),
    induction=1,
    depth=10,
)
def test_the_data_side_takes_the_beats_that_a_chain_touches(claim, rtl, bus_bits, loads):
    steps = Steps(claim, rtl, bus_bits, loads, 1)
    steps.check_registers()
    unit, now, bus = steps.unit, steps.now, bus_bits // 8
    taken = Signal(17, name="taken")  # beats of the current chain
    ends = steps.done + steps.size == now.chain_bytes
    with claim.m.If(unit.take):
        claim.m.d.sync += taken.eq(Mux(ends, 0, taken + 1))
    begun = steps.reads & (steps.done != 0)
    # All beats of a chain but the first start at a word boundary.
    claim.always("a chain continues at a word", ~begun | (steps.at == 0))
    claim.always("beats up to it were taken", taken == Mux(begun, touched(steps.row, steps.done, bus), 0))
    every = taken + 1 == touched(steps.row, now.chain_bytes, bus)
    claim.always("a chain's last beat is the last that it touches", ~unit.take | (ends == every))


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize(("bus_bits", "limit"), [pytest.param(64, 16, marks=pytest.mark.slow), (16, 3)])
@proved(
    read_requests,
    ("self.beats.eq(cutter.beats)", "self.beats.eq(cutter.beats - cutter.last)"),
    ("with m.Elif(self.take):", "with m.Elif(self.take & ~self.last):"),
    ("(~self.valid | self.take)", "1"),
    induction=1,
    depth=12,
)
def test_the_address_side_requests_the_beats_that_a_chain_touches(claim, rtl, bus_bits, limit):
    changes = {"memory.bus_bits": bus_bits, "memory.burst_beats": limit}
    geometry = Geometry(load_config("tiny").with_(**changes))
    bus, beats = geometry.bus_bytes, geometry.config.timing.dma_fifo_beats
    unit = claim.about(rtl.AddressSide(geometry, geometry.loaded_by(Unit.LOAD), beats))
    cutter = unit.requests.cutter
    claim.assume(~unit.start | (unit.idle & is_legal(unit.transfer)))
    claim.assume(~unit.grant | unit.request)
    cut = Cut(claim, cutter, limit)
    cut.check_registers()
    cut.check_burst()
    # Requested beats of the chain, including those of the waiting burst, and whether that burst ends the chain.
    before, total, ends, waits = Signal(17), Signal(17), Signal(), Signal()
    row = Signal.like(cut.row)  # start of the chain of the waiting burst
    claim.m.d.comb += before.eq(Mux(waits & ~ends, total, Mux(waits, 0, total)))
    with claim.m.If(cutter.take):
        claim.m.d.sync += [total.eq(before + cutter.beats), ends.eq(cut.ends), row.eq(cut.row), waits.eq(1)]
    with claim.m.Elif(unit.grant):
        claim.m.d.sync += [total.eq(before), waits.eq(0)]
    granted = Signal(17)
    with claim.m.If(unit.grant):
        claim.m.d.sync += granted.eq(Mux(ends, 0, granted + unit.beats))
    # The current chain is split into bursts up to a word boundary.
    done = cut.bytes - cut.rest
    more = cut.chains != 0
    claim.always("a chain continues at a word", ~more | (done == 0) | (cut.address % bus == 0))
    claim.always("a chain continues where it is split", ~more | (cut.address == (cut.row + done)[: len(cut.row)]))
    claim.always("never more than the chain", ~more | (cut.rest <= cut.bytes))
    requested = Mux(more & (done != 0), touched(cut.row, done, bus), 0)
    claim.always("beats up to there were requested", before == requested)
    claim.always("a request is valid while it waits", unit.request == waits)
    claim.always("it is of so many beats", ~waits | (granted + unit.beats == total))
    claim.always("those before it were granted", waits | (granted == before))
    claim.always("a burst continues where its chain is split", ~waits | ends | (more & (done != 0)))
    whole = total == touched(row, cut.bytes, bus)
    claim.always("a chain's last beat is the last that it touches", ~(unit.grant & ends) | whole)
    claim.always("all of a chain that ends was requested", ~(waits & ends) | whole)


class Answered:
    """Both sides of small loads, and a memory that grants and responds at arbitrary times, but in order."""

    def __init__(self, claim, rtl, *, pending, fifo_beats):
        changes = {"memory.bus_bits": 16, "memory.burst_beats": 2, "timing.dma_fifo_beats": fifo_beats}
        geometry = Geometry(load_config("tiny").with_(**changes))
        memories = geometry.loaded_by(Unit.LOAD)
        self.master = master = claim.about(read_master.ReadMaster(geometry, memories, pending))
        master.data_side._MustUse__used = True  # replaced by the data side under test
        master.data_side = self.data = rtl.DataSide(geometry, memories, pending)
        master.stop, master.hold = self.data.stop, self.data.hold
        for signal in (master.stop, master.hold):
            claim.ports[id(signal)] = signal
        claim.assume(~master.stop)
        port, transfer = master.port, master.transfer
        claim.assume(~master.start | (master.idle & ~self.data.full & is_legal(transfer)))
        small = (transfer.chains <= 2) & (transfer.chain_bytes <= 5) & (transfer.lead <= 1) & (transfer.tail <= 1)
        claim.assume(~master.start | (small & (transfer.gap <= 1)))
        claim.assume(~port.grant | port.request)
        # The number of granted beats that have not arrived; `marks` has a bit for each, set for the last of a burst.
        self.coming, marks, ends = Signal(8), Signal(16), Signal(16)
        stays, kept = Signal(8), Signal(16)
        came, granted = port.r_valid, Mux(port.grant, port.beats, 0)
        claim.m.d.comb += [stays.eq(self.coming - came), kept.eq(Mux(came, marks >> 1, marks))]
        claim.m.d.comb += ends.eq(Mux(port.grant, 1 << (stays + port.beats - 1)[:4], 0))
        claim.m.d.sync += [self.coming.eq(stays + granted), marks.eq(kept | ends)]
        claim.assume(~came | (self.coming != 0))
        claim.assume(~came | (port.r_last == marks[0]))


@pytest.mark.slow
@pytest.mark.parametrize(("pending", "fifo_beats"), [pytest.param(1, 2, marks=pytest.mark.slow), (2, 3)])
@proved(
    read_data,
    ("chain_ends.eq(now.chain_bytes + next_offset <= bus)", "chain_ends.eq(now.chain_bytes <= bus)"),
    ("chain_ends.eq(following.chain_bytes + following.address[: log2(bus)] <= bus)", "chain_ends.eq(1)"),
    ("self.step.eq(1), write.en.eq(1), self.take.eq(1)", "self.step.eq(1), write.en.eq(1), self.take.eq(rest != 1)"),
    depth=12,
)
def test_no_beat_is_left_over_and_none_is_missing(claim, rtl, pending, fifo_beats):
    both = Answered(claim, rtl, pending=pending, fifo_beats=fifo_beats)
    master, side = both.master, both.data
    fifo, credits = master.fifo, master.address_side.requests.credits
    claim.always("the FIFO has space for each beat that arrives", ~(fifo.w_en & fifo.full))
    nothing = (both.coming == 0) & ~fifo.r_valid
    claim.always("a beat that is waited for was requested", ~side.wait | ~nothing | ~master.idle)
    done = master.idle & (side.count == 0)
    claim.always("none is left after the last transfer", ~done | (nothing & (credits.used == 0)))
