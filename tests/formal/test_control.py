"""Control: a launch from its start to its end or fault, and the AXI4-Lite subordinate.

Latencies are in clock cycles: a standstill (no unit can ever continue) is reported in the next one.
"""

import pytest
from amaranth import Cat, Signal
from claims import proved

from lathe.rtl import control, registers
from lathe.rtl.fault import FaultCode
from lathe.rtl.stall import CAUSES_OF, Activity


def controlled(claim, rtl):
    """A control unit with the activity signals of all units, and its invariants."""
    unit = claim.about(rtl.Control(tuple(Activity() for _ in CAUSES_OF)))
    failing = claim.inside(unit)["failing"]
    claim.always("a launch runs, or is stopped, or there is none", ~(unit.running & (unit.stop | unit.clear)))
    claim.always("it is stopped after a fault, until the machine is cleared", failing == (unit.stop & ~unit.clear))
    claim.always("busy means that there is a launch", unit.busy == (unit.running | failing))
    claim.always("none starts before the previous one has ended", ~(unit.start & unit.busy))
    claim.always("and all is cleared", ~(unit.start & (unit.stop | unit.clear)))
    return unit


def finished(claim, unit):
    """Whether the launch's FINISH has completed before this cycle."""
    found = Signal()
    with claim.m.If(unit.start):
        claim.m.d.sync += found.eq(0)
    with claim.m.Elif(unit.running & unit.finish):
        claim.m.d.sync += found.eq(1)
    return found


def write_to(unit, name):
    """Whether the host CPU writes a register in this cycle."""
    address = registers.BY_NAME[name].address
    return unit.aw_valid & unit.aw_ready & unit.w_valid & unit.w_ready & (unit.aw_addr == address)


@proved(
    control,
    ("with m.Elif(self.standstill)", "with m.Elif(self.standstill & finished)"),
    ("with m.If(fault != FaultCode.NONE)", "with m.If(self.fault != FaultCode.NONE)"),
    induction=1,
)
def test_a_standstill_is_reported_as_a_deadlock_in_the_next_cycle(claim, rtl):
    unit = controlled(claim, rtl)
    noticed = unit.running & unit.standstill & ~unit.complete & (unit.fault == FaultCode.NONE)
    before = claim.begun & claim.before(noticed)
    claim.always("the code is that of a deadlock", ~before | (unit.fault_code == FaultCode.DEADLOCK))
    claim.always("and the launch is stopped", ~before | (unit.stop & ~unit.running))


@pytest.mark.slow
@proved(
    control,
    ("with m.Elif(self.complete & ~finished)", "with m.Elif(self.complete & ~finished & ~self.finish)"),
    ("finished.eq(finished | self.finish)", "finished.eq(self.finish)"),
    depth=8,
)
def test_a_launch_that_is_complete_without_a_finish_is_a_fault_and_with_one_is_done(claim, rtl):
    unit = controlled(claim, rtl)
    ends = unit.running & unit.complete & (unit.fault == FaultCode.NONE)
    seen = finished(claim, unit)
    without, with_one = claim.begun & claim.before(ends & ~seen), claim.begun & claim.before(ends & seen)
    claim.always("no FINISH is reported", ~without | (unit.fault_code == FaultCode.NO_FINISH))
    claim.always("with one there is no fault", ~with_one | ((unit.fault_code == FaultCode.NONE) & ~unit.running))
    claim.always("but an end", ~(ends & seen) | unit.done)
    claim.always("and then a cleared machine", ~with_one | unit.clear)


@pytest.mark.slow
@proved(
    control,
    ("self.running.eq(0), failing.eq(1), self.fault_code.eq(fault)", "self.running.eq(0), failing.eq(1)"),
    ("m.d.comb += fault.eq(self.fault)", "m.d.comb += fault.eq(self.fault[:3])"),
    induction=1,
)
def test_a_units_fault_stops_the_launch_in_the_next_cycle_and_its_code_is_reported(claim, rtl):
    unit = controlled(claim, rtl)
    # No unit can report a fault in the cycle in which a launch completes, since none is active.
    claim.assume(~(unit.complete & (unit.fault != FaultCode.NONE)))
    faulty = claim.begun & claim.before(unit.running & (unit.fault != FaultCode.NONE))
    claim.always("the code is reported", ~faulty | (unit.fault_code == claim.before(unit.fault)))
    claim.always("the launch does not run on", ~faulty | ~unit.running)


