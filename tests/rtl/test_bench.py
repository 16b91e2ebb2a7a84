"""The memory's side of the bus in Python: what it refuses, here of outputs that are made up, and how it interleaves."""

from collections import Counter

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.isa.paged_memory import PagedMemory
from lathe.rtl.engines.bench import Bench
from lathe.rtl.engines.dram import AR, OKAY, Bytes, Dram
from lathe.rtl.engines.host import settings
from lathe.rtl.engines.launch import EngineError, Launch
from lathe.rtl.geometry import Geometry
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
    with pytest.raises(EngineError) as raised:
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


def dram(stalls):
    """A memory with a different byte at each address of a page, that has accepted a burst for each of three ids."""
    memory = PagedMemory.of([0], np.arange(4096).reshape(1, -1).astype(np.uint8))
    found = Dram(TINY.memory, 1, Bytes(memory), memory_end=None, error=None, stalls=stalls)
    for number in range(3):
        found.accept(0, "read", 64 * number, 8, number)
    found.accept(0, "read", 512, 2, 0)
    return found


def beats(memory):
    """The read beats of a memory, in order."""
    found = []
    for t in range(2000):
        beat = memory.offer(t)[2]
        if beat is not None:
            memory.taken()
            found.append(beat)
    return found


def test_a_memory_that_does_not_stall_serves_bursts_in_order():
    memory = dram(None)
    assert [beat[0] for beat in beats(memory)] == [0] * 8 + [1] * 8 + [2] * 8 + [0] * 2
    assert memory.interleaved == 0


@pytest.mark.parametrize("seed", range(5))
def test_beats_of_different_ids_come_interleaved_and_those_of_one_id_in_order(seed):
    memory = dram(seed)
    found = beats(memory)
    assert memory.interleaved > 5
    starts = {0: [*range(0, 64, 8), 512, 520], 1: range(64, 128, 8), 2: range(128, 192, 8)}
    for number, addresses in starts.items():
        mine = [(data & 255, last) for own, data, last, _ in found if own == number]
        ends = {56, 120, 184, 520}
        assert mine == [(address & 255, int(address in ends)) for address in addresses]
    assert {beat[3] for beat in found} == {OKAY}


def test_channels_stall_with_a_likelihood_of_their_own():
    seen = Counter()
    for seed in range(20):
        memory = dram(seed)
        ready = sum(memory.lucky(AR) for _ in range(1000))
        seen[min((100, 300, 600, 900), key=lambda often: abs(often - ready))] += 1
        assert min(abs(often - ready) for often in (100, 300, 600, 900)) < 60
    assert len(seen) == 4
