"""The protocol checkers of the memory port, in Python and in C++."""

import random
from collections import deque
from copy import deepcopy
from ctypes import POINTER, Structure, byref, c_int32, c_int64, c_uint8, c_uint64

import pytest
from error_checks import check_mentions, raises

from lathe.configs import load_config
from lathe.rtl.engines.axi_checker import Protocol, ProtocolError, Rule

BUS = 8
# Bursts of at most 16 beats of 8 bytes, at most 2 reads in flight.
MEMORY = load_config("tiny").with_(**{"memory.outstanding_reads": 2, "memory.burst_beats": 16}).memory


class Address(Structure):
    _fields_ = [
        ("address", c_uint64),
        *((name, c_uint8) for name in ("valid", "ready", "length", "size", "burst", "id")),
    ]


class Bus(Structure):
    _fields_ = [
        *(("ar", Address), ("aw", Address)),
        *((name, c_uint8) for name in ("w_valid", "w_ready", "w_last")),
        *((name, c_uint8) for name in ("r_valid", "r_ready", "r_last", "r_id", "r_response")),
        *((name, c_uint8) for name in ("b_valid", "b_ready", "b_id", "b_response")),
        *(("w_data", c_uint8 * BUS), ("w_strobes", c_uint8), ("r_data", c_uint8 * BUS)),
    ]


SHIM = """
#include "protocol.h"
extern "C" int32_t watch(const LatheBus *cycles, int64_t count, int64_t most, int64_t outstanding, int32_t ended,
                         int64_t *cycle) {
    Protocol protocol(most, outstanding);
    for (*cycle = 0; *cycle < count; ++*cycle) {
        const Rule rule = protocol.see(cycles[*cycle]);
        if (rule != Rule::NONE) return static_cast<int32_t>(rule);
    }
    return ended ? static_cast<int32_t>(protocol.end()) : 0;
}
"""


@pytest.fixture(scope="module")
def compiled(in_cpp):
    """The checker in C++ as a function of cycles: the first broken rule, and its cycle."""
    watch = in_cpp(SHIM, BUS).watch
    watch.argtypes = [POINTER(Bus), c_int64, c_int64, c_int64, c_int32, POINTER(c_int64)]

    def run(cycles, *, ended):
        found = (Bus * len(cycles))()
        for each, (ar, aw, w, r, b) in zip(found, cycles, strict=True):
            for target, source in ((each.ar, ar), (each.aw, aw)):
                target.valid, target.ready, target.address, target.length, target.size, target.burst, target.id = source
            each.w_valid, each.w_ready, data, each.w_strobes, each.w_last = w
            each.w_data[:] = data.to_bytes(BUS, "little")
            each.r_valid, each.r_ready, each.r_id, data, each.r_last, each.r_response = r
            each.r_data[:] = data.to_bytes(BUS, "little")
            each.b_valid, each.b_ready, each.b_id, each.b_response = b
        cycle = c_int64()
        rule = watch(found, len(cycles), MEMORY.burst_beats, MEMORY.outstanding_reads, ended, byref(cycle))
        return (Rule(rule), cycle.value) if rule else None

    return run


def watched(cycles, *, ended):
    """The same of the checker in Python."""
    protocol = Protocol(MEMORY)
    try:
        for cycle, signals in enumerate(cycles):
            protocol.see(cycle, *signals)
        if ended:
            protocol.end(len(cycles))
    except ProtocolError as error:
        return error.rule, error.cycle
    return None


QUIET = ((0, 1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 1, 0, 0))


def cycle(**channels):
    """A cycle in which only the given channels are active: ar, aw, w, r, b."""
    return tuple(channels.get(name, quiet) for name, quiet in zip(("ar", "aw", "w", "r", "b"), QUIET, strict=True))


def ar(address=0, beats=1, number=0, *, ready=1, size=3, burst=1):
    return cycle(ar=(1, ready, address, beats - 1, size, burst, number))


def aw(address=0, beats=1, number=3, *, ready=1, size=3, burst=1):
    return cycle(aw=(1, ready, address, beats - 1, size, burst, number))


def w(last=1, *, ready=1, data=5, strobes=255):
    return cycle(w=(1, ready, data, strobes, last))


