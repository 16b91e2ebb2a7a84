"""The memory model on the bus: interleaving, and agreement of the models in simulator, Python and C++."""

import random
from collections import Counter, deque
from ctypes import POINTER, Structure, byref, c_int64, c_uint8, c_uint64, c_void_p

import numpy as np
import pytest

from lathe.configs import MemoryConfig, load_config
from lathe.configs.memory import PAGE_BYTES
from lathe.isa.fault import BusError
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.derived_widths import log2
from lathe.rtl.engines.abi import End, LatheCounts, LatheLaunch
from lathe.rtl.engines.dram import AR, OKAY, Bytes, Dram, first_state
from lathe.rtl.ports import INCREMENTING, WRITE_ID
from lathe.sim.memory_port import READ, WRITE, Port

TINY = load_config("tiny")


def dram(stalls):
    """A memory with known contents that has accepted a burst of each of three ids, and a second one of id 0."""
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


def test_a_memory_without_stalls_serves_bursts_in_order():
    memory = dram(None)
    assert [beat[0] for beat in beats(memory)] == [0] * 8 + [1] * 8 + [2] * 8 + [0] * 2
    assert memory.interleaved == 0


@pytest.mark.parametrize("seed", range(5))
def test_beats_of_different_ids_are_interleaved_and_those_of_one_id_in_order(seed):
    memory = dram(seed)
    found = beats(memory)
    assert memory.interleaved > 5
    starts = {0: [*range(0, 64, 8), 512, 520], 1: range(64, 128, 8), 2: range(128, 192, 8)}
    for number, addresses in starts.items():
        mine = [(data & 255, last) for own, data, last, _ in found if own == number]
        ends = {56, 120, 184, 520}
        assert mine == [(address & 255, int(address in ends)) for address in addresses]
    assert {beat[3] for beat in found} == {OKAY}


def test_each_channel_stalls_with_its_own_probability():
    seen = Counter()
    for seed in range(20):
        memory = dram(seed)
        ready = sum(memory.lucky(AR) for _ in range(1000))
        seen[min((100, 300, 600, 900), key=lambda often: abs(often - ready))] += 1
        assert min(abs(often - ready) for often in (100, 300, 600, 900)) < 60
    assert len(seen) == 4


# The signals of the memory port that the memory drives, then those that the machine drives.
OFFERED = ("arready", "awready", "rvalid", "rid", "rlast", "rresp", "wready", "bvalid", "bid", "bresp")
SHOWN = ("arvalid", "arlen", "arsize", "arburst", "arid", "awvalid", "awlen", "awsize", "awburst", "awid")
SHOWN += ("wvalid", "wlast", "rready", "bready")
ADDRESSES, DATA = ("araddr", "awaddr"), ("rdata", "wdata", "wstrb")

SHIM = f"""
#include "dram.h"
struct Pins {{
    uint64_t {", ".join(f"m_axi_{name}" for name in ADDRESSES)};
    uint8_t {", ".join(f"m_axi_{name}" for name in (*OFFERED, *SHOWN))};
    uint8_t {", ".join(f"m_axi_{name}[kBusBytes]" for name in DATA)};
}};
struct Instance {{
    Memory memory;
    LatheLaunch launch;
    LatheCounts counts = {{}};
    Dram<Pins> dram{{memory, launch, counts}};
}};
extern "C" {{
void *dram_new(const LatheLaunch *launch) {{ return new Instance{{{{}}, *launch}}; }}
void dram_delete(Instance *instance) {{ delete instance; }}
void dram_offer(Instance *instance, Pins *pins, int64_t t) {{ instance->dram.offer(*pins, t); }}
int64_t dram_see(Instance *instance, Pins *pins, int64_t t) {{ return instance->dram.see(*pins, t); }}
void dram_counts(Instance *instance, LatheCounts *counts) {{ *counts = instance->counts; }}
void dram_page(Instance *instance, uint64_t address, uint8_t *page) {{
    std::memcpy(page, instance->memory.make(address), kPageBytes);
}}
}}
"""


