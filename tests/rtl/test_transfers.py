"""Data side, store and arbiter under random back-pressure, compared with the semantics of the instructions."""

import random
from collections import deque

import numpy as np
import pytest
from amaranth import Elaboratable, Module

from lathe.configs import load_config
from lathe.isa import Load, MemoryType, Store, encode
from lathe.isa.arithmetic import wrap
from lathe.isa.semantics import MachineState, execute
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.table import MEMORIES, Opcode, TokenQueue, Unit
from lathe.rtl.arbiter import ReadArbiter
from lathe.rtl.command_queue import CommandQueue
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.dma_descriptor import TransferDecoder
from lathe.rtl.read_data import DataSide
from lathe.rtl.read_master import ReadPort
from lathe.rtl.stall import CommandPort
from lathe.rtl.store import Store as StoreUnit

PAGE = 4096


def machine(bus_bits, **changes):
    return load_config("tiny").with_(**{"memory.bus_bits": bus_bits} | changes)


def memory_of(seed):
    """Some pages of random bytes."""
    content = np.random.default_rng(seed).integers(0, 256, (4, PAGE)).astype(np.uint8)
    return PagedMemory.of(np.arange(4, dtype=np.uint64) * PAGE, content)


def block(rng, depth, *, pads):
    """Fields of a random LOAD or STORE that fits its scratchpad."""
    while True:
        x = rng.choice([0, 1, 2, 3, 5, 17])
        fields = {
            "sram_base": rng.randrange(depth),
            "dram_base": rng.randrange(200),
            "y_size": rng.choice([0, 1, 1, 2, 3]),
            "x_size": x,
            "x_stride": rng.choice([0, x, x, x + 1, x + 5]),
        }
        if pads:
            fields |= {name: rng.choice([0, 0, 1, 2]) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
        rows = fields["y_size"] + fields.get("y_pad_0", 0) + fields.get("y_pad_1", 0)
        width = x + fields.get("x_pad_0", 0) + fields.get("x_pad_1", 0)
        if fields["sram_base"] + rows * width <= depth:
            return fields


def chains(transfer, size):
    """The contiguous ranges of bytes that a transfer accesses, in order."""
    merged = transfer.y_size == 1 or (
        transfer.x_stride == transfer.x_size and not (transfer.x_pad_0 or transfer.x_pad_1)
    )
    if not transfer.x_size or not transfer.y_size:
        return []
    begin, row, stride = (each * size for each in (transfer.dram_base, transfer.x_size, transfer.x_stride))
    if merged:
        return [(begin, begin + transfer.y_size * row)]
    return [(begin + y * stride, begin + y * stride + row) for y in range(transfer.y_size)]


def word(cfg, instruction):
    return int.from_bytes(encode(cfg, [instruction]).tobytes(), "little")


class Queued(Elaboratable):
    """A unit with its command queue, into which a test writes instruction words."""

    def __init__(self, unit, port):
        self.unit, self.port = unit, port
        self.queue = CommandQueue(3, port)

    def elaborate(self, _platform):
        m = Module()
        m.submodules.unit, m.submodules.queue = self.unit, self.queue
        return m

    def feed(self, ctx, words, rng):
        """Write the first of the words at random, unless the queue is full."""
        put = bool(words) and not ctx.get(self.queue.full) and rng.random() < 0.8
        ctx.set(self.queue.w_en, put)
        if put:
            ctx.set(self.queue.word, words.popleft())


class Decoded(Elaboratable):
    """A data side that takes the commands of a port."""

    def __init__(self, geometry, memories, pending):
        self.port = CommandPort(Unit.LOAD)
        self.decoder = TransferDecoder(geometry, Opcode.LOAD, memories, self.port)
        self.side = DataSide(geometry, memories, pending)

    def elaborate(self, _platform):
        m = Module()
        m.submodules.decoder, m.submodules.side = self.decoder, self.side
        m.d.comb += [self.side.transfer.eq(self.decoder.transfer), self.side.start.eq(self.port.take)]
        return m


@pytest.mark.sample(3)
@pytest.mark.parametrize("bus_bits", [8, pytest.param(64, marks=pytest.mark.slow), 256])
@pytest.mark.parametrize("pending", [1, 3])
@pytest.mark.parametrize("name", ["inp", "wgt", "uop", "acc", "acc8"])
def test_the_data_side_writes_the_block_of_the_load(bench, name, pending, bus_bits):
    cfg, kind = machine(bus_bits), MEMORIES[MemoryType[name.upper()]]
    geometry, rng = Geometry(cfg), random.Random(f"{name} {pending} {bus_bits}")
    bus, size, depth = geometry.bus_bytes, kind.element_bytes(cfg), kind.depth(cfg)
    decoded = Decoded(geometry, geometry.loaded_by(kind.load_unit), pending)
    module = Queued(decoded, decoded.port)
    side, write = decoded.side, decoded.side.write
    state = MachineState(cfg, memory_of(pending))
    pad = getattr(state, kind.scratchpad)
    pad[:] = np.random.default_rng(1).integers(0, 100, pad.shape).astype(pad.dtype)
    narrow = np.int8 if name == "acc8" else pad.dtype
    found = pad.astype(narrow).reshape(-1).view(np.uint8).copy()
    loads = [
        Load(kind.type, **block(rng, depth, pads=True), push_prev=rng.random() < 0.5, push_next=rng.random() < 0.5)
        for _ in range(12)
    ]

    async def steps(ctx):
        words, waiting, here, beats, due = deque(word(cfg, load) for load in loads), deque(loads), deque(), deque(), 0
        while waiting or here:
            module.feed(ctx, words, rng)
            start = bool(ctx.get(decoded.port.valid)) and len(here) < pending and rng.random() < 0.4
            ctx.set(decoded.port.take, start)
            there = bool(beats) and rng.random() < 0.6
            ctx.set(side.beat_valid, there)
            if there:
                ctx.set(side.beat, beats[0])
            assert (ctx.get(side.count), ctx.get(side.full)) == (len(here), len(here) == pending)
            assert not (ctx.get(side.step) and not here), "a step without a transfer"
            assert ctx.get(side.step) + ctx.get(side.wait) == bool(here), "a transfer always steps or waits"
            due += ctx.get(side.step)
            if ctx.get(write.en):
                assert ctx.get(write.memory) == kind.type
                at = ctx.get(write.address)
                if ctx.get(write.pad):
                    found[at : at + size] = 0
                else:
                    offset, count = ctx.get(write.offset), ctx.get(write.size)
                    beat = ctx.get(write.data).to_bytes(bus, "little")
                    found[at : at + count] = list(beat[offset : offset + count])
            if ctx.get(side.take):
                assert there, "a beat is taken from an empty FIFO"
                beats.popleft()
            if ctx.get(side.last):
                ended, taken = here.popleft()
                assert due == taken, "one step for each beat and each padding vector, at least one"
                assert ctx.get(side.pushes) == ended.push_prev | ended.push_next << 1
                due = 0
            if start:
                load = waiting.popleft()
                execute(state, load)
                moved = [
                    int.from_bytes(state.dram.read(beat * bus, bus).tobytes(), "little")
                    for begin, end in chains(load, size)
                    for beat in range(begin // bus, -(-end // bus))
                ]
                rows = load.y_pad_0 + load.y_size + load.y_pad_1
                width = load.x_pad_0 + load.x_size + load.x_pad_1
                zeros = rows * width - load.y_size * load.x_size if load.x_size else 0
                here.append((load, max(1, zeros + len(moved))))
                beats.extend(moved)
            await ctx.tick()
        assert not beats

    bench(module, steps)
    assert np.array_equal(found, pad.astype(narrow).reshape(-1).view(np.uint8))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("bus_bits", "burst", "fifo"), [(8, 16, 32), (32, 3, 3), (64, 1, 5), (64, 16, 32), (256, 4, 8)]
)
@pytest.mark.parametrize("pending", [1, 4])
def test_the_store_unit_writes_the_block_of_the_store(bench, bus_bits, burst, fifo, pending):
    changes = {"memory.burst_beats": burst, "timing.dma_fifo_beats": fifo, "timing.dma_pending": pending}
    cfg = machine(bus_bits, **changes)
    geometry, rng = Geometry(cfg), random.Random(f"{bus_bits} {burst} {pending}")
    unit, bus = StoreUnit(geometry), geometry.bus_bytes
    module = Queued(unit, unit.command)
    channel, command = unit.channel, unit.command
    state = MachineState(cfg, memory_of(burst))
    state.acc[:] = np.random.default_rng(2).integers(-(2**31), 2**31, state.acc.shape)
    out = np.asarray(wrap(state.acc, cfg.out_bits)).astype(np.int8).reshape(-1).view(np.uint8)
    memory = memory_of(burst)
    stores = [
        Store(**block(rng, cfg.out_depth, pads=False), pop_prev=rng.random() < 0.5, push_prev=rng.random() < 0.5)
        for _ in range(25)
    ]
    for store in stores:
        execute(state, store)

    async def steps(ctx):
        words, waiting, running = deque(word(cfg, store) for store in stores), deque(stores), deque()
        bursts, answers = deque(), 0
        out_data, address_shown, data_shown = deque([None, None]), None, None
        while waiting or running:
            module.feed(ctx, words, rng)
            token = rng.random() < 0.5
            ctx.set(command.tokens, token << TokenQueue.COMPUTE_TO_STORE)
            # The beat requested two cycles ago; random if there was no request.
            shown = out_data.popleft()
            ctx.set(unit.out_data, rng.getrandbits(bus_bits) if shown is None else shown)
            ready, w_ready, answer = rng.random() < 0.4, rng.random() < 0.5, answers > 0 and rng.random() < 0.4
            ctx.set(channel.aw_ready, ready)
            ctx.set(channel.bus_w_ready, w_ready)
            ctx.set(channel.b_valid, answer)
            answers -= answer
            # Signals are stable until the handshake.
            address = (ctx.get(channel.aw_addr), ctx.get(channel.aw_len)) if ctx.get(channel.aw_valid) else None
            assert address_shown is None or address == address_shown
            address_shown = None if ready else address
            beat = tuple(ctx.get(each) for each in (channel.bus_w_data, channel.bus_w_strb, channel.bus_w_last))
            beat = beat if ctx.get(channel.bus_w_valid) else None
            assert data_shown is None or beat == data_shown
            data_shown = None if w_ready else beat
            if beat is not None and w_ready:
                assert bursts, "data come after their address"
                at, left = bursts[0]
                data, strobes, last = beat
                for index in range(bus):
                    if strobes >> index & 1:
                        memory.write(at + index, np.array([data >> 8 * index & 255], np.uint8))
                assert last == (left == 1)
                bursts[0] = (at + bus, left - 1)
                if last:
                    bursts.popleft()
                    answers += 1
            if address is not None and ready:
                at, beats = address[0], address[1] + 1
                assert at % bus == 0
                assert beats <= min(burst, fifo)
                assert at // PAGE == (at + beats * bus - 1) // PAGE
                bursts.append((at, beats))
            assert not (ctx.get(unit.idle) and running), "idle with a store in progress"
            if ctx.get(unit.activity.end):
                ended = running.popleft()
                assert ctx.get(command.pushes) == ended.push_prev << TokenQueue.STORE_TO_COMPUTE
            if ctx.get(command.take):
                started = waiting.popleft()
                assert token or not started.pop_prev
                assert ctx.get(command.pops) == started.pop_prev << TokenQueue.COMPUTE_TO_STORE
                running.append(started)
                assert len(running) <= pending
            out_data.append(None)
            if ctx.get(unit.out_en):
                begin, offset, size = (ctx.get(each) for each in (unit.out_address, unit.out_offset, unit.out_size))
                out_data[-1] = int.from_bytes(out[begin : begin + size].tobytes(), "little") << 8 * offset
            await ctx.tick()
        await ctx.tick()
        assert ctx.get(unit.idle)
        assert not bursts

    bench(module, steps)
    assert all(
        np.array_equal(memory.read(page, PAGE), state.dram.read(page, PAGE)) for page in range(0, 8 * PAGE, PAGE)
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("outstanding", [1, 2, 8])
@pytest.mark.parametrize("bus_bits", [8, 64])
def test_the_arbiter_grants_round_robin_and_routes_beats_to_their_masters(bench, outstanding, bus_bits):
    cfg = machine(bus_bits, **{"memory.outstanding_reads": outstanding})
    geometry, rng = Geometry(cfg), random.Random(outstanding)
    ports = [ReadPort(geometry) for _ in range(3)]
    arbiter, bus = ReadArbiter(geometry, ports), geometry.bus_bytes

    async def steps(ctx):
        requests = [None] * 3  # (address, beats)
        pending = [deque() for _ in ports]  # beats that each master has still to receive, by burst
        last, shown, granted = 2, None, [0] * 3
        for _ in range(3000):
            for number, port in enumerate(ports):
                if requests[number] is None and rng.random() < 0.3:
                    requests[number] = (rng.randrange(1 << 20), rng.randint(1, 16))
                ctx.set(port.request, requests[number] is not None)
                if requests[number] is not None:
                    ctx.set(port.address, requests[number][0])
                    ctx.set(port.beats, requests[number][1])
            ready = rng.random() < 0.5
            ctx.set(arbiter.ar_ready, ready)
            # A beat of any master, in order for each of them.
            busy = [number for number in range(3) if pending[number]]
            inflight = sum(len(bursts) for bursts in pending)
            source = rng.choice(busy) if busy and rng.random() < 0.6 else None
            ctx.set(arbiter.r_valid, source is not None)
            content, wrong = rng.getrandbits(bus_bits), rng.random() < 0.1
            if source is not None:
                ctx.set(arbiter.r_id, source)
                ctx.set(arbiter.r_data, content)
                ctx.set(arbiter.r_last, pending[source][0] == 1)
                ctx.set(arbiter.r_resp, 2 if wrong else 0)
            order = [(last + step) % 3 for step in (1, 2, 3)]
            winner = shown
            if shown is None:
                winner = next((number for number in order if requests[number] is not None), None)
            if inflight == outstanding:
                winner = None
            assert ctx.get(arbiter.ar_valid) == (winner is not None)
            assert ctx.get(arbiter.idle) == (inflight == 0 and shown is None)
            for number, port in enumerate(ports):
                assert ctx.get(port.grant) == (number == winner and ready)
                assert ctx.get(port.r_valid) == (number == source)
            assert ctx.get(arbiter.error) == (source is not None and wrong)
            if source is not None:
                assert ctx.get(ports[source].r_data) == content
                assert ctx.get(ports[source].r_last) == (pending[source][0] == 1)
                pending[source][0] -= 1
                if not pending[source][0]:
                    pending[source].popleft()
            if winner is not None:
                address, beats = requests[winner]
                assert ctx.get(arbiter.ar_addr) == address // bus * bus
                assert (ctx.get(arbiter.ar_len), ctx.get(arbiter.ar_id)) == (beats - 1, winner)
                last, shown = winner, None if ready else winner
                if ready:
                    pending[winner].append(beats)
                    requests[winner] = None
                    granted[winner] += 1
            await ctx.tick()
        assert min(granted) > 30

    bench(arbiter, steps)