def r(number=0, last=1, *, ready=1, data=7, response=0):
    return cycle(r=(1, ready, number, data, last, response))


def b(number=3, *, ready=1, response=0):
    return cycle(b=(1, ready, number, response))


NOTHING = cycle()

# For each rule, cycles whose last one breaks it; rules with END are broken by the launch's end after them.
BROKEN = [
    (Rule.AR_VALID, [ar(ready=0), NOTHING]),
    (Rule.AR_STABLE, [ar(64, ready=0), ar(128)]),
    (Rule.AR_STABLE, [ar(beats=2, ready=0), ar(beats=3)]),
    (Rule.AR_STABLE, [ar(number=1, ready=0), ar(number=1, ready=0), ar(number=2)]),
    (Rule.AR_KIND, [ar(4)]),
    (Rule.AR_KIND, [ar(size=2)]),
    (Rule.AR_KIND, [ar(burst=0)]),
    (Rule.AR_PAGE, [ar(4096 - 8, beats=2)]),
    (Rule.AR_LENGTH, [ar(beats=17)]),
    (Rule.AR_ID, [ar(number=3)]),
    (Rule.AR_OUTSTANDING, [ar(), ar(number=1), ar(number=2)]),
    (Rule.AR_OUTSTANDING, [ar(), ar(beats=2, number=1), r(1, last=0), ar(number=2)]),
    (Rule.AW_VALID, [aw(ready=0), NOTHING]),
    (Rule.AW_STABLE, [aw(64, ready=0), aw(128)]),
    (Rule.AW_KIND, [aw(4)]),
    (Rule.AW_KIND, [aw(burst=2)]),
    (Rule.AW_PAGE, [aw(8192 - 16, beats=3)]),
    (Rule.AW_LENGTH, [aw(beats=256)]),
    (Rule.AW_ID, [aw(number=0)]),
    (Rule.W_VALID, [aw(), w(ready=0), NOTHING]),
    (Rule.W_STABLE, [aw(), w(ready=0), w(data=6)]),
    (Rule.W_STABLE, [aw(), w(ready=0), w(strobes=254)]),
    (Rule.W_ADDRESS, [w()]),
    (Rule.W_ADDRESS, [aw(), w(), w()]),
    (Rule.W_ADDRESS, [cycle(aw=aw()[1], w=w()[2])]),
    (Rule.W_LAST, [aw(beats=2), w()]),
    (Rule.W_LAST, [aw(beats=2), w(0), w(0)]),
    (Rule.R_VALID, [ar(), r(ready=0), NOTHING]),
    (Rule.R_STABLE, [ar(), r(ready=0), r(data=8)]),
    (Rule.R_STABLE, [ar(), r(ready=0), r(response=2)]),
    (Rule.R_BURST, [r()]),
    (Rule.R_BURST, [ar(number=1), r(2)]),
    (Rule.R_BURST, [cycle(ar=ar()[0], r=r()[3])]),
    (Rule.R_BURST, [ar(), r(), r()]),
    (Rule.R_LAST, [ar(beats=2), r()]),
    (Rule.R_LAST, [ar(beats=2), ar(number=1), r(0, 0), r(1), r(0, 0)]),
    (Rule.B_VALID, [aw(), w(), b(ready=0), NOTHING]),
    (Rule.B_STABLE, [aw(), w(), b(ready=0), b(response=2)]),
    (Rule.B_BURST, [b()]),
    (Rule.B_BURST, [aw(), cycle(w=w()[2], b=b()[4])]),
    (Rule.B_BURST, [aw(), w(), b(), b()]),
    (Rule.B_ID, [aw(), w(), b(0)]),
    (Rule.R_END, [ar(), ar(number=1), r(1)]),
    (Rule.B_END, [aw()]),
    (Rule.B_END, [aw(), w()]),
]


@pytest.mark.parametrize(("rule", "cycles"), BROKEN)
def test_a_broken_rule_is_reported_in_its_cycle(compiled, rule, cycles):
    ended = rule in (Rule.R_END, Rule.B_END)
    expected = rule, len(cycles) if ended else len(cycles) - 1
    assert watched(cycles, ended=ended) == expected
    assert compiled(cycles, ended=ended) == expected