@pytest.mark.slow
@proved(
    control,
    ("m.d.sync += failing.eq(0)", "m.d.sync += [failing.eq(0), self.fault_code.eq(0)]"),
    ("                self.fault_code.eq(FaultCode.NONE),\n", ""),
    depth=12,
)
def test_a_fault_is_reported_until_the_next_launch_starts_and_no_longer(claim, rtl):
    unit = controlled(claim, rtl)
    code, started = claim.before(unit.fault_code), claim.before(unit.start)
    stays = claim.begun & (code != FaultCode.NONE) & ~started
    claim.always("the code stays", ~stays | (unit.fault_code == code))
    claim.always("a new launch has no fault", ~(claim.begun & started) | (unit.fault_code == FaultCode.NONE))
    claim.always("what has a fault is not done", ~(unit.done & (unit.fault_code != FaultCode.NONE)))


@pytest.mark.slow
@proved(
    control,
    ("with m.Elif(failing & self.quiet)", "with m.Elif(failing)"),
    ("self.clear.eq(ended | (failing & self.quiet))", "self.clear.eq(ended | failing)"),
    ("self.clear.eq(ended | ", "self.clear.eq(done_before | "),
    ("with m.Elif(self.clear):", "with m.Elif(self.quiet):"),
    induction=1,
)
def test_after_a_fault_everything_is_held_until_the_bus_is_quiet_and_then_cleared(claim, rtl):
    unit = controlled(claim, rtl)
    stopped, quiet = claim.begun & claim.before(unit.stop & ~unit.clear), claim.before(unit.quiet)
    claim.always("held until it is quiet", ~(stopped & ~quiet) | (unit.stop & unit.busy))
    claim.always("no longer than that", ~(stopped & quiet) | ~unit.busy)
    claim.always("cleared when it was quiet, not before", ~stopped | (unit.clear == quiet))
    claim.always("and held meanwhile", ~stopped | unit.stop)
    cleared = claim.begun & claim.before(unit.stop & unit.clear)
    claim.always("which takes a cycle", ~cleared | ~(unit.stop | unit.clear))
    left = claim.begun & claim.before(unit.busy) & ~unit.busy
    claim.always("a launch that ends leaves a cleared machine", ~left | unit.clear)


@pytest.mark.slow
@proved(
    control,
    ("asked & ~self.busy & ~self.start", "asked & ~self.start"),
    ("self.w_data[0] & self.w_strb[0]", "self.w_data[0]"),
    ('(self.aw_addr == BY_NAME["CONTROL"].address) & ', ""),
    induction=1,
)
def test_a_launch_starts_when_the_host_requests_it_and_there_is_none(claim, rtl):
    unit = controlled(claim, rtl)
    requested = write_to(unit, "CONTROL") & unit.w_data[0] & unit.w_strb[0] & ~unit.busy & ~unit.start
    claim.always("a start follows the request, else none", ~claim.begun | (unit.start == claim.before(requested)))
    claim.always("in the next cycle it runs", ~(claim.begun & claim.before(unit.start)) | unit.running)


@proved(
    control,
    ("self.cycle.eq(self.cycle + 1)", "self.cycle.eq(self.cycle + ~self.finish)"),
    ("self.cycle.eq(1)", "self.cycle.eq(0)"),
    induction=1,
)
def test_the_cycle_counts_from_the_start_of_the_launch(claim, rtl):
    unit = controlled(claim, rtl)
    since = Signal(registers.COUNTER_BITS)
    with claim.m.If(unit.start):
        claim.m.d.sync += since.eq(1)
    with claim.m.Else():
        claim.m.d.sync += since.eq(since + 1)
    claim.always("cycles since the start", ~unit.running | (unit.cycle == since))