@pytest.fixture(scope="module")
def compiled(in_cpp):
    """The memory in C++, by bus width in bytes: the library, and the structure of its pins."""
    libraries = {}

    def of(bus):
        if bus not in libraries:
            fields = [(name, c_uint64) for name in ADDRESSES] + [(name, c_uint8) for name in (*OFFERED, *SHOWN)]
            pins = type("Pins", (Structure,), {"_fields_": fields + [(name, c_uint8 * bus) for name in DATA]})
            library = in_cpp(SHIM, bus)
            library.dram_new.argtypes, library.dram_new.restype = [POINTER(LatheLaunch)], c_void_p
            library.dram_delete.argtypes = [c_void_p]
            library.dram_offer.argtypes = [c_void_p, POINTER(pins), c_int64]
            library.dram_see.argtypes, library.dram_see.restype = [c_void_p, POINTER(pins), c_int64], c_int64
            library.dram_counts.argtypes = [c_void_p, POINTER(LatheCounts)]
            library.dram_page.argtypes = [c_void_p, c_uint64, POINTER(c_uint8)]
            libraries[bus] = library, pins
        return libraries[bus]

    return of


class InCpp:
    """The memory in C++, with the interface of the one in Python."""

    def __init__(self, compiled, config, response_latency, memory_end, error, stalls):
        self.bus = config.bus_bits // 8
        self.called, pins = compiled(self.bus)
        self.pins = pins()
        beat = dict.fromkeys(("read", "write"), -1) | ({} if error is None else {error.channel: error.number})
        self.dram = self.called.dram_new(
            LatheLaunch(
                memory_end=-1 if memory_end is None else memory_end,
                error_read=beat["read"],
                error_write=beat["write"],
                stall_seed=0 if stalls is None else first_state(stalls),
                latency=config.latency,
                cycles_per_beat=config.cycles_per_beat,
                shared_bandwidth=config.shared_bandwidth,
                response_latency=response_latency,
                burst_beats=config.burst_beats,
                outstanding_reads=config.outstanding_reads,
            )
        )

    def offer(self, t):
        pins = self.pins
        self.called.dram_offer(self.dram, byref(pins), t)
        beat = (pins.rid, int.from_bytes(pins.rdata, "little"), pins.rlast, pins.rresp) if pins.rvalid else None
        return pins.arready, pins.awready, beat, pins.wready, pins.bresp if pins.bvalid else None

    def see(self, t, ar, aw, w, r, b):
        pins = self.pins
        for channel, values in (("ar", ar), ("aw", aw)):
            valid, _, *shown = values
            setattr(pins, f"{channel}valid", valid)
            for name, value in zip(("addr", "len", "size", "burst", "id"), shown, strict=True):
                setattr(pins, f"{channel}{name}", value)
        pins.wvalid, _, data, strobes, pins.wlast = w
        pins.wdata[:] = data.to_bytes(self.bus, "little")
        pins.wstrb[:] = strobes.to_bytes(self.bus, "little")
        pins.rready, pins.bready = r[1], b[1]
        assert self.called.dram_see(self.dram, byref(pins), t) == End.ENDED

    def counts(self):
        counts = LatheCounts()
        self.called.dram_counts(self.dram, byref(counts))
        return [*counts.bursts, *counts.beats, counts.interleaved]

    def page(self, address):
        page = (c_uint8 * PAGE_BYTES)()
        self.called.dram_page(self.dram, address, page)
        return bytes(page)


PAGES = 3