def test_each_rule_has_a_case():
    assert {rule for rule, _ in BROKEN} == set(Rule)


def test_the_error_names_side_rule_channel_and_cycle():
    protocol = Protocol(MEMORY)
    protocol.see(0, *ar(ready=0))
    mentions = ("The machine", "AR_VALID", "channel AR", "cycle 1", "ARVALID", "ARREADY")
    raises(ProtocolError, protocol.see, 1, *NOTHING, mentions=mentions)
    check_mentions(ProtocolError(Rule.R_LAST, 7), "The memory", "R_LAST", "channel R", "cycle 7", "RLAST")
    assert all(" must " in rule.text for rule in Rule)


def traffic(rng, length):
    """Cycles that obey the rules, with stalls, interleaved reads and bursts of all sizes."""
    cycles, reads, writes, unanswered = [], {0: deque(), 1: deque(), 2: deque()}, deque(), 0
    held = [None] * 5

    def burst():
        beats = rng.randint(1, MEMORY.burst_beats)
        return rng.randrange(8) * 4096 + rng.randrange(512 - beats + 1) * 8, beats - 1, 3, 1

    for _ in range(length):
        shown = list(held)
        inflight = sum(map(len, reads.values()))
        if shown[0] is None and inflight < MEMORY.outstanding_reads and rng.random() < 0.5:
            shown[0] = (*burst(), rng.randrange(3))
        if shown[1] is None and len(writes) < 3 and rng.random() < 0.4:
            shown[1] = (*burst(), 3)
        if shown[2] is None and writes and rng.random() < 0.7:
            shown[2] = (rng.getrandbits(64), rng.getrandbits(8), int(writes[0] == 1))
        ids = [number for number in reads if reads[number]]
        if shown[3] is None and ids and rng.random() < 0.7:
            number = rng.choice(ids)
            shown[3] = (number, rng.getrandbits(64), int(reads[number][0] == 1), rng.choice([0, 0, 2]))
        if shown[4] is None and unanswered and rng.random() < 0.5:
            shown[4] = (3, 0)
        ready = [int(rng.random() < 0.6) for _ in range(5)]
        cycles.append(
            tuple(
                (0, ready[number], *quiet[2:]) if channel is None else (1, ready[number], *channel)
                for number, (channel, quiet) in enumerate(zip(shown, QUIET, strict=True))
            )
        )
        passed = [channel is not None and ready[number] for number, channel in enumerate(shown)]
        held = [None if passed[number] else channel for number, channel in enumerate(shown)]
        unanswered -= passed[4]
        if passed[2]:
            writes[0] -= 1
            if not writes[0]:
                writes.popleft()
                unanswered += 1
        if passed[3]:
            queue = reads[shown[3][0]]
            queue[0] -= 1
            if not queue[0]:
                queue.popleft()
        if passed[0]:
            reads[shown[0][-1]].append(shown[0][1] + 1)
        if passed[1]:
            writes.append(shown[1][1] + 1)
    return cycles


# Bits of each signal of a channel, which a fault replaces at random.
BITS = ((1, 1, 16, 8, 3, 2, 2), (1, 1, 16, 8, 3, 2, 2), (1, 1, 64, 8, 1), (1, 1, 2, 64, 1, 2), (1, 1, 2, 2))


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_python_and_cpp_agree_on_random_traffic_with_and_without_faults(compiled, seed):
    rng = random.Random(seed)
    found = set()
    for _ in range(60):
        cycles = traffic(rng, 80)
        assert watched(cycles, ended=False) is None
        assert compiled(cycles, ended=False) is None
        assert watched(cycles, ended=True) == compiled(cycles, ended=True)
        for _ in range(5):
            broken = deepcopy(cycles)
            at, channel = rng.randrange(len(cycles)), rng.randrange(5)
            values = list(broken[at][channel])
            signal = rng.randrange(len(values))
            values[signal] = rng.getrandbits(BITS[channel][signal])
            broken[at] = (*broken[at][:channel], tuple(values), *broken[at][channel + 1 :])
            told = watched(broken, ended=False)
            assert told == compiled(broken, ended=False)
            found.add(told and told[0])
    assert len(found) > 12, f"faults should meet most rules, not only {found}"
