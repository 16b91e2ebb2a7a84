"""The data side of a load: its steps are those of the manual, each in the first possible cycle."""

import pytest
from claims import proved
from stepping import Steps

from lathe.isa.table import Unit
from lathe.rtl import read_data


def taken_in_order(claim, rtl, bus_bits, loads, pending):
    steps = Steps(claim, rtl, bus_bits, loads, pending)
    steps.check_registers()
    unit, write, now, always = steps.unit, steps.unit.write, steps.now, claim.always
    always("a step as soon as it is possible", unit.step == steps.steps)
    always("else it waits for a beat", unit.wait == (steps.reads & ~unit.stop & ~unit.hold & ~unit.beat_valid))
    always("a beat is taken of a chain, and only then", unit.take == (steps.reads & steps.steps))
    always("padding and beats are written, and nothing else", write.en == (steps.steps & (steps.pads | steps.reads)))
    always("padding where it is due", ~write.en | (write.pad == steps.pads))
    address = (now.sram + steps.written)[: len(write.address)]
    always("at consecutive addresses", ~write.en | ((write.address == address) & (write.memory == now.memory)))
    bytes_of_beat = (write.offset == steps.at) & (write.size == steps.size) & (write.data == unit.beat)
    always("the bytes of the chain, and no others", ~unit.take | bytes_of_beat)
    always("the last step is the last", unit.last == steps.ends)
    always("its tokens are the transfer's", ~unit.last | (unit.pushes == now.pushes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bus_bits", "loads"), [(64, Unit.LOAD), (64, Unit.COMPUTE), pytest.param(256, Unit.LOAD, marks=pytest.mark.slow)]
)
@proved(
    read_data,
    ("chain_ends.eq(rest + offset <= 2 * bus)", "chain_ends.eq(rest + offset < 2 * bus)"),
    ("address.eq(address + write.size), offset.eq(0)", "address.eq(address + bus), offset.eq(0)"),
    ("self.last.eq((pads == 1) & (chains == 0))", "self.last.eq(pads == 1)"),
    ("chain_ends.eq(now.chain_bytes + next_offset <= bus)", "chain_ends.eq(now.chain_bytes <= bus)"),
    ("next_offset.eq(first_offset + now.stride_bytes)", "next_offset.eq(offset + now.stride_bytes)"),
    induction=1,
    depth=9,
)
def test_steps_follow_each_other_as_the_manual_says(claim, rtl, bus_bits, loads):
    taken_in_order(claim, rtl, bus_bits, loads, 1)


@pytest.mark.slow
@proved(
    read_data,
    ("m.d.sync += pads.eq(now.tail)", "m.d.sync += pads.eq(now.gap)"),
    ("self.last.eq(now.tail == 0)", "self.last.eq(1)"),
    ("address.eq(address + element)", "address.eq(address + 1)"),
    ("with m.If(here & ~self.stop &", "with m.If(here &"),
    ("~self.stop & ~self.hold", "~self.stop"),
    ("with m.If(now.nothing):", "with m.If(chains == 0):"),
    induction=1,
    depth=9,
)
def test_a_beat_of_one_byte_is_of_one_chain(claim, rtl):
    taken_in_order(claim, rtl, 8, Unit.LOAD, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bus_bits", "loads", "pending"),
    [(16, Unit.COMPUTE, 2), pytest.param(64, Unit.LOAD, 3, marks=pytest.mark.slow), (64, Unit.LOAD, 4)],
)
@proved(
    read_data,
    ("with m.If(self.last | ~here):", "with m.If(~here):"),
    ("self.start & ~advance", "self.start & ~self.last"),
    ("advance = self.last | ~here", "advance = self.step | ~here"),
    ("address.eq(following.sram)", "address.eq(now.sram)"),
    ("pads.eq(following.lead)", "pads.eq(0)"),
    induction=1,
    depth=9,
)
def test_the_next_transfer_begins_right_after_the_previous_one(claim, rtl, bus_bits, loads, pending):
    taken_in_order(claim, rtl, bus_bits, loads, pending)