class Machine:
    """A machine that requests bursts, sends data and accepts beats at random, according to the protocol."""

    def __init__(self, rng, config, patient):
        self.rng, self.config, self.bus = rng, config, config.bus_bits // 8
        self.eager = 1 if patient else rng.choice([0.3, 0.7, 1])  # probability that it accepts a beat
        self.asking = 1 if patient else rng.choice([0.1, 0.5, 1])
        self.has_data = patient or rng.choice([0.3, 1])
        self.address = {"ar": None, "aw": None}
        self.inflight, self.writes, self.data = 0, deque(), None

    def burst(self, number):
        beats = self.rng.randint(1, min(self.config.burst_beats, PAGE_BYTES // self.bus, self.rng.choice([2, 20, 256])))
        offset = self.rng.randrange(PAGE_BYTES // self.bus - beats + 1) * self.bus
        return PAGE_BYTES * self.rng.randrange(PAGES) + offset, beats - 1, log2(self.bus), INCREMENTING, number

    def shows(self, offer):
        """The signals of the port in a cycle, given those of the memory."""
        rng, (ar_ready, aw_ready, beat, w_ready, response) = self.rng, offer
        if self.address["ar"] is None and self.inflight < self.config.outstanding_reads and rng.random() < self.asking:
            self.address["ar"] = self.burst(rng.randrange(3))
        if self.address["aw"] is None and len(self.writes) < 3 and rng.random() < self.asking:
            self.address["aw"] = self.burst(WRITE_ID)
        if self.data is None and self.writes and rng.random() < self.has_data:
            self.data = rng.getrandbits(8 * self.bus), rng.getrandbits(self.bus), int(self.writes[0] == 1)
        port = (
            *(
                (0, int(ready), 0, 0, 0, 0, 0) if shown is None else (1, int(ready), *shown)
                for shown, ready in ((self.address["ar"], ar_ready), (self.address["aw"], aw_ready))
            ),
            (0, int(w_ready), 0, 0, 0) if self.data is None else (1, int(w_ready), *self.data),
            (0, 1, 0, 0, 0, 0) if beat is None else (1, int(rng.random() < self.eager), *beat),
            (0, 1, 0, 0) if response is None else (1, int(rng.random() < self.eager), WRITE_ID, response),
        )
        ar, aw, w, r, _ = port
        if w[0] and w[1]:
            self.writes[0] -= 1
            if not self.writes[0]:
                self.writes.popleft()
            self.data = None
        self.inflight -= r[0] and r[1] and r[4]
        if ar[0] and ar[1]:
            self.address["ar"], self.inflight = None, self.inflight + 1
        if aw[0] and aw[1]:
            self.writes.append(aw[3] + 1)
            self.address["aw"] = None
        return port


def random_memory(rng, stalls):
    """Parameters of a memory, and further arguments of `Dram`."""
    config = MemoryConfig(
        bus_bits=rng.choice([8, 64, 512]),
        latency=rng.choice([0, 1, 7, 40]),
        burst_beats=rng.choice([1, 3, 16, 256]),
        outstanding_reads=rng.randint(1, 8),
        cycles_per_beat=rng.choice([1, 1, 2, 5]),
        shared_bandwidth=rng.random() < 0.5,
    )
    channel = rng.choice(["read", "write"])
    beyond = {
        "memory_end": rng.choice([None, PAGE_BYTES, 2 * PAGE_BYTES]),
        "error": rng.choice([None, BusError(channel, rng.randrange(20))]),
        "stalls": rng.randrange(1 << 32) if stalls else None,
    }
    return config, rng.randrange(4), beyond


@pytest.mark.slow
@pytest.mark.seeds(12, slow=648)
@pytest.mark.parametrize("stalls", [False, True])
def test_the_memories_of_simulator_python_and_cpp_agree(compiled, seeds, stalls):
    met = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        config, response_latency, beyond = random_memory(rng, stalls)
        content = Bytes(PagedMemory())
        dram = Dram(config, response_latency, content, **beyond)
        other = InCpp(compiled, config, response_latency, **beyond)
        machine = Machine(rng, config, patient=not stalls)
        simulated, promised = Port(config), {READ: deque(), WRITE: deque()}
        for t in range(rng.choice([50, 400])):
            offer = dram.offer(t)
            assert other.offer(t) == offer, f"seed {seed}, cycle {t}"
            ar, aw, w, r, b = port = machine.shows(offer)
            dram.see(t, *port)
            other.see(t, *port)
            if not stalls:  # without stalls, cycles are those of the simulator
                for direction, address in ((READ, ar), (WRITE, aw)):
                    if address[0] and address[1]:
                        promised[direction].append(simulated.serve(direction, t, address[3] + 1))
                for direction, last in ((READ, r[0] and r[4]), (WRITE, w[0] and w[1] and w[4])):
                    if last:
                        assert promised[direction].popleft() == t, f"seed {seed}"
            met.update(response=bool(b[0] and b[1]), fault=bool(b[0] and b[3]) + bool(r[0] and r[5]), beat=r[0])
        counts = [*dram.bursts.values(), *dram.beats.values(), dram.interleaved]
        assert other.counts() == counts
        for address in range(0, PAGES * PAGE_BYTES, PAGE_BYTES):
            assert other.page(address) == bytes(content.pages.get(address, bytes(PAGE_BYTES)))
        other.called.dram_delete(other.dram)
        met["interleaved"] += dram.interleaved
    assert all(met[each] > 10 for each in ("response", "fault", "beat"))
    assert (met["interleaved"] > 0) == stalls