@pytest.mark.slow
@proved(
    control,
    (
        "with m.Elif(self.b_ready):\n            m.d.sync += self.b_valid.eq(0)",
        "with m.Else():\n            m.d.sync += self.b_valid.eq(0)",
    ),
    ("(~self.b_valid | self.b_ready)", "1"),
    induction=1,
)
def test_every_write_of_the_host_is_answered_once(claim, rtl):
    unit = controlled(claim, rtl)
    due = Signal(2)
    taken = unit.aw_valid & unit.aw_ready
    claim.m.d.sync += due.eq(due + taken - (unit.b_valid & unit.b_ready))
    claim.always("address and data are taken together", taken == (unit.w_valid & unit.w_ready))
    claim.always("an answer while one is due", unit.b_valid == (due != 0))
    claim.always("one at a time", due <= 1)


@proved(
    control,
    (
        "with m.Elif(self.r_ready):\n            m.d.sync += self.r_valid.eq(0)",
        "with m.Else():\n            m.d.sync += self.r_valid.eq(0)",
    ),
    ("self.ar_ready.eq(~self.r_valid | self.r_ready)", "self.ar_ready.eq(1)"),
    induction=1,
)
def test_every_read_of_the_host_is_answered_once_and_the_answer_stays_until_accepted(claim, rtl):
    unit = controlled(claim, rtl)
    due = Signal(2)
    claim.m.d.sync += due.eq(due + (unit.ar_valid & unit.ar_ready) - (unit.r_valid & unit.r_ready))
    waits = claim.begun & claim.before(unit.r_valid & ~unit.r_ready)
    claim.always("an answer while one is due", unit.r_valid == (due != 0))
    claim.always("one at a time", due <= 1)
    claim.always("the answer stays", ~waits | (unit.r_data == claim.before(unit.r_data)))


@pytest.mark.slow
@proved(
    control,
    ("(target & ~bits) | (self.w_data & bits)", "self.w_data"),
    ("self.w_strb[byte].replicate(8)", "self.w_strb[0].replicate(8)"),
    induction=1,
)
def test_a_write_changes_the_bytes_that_it_means_of_the_register_that_it_names(claim, rtl):
    unit = controlled(claim, rtl)
    own = {"STREAM_LOW": unit.stream[:32], "STREAM_HIGH": unit.stream[32:], "COUNT": unit.count}
    own |= {f"TOKENS_IN_{queue}": tokens for queue, tokens in enumerate(unit.tokens_in)}
    data, strobes = claim.before(unit.w_data), claim.before(unit.w_strb)
    for name, register in own.items():
        written, before = claim.before(write_to(unit, name)), claim.before(register)
        for low in range(0, len(register), 8):
            meant = written & strobes[low // 8]
            byte = register[low : low + 8]
            claim.always(f"{name} is written", ~(claim.begun & meant) | (byte == data[low : low + 8]))
            claim.always(f"{name} stays", ~claim.begun | meant | (byte == before[low : low + 8]))


@pytest.mark.slow
@proved(
    control,
    (
        '"STREAM_HIGH": self.stream[32:],\n            "COUNT": self.count,\n        }\n        content',
        '"STREAM_HIGH": self.stream[:32],\n            "COUNT": self.count,\n        }\n        content',
    ),
    ("self.done, self.fault_code != FaultCode.NONE", "self.done, self.running"),
    ("[self.r_valid.eq(1), self.r_data.eq(0)]", "[self.r_valid.eq(1)]"),
    induction=1,
)
def test_a_read_tells_what_the_register_was_when_it_was_asked_for(claim, rtl):
    unit = controlled(claim, rtl)
    state = Cat(unit.busy | unit.start, unit.done, unit.fault_code != FaultCode.NONE, Signal(5), unit.fault_code)
    content = {
        "CONTROL": Signal(1),
        "STATUS": state,
        "STREAM_LOW": unit.stream[:32],
        "STREAM_HIGH": unit.stream[32:],
        "COUNT": unit.count,
        "CYCLES_LOW": unit.cycle[:32],
        "CYCLES_HIGH": unit.cycle[32:],
    }
    content |= {f"TOKENS_OUT_{queue}": tokens for queue, tokens in enumerate(unit.tokens)}
    for name, value in content.items():
        requested = unit.ar_valid & unit.ar_ready & (unit.ar_addr == registers.BY_NAME[name].address)
        claim.always(name, ~(claim.begun & claim.before(requested)) | (unit.r_data == claim.before(value)))
