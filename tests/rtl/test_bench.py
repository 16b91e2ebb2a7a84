"""The testbench in Python: violations of the bus protocol in synthetic outputs are reported."""

from error_checks import raises

from lathe.configs import load_config
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.engines.axi_checker import ProtocolError
from lathe.rtl.engines.host import settings
from lathe.rtl.engines.launch import Launch
from lathe.rtl.engines.testbench import Bench
from lathe.rtl.ports import WRITE_ID, TracePorts

TINY = load_config("tiny")
ADDRESS = ("valid", "addr", "len", "size", "burst", "id")
NAMES = (*(f"ar_{name}" for name in ADDRESS), *(f"aw_{name}" for name in ADDRESS))
NAMES += ("w_valid", "w_data", "w_strb", "w_last", "r_ready", "b_ready", "host")
BEAT = TINY.bus_bytes.bit_length() - 1


def outputs(start=0, done=0, **shown):
    """The outputs of a machine in a cycle; those not given are 0."""
    traced = len(TracePorts(Geometry(TINY)).signals)
    return tuple(shown.get(name, 0) for name in NAMES), (start, done, *[0] * (traced - 2))


def run(*cycles):
    """Feed outputs to a testbench from cycle 1 of a launch on."""
    launch = Launch(0x1000, 1, PagedMemory())
    steps = Bench(TINY, (launch,)).steps()
    next(steps)
    for each in [*[outputs()] * len(settings(launch)), outputs(start=1), *cycles]:
        steps.send(each)


def test_write_data_before_their_address():
    raises(ProtocolError, run, outputs(w_valid=1), mentions=("machine", "W_ADDRESS", "channel W", "cycle 1"))


def test_an_end_while_a_read_is_pending():
    cycles = outputs(ar_valid=1, ar_size=BEAT, ar_burst=1), outputs(done=1)
    raises(ProtocolError, run, *cycles, mentions=("machine", "R_END", "channel R", "cycle 2"))


def test_an_end_while_a_write_is_pending():
    cycles = outputs(aw_valid=1, aw_size=BEAT, aw_burst=1, aw_id=WRITE_ID), outputs(done=1)
    raises(ProtocolError, run, *cycles, mentions=("machine", "B_END", "channel B", "cycle 2"))
