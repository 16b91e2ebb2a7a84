"""The memory's side of the bus in Python: what it refuses, here of outputs that are made up."""

import pytest

from lathe.configs import load_config
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.engines.host import settings
from lathe.rtl.engines.launch import BrokenRunError, Launch
from lathe.rtl.engines.testbench import Bench
from lathe.rtl.ports import WRITE_ID, TracePorts

TINY = load_config("tiny")
ADDRESS = ("valid", "addr", "len", "size", "burst", "id")
NAMES = (*(f"ar_{name}" for name in ADDRESS), *(f"aw_{name}" for name in ADDRESS))
NAMES += ("w_valid", "w_data", "w_strb", "w_last", "r_ready", "b_ready", "host")
BEAT = TINY.bus_bytes.bit_length() - 1


def outputs(start=0, done=0, **shown):
    """What the machine shows in a cycle; the rest is 0."""
    traced = len(TracePorts(Geometry(TINY)).signals)
    return tuple(shown.get(name, 0) for name in NAMES), (start, done, *[0] * (traced - 2))


def run(*cycles):
    """A bench takes outputs from cycle 1 of a launch on."""
    launch = Launch(0x1000, 1, PagedMemory())
    steps = Bench(TINY, (launch,)).steps()
    next(steps)
    for each in [*[outputs()] * len(settings(launch)), outputs(start=1), *cycles]:
        steps.send(each)


def refused(*cycles):
    """The message about outputs of a launch."""
    with pytest.raises(BrokenRunError) as raised:
        run(*cycles)
    return str(raised.value)


def test_write_data_before_their_address():
    assert refused(outputs(w_valid=1)) == (
        "The machine broke rule W_ADDRESS of the memory port on channel W in cycle 1: data must follow their burst's "
        "address."
    )


def test_an_end_while_a_read_is_under_way():
    assert refused(outputs(ar_valid=1, ar_size=BEAT, ar_burst=1), outputs(done=1)) == (
        "The machine broke rule R_END of the memory port on channel R in cycle 2: all beats that were asked for must "
        "have come before a launch ends."
    )


def test_an_end_while_a_write_is_under_way():
    assert refused(outputs(aw_valid=1, aw_size=BEAT, aw_burst=1, aw_id=WRITE_ID), outputs(done=1)) == (
        "The machine broke rule B_END of the memory port on channel B in cycle 2: all bursts must have been written "
        "and answered before a launch ends."
    )
