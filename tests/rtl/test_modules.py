"""Hardware modules, each compared with a reference in Python, for various parameters."""

import random
from collections import deque

import numpy as np
import pytest
from amaranth import Elaboratable, Module, Signal, signed

from lathe.configs import load_config
from lathe.configs.memory import DECODE, DECODE_STAGES
from lathe.isa import AluOp
from lathe.isa.arithmetic import alu as reference
from lathe.isa.table import Unit
from lathe.rtl.alu import Alu
from lathe.rtl.burst import BurstCutter
from lathe.rtl.command_queue import CommandQueue
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.fifo import Fifo
from lathe.rtl.matrix_core import MatrixCore
from lathe.rtl.read_requests import BurstRequests
from lathe.rtl.stall import CommandPort
from lathe.rtl.tokens import TokenCounter
from lathe.rtl.up_down_counter import UpDownCounter

PAGE = 4096


@pytest.mark.parametrize("detour", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 8, 13])
def test_words_of_a_fifo_can_be_read_one_cycle_later_or_two_with_a_detour(bench, depth, detour):
    rng = random.Random(f"{depth} {detour}")
    fifo = Fifo(8, depth, detour=detour)

    async def steps(ctx):
        expected = deque()  # words, and the cycle from which each can be at the head
        for cycle in range(300):
            there = bool(expected) and expected[0][1] <= cycle
            assert ctx.get(fifo.r_valid) == there
            assert ctx.get(fifo.level) == len(expected)
            assert ctx.get(fifo.full) == (len(expected) == depth)
            if there:
                assert ctx.get(fifo.r_data) == expected[0][0]
            write = len(expected) < depth and rng.random() < 0.6
            read = rng.random() < 0.5  # also from an empty FIFO, which has no effect
            word = rng.randrange(256)
            ctx.set(fifo.w_en, write)
            ctx.set(fifo.w_data, word)
            ctx.set(fifo.r_en, read)
            if read and there:
                expected.popleft()
            if write:
                expected.append((word, cycle + 1 + detour))
            await ctx.tick()

    bench(fifo, steps)


class Counted(Elaboratable):
    """An up/down counter with ports."""

    def __init__(self, most):
        self.enter, self.leave = Signal(), Signal()
        self.counter = UpDownCounter(most, "inside")

    def elaborate(self, _platform):
        m = Module()
        self.counter.drive(m, self.enter, self.leave)
        return m


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_an_up_down_counter_has_the_count_and_whether_it_is_full(bench, most):
    rng = random.Random(most)
    unit = Counted(most)

    async def steps(ctx):
        inside = 0
        for _ in range(200):
            assert ctx.get(unit.counter.count) == inside
            assert ctx.get(unit.counter.full) == (inside == most)
            leave = inside > 0 and rng.random() < 0.5
            enter = inside - leave < most and rng.random() < 0.6
            ctx.set(unit.enter, enter)
            ctx.set(unit.leave, leave)
            inside += enter - leave
            await ctx.tick()

    bench(unit, steps)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
def test_commands_leave_their_queue_in_order_after_decoding(bench, depth):
    rng = random.Random(depth)
    port = CommandPort(Unit.LOAD)
    queue = CommandQueue(depth, port)
    assert len(port.advance) == DECODE_STAGES

    async def steps(ctx):
        waiting = deque()  # words, and the cycle from which each is visible
        after = None  # the expected words in the decode stages
        taken = 0
        for cycle in range(600):
            busy = rng.random() < 0.5 if cycle % 100 > 40 else cycle % 100 > 20  # long idle and long busy phases, too
            there = bool(waiting) and waiting[0][1] <= cycle
            assert ctx.get(port.valid) == there
            assert ctx.get(queue.waiting) == len(waiting)
            assert (ctx.get(queue.empty), ctx.get(queue.full)) == (not waiting, len(waiting) == depth)
            assert ctx.get(queue.settled) == (there or not waiting)
            if there:
                assert ctx.get(port.word) == waiting[0][0]
            words = [ctx.get(word) for word in port.words]
            assert after is None or words[1:] == after
            write = len(waiting) < depth and rng.random() < 0.6
            word = rng.getrandbits(128)
            ctx.set(queue.w_en, write)
            ctx.set(queue.word, word)
            take = there and not busy
            ctx.set(port.take, take)
            advance = ctx.get(port.advance)
            after = [words[stage] if advance >> stage & 1 else words[stage + 1] for stage in range(DECODE_STAGES)]
            if take:
                waiting.popleft()
                taken += 1
            if write:
                waiting.append((word, cycle + 1 + DECODE))
            await ctx.tick()
        assert taken > 50

    bench(queue, steps)


def test_tokens_are_counted_and_an_overflow_is_reported(bench):
    counter = TokenCounter()

    async def steps(ctx):
        ctx.set(counter.load, 1)
        ctx.set(counter.value, 65534)
        await ctx.tick()
        ctx.set(counter.load, 0)
        ctx.set(counter.push, 1)
        assert not ctx.get(counter.overflow)
        await ctx.tick()
        assert ctx.get(counter.count) == 65535
        assert ctx.get(counter.overflow)
        ctx.set(counter.pop, 1)
        assert not ctx.get(counter.overflow)
        await ctx.tick()
        assert ctx.get(counter.count) == 65535

    bench(counter, steps)


def test_a_token_is_available_while_there_is_one(bench):
    counter, rng = TokenCounter(), random.Random(1)

    async def steps(ctx):
        inside = 0
        for _ in range(300):
            assert ctx.get(counter.count) == inside
            assert ctx.get(counter.available) == (inside > 0)
            load, push, pop = rng.random() < 0.05, rng.random() < 0.4, inside > 0 and rng.random() < 0.5
            value = rng.choice([0, 0, 1, 2])
            for signal, given in (
                (counter.load, load),
                (counter.value, value),
                (counter.push, push),
                (counter.pop, pop),
            ):
                ctx.set(signal, given)
            inside = value if load else inside + push - pop
            await ctx.tick()

    bench(counter, steps)


@pytest.mark.sample(6)
@pytest.mark.parametrize("operation", list(AluOp))
@pytest.mark.parametrize("use_imm", [False, True])
def test_the_alu_computes_what_the_isa_defines(bench, operation, use_imm):
    rng = np.random.default_rng(operation)
    edges = np.array([0, 1, -1, 31, 32, 33, -31, -32, -33, 2**31 - 1, -(2**31), 5], np.int32)
    unit = Alu(4, tuple(AluOp), signed(16))

    async def steps(ctx):
        for _ in range(60):
            a = np.where(rng.random(4) < 0.5, rng.choice(edges, 4), rng.integers(-(2**31), 2**31, 4)).astype(np.int32)
            b = np.where(rng.random(4) < 0.7, rng.choice(edges, 4), rng.integers(-(2**31), 2**31, 4)).astype(np.int32)
            imm = int(rng.choice([0, 1, -1, 31, -31, 32767, -32768, 40, -40]))
            ctx.set(unit.take, 1)
            ctx.set(unit.use_imm, use_imm)
            ctx.set(unit.imm, imm)
            ctx.set(unit.operand, int.from_bytes(b.tobytes(), "little"))
            await ctx.tick()
            # The second operand is held until the next `take`, whatever the inputs.
            ctx.set(unit.take, 0)
            ctx.set(unit.use_imm, int(rng.integers(2)))
            ctx.set(unit.imm, int(rng.integers(-100, 100)))
            ctx.set(unit.operand, int.from_bytes(rng.bytes(16), "little"))
            for _ in range(rng.integers(3)):
                ctx.set(unit.a, int.from_bytes(rng.bytes(16), "little"))
                await ctx.tick()
            ctx.set(unit.operation, operation)
            ctx.set(unit.a, int.from_bytes(a.tobytes(), "little"))
            if operation.waits:  # a multiplication, whose result is held until the next one
                ctx.set(unit.multiply, 1)
                await ctx.tick()
                ctx.set(unit.multiply, 0)
                for _ in range(rng.integers(1, 3)):
                    ctx.set(unit.a, int.from_bytes(rng.bytes(16), "little"))
                    ctx.set(unit.operand, int.from_bytes(rng.bytes(16), "little"))
                    ctx.set(unit.take, 1)
                    await ctx.tick()
            result = np.frombuffer(ctx.get(unit.result).to_bytes(16, "little"), np.int32)
            assert np.array_equal(result, reference(operation, a, np.asarray(imm) if use_imm else b))

    bench(unit, steps)


@pytest.mark.sample(3)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 4), (2, 8, 4), (4, 2, 8)])
@pytest.mark.parametrize("pipeline", [3, 4, 5, 8])
def test_the_matrix_core_multiplies_at_full_rate(bench, shape, pipeline):
    batch, block_in, block_out = shape
    cfg = load_config("tiny").with_(
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        **{"timing.gemm_pipeline": pipeline, "timing.alu_pipeline": pipeline},
    )
    core = MatrixCore(Geometry(cfg))
    rng = np.random.default_rng(pipeline)

    async def steps(ctx):
        expected = deque()
        for cycle in range(20):
            inp = rng.choice(np.array([-128, 127, 3, 0, -1], np.int8), (batch, block_in))
            wgt = rng.integers(-128, 128, (block_out, block_in)).astype(np.int8)
            ctx.set(core.valid, -1)
            ctx.set(core.inp, int.from_bytes(inp.tobytes(), "little"))
            ctx.set(core.wgt, int.from_bytes(wgt.tobytes(), "little"))
            expected.append(inp.astype(np.int32) @ wgt.astype(np.int32).T)
            if cycle >= core.latency:
                found = np.array([ctx.get(total) for total in core.sums]).reshape(batch, block_out)
                assert np.array_equal(found, expected.popleft())
            await ctx.tick()

    bench(core, steps)


def bursts_of(transfer, bus, limit):
    """The bursts of the chains of a transfer: (address, beats, end)."""
    chains, begin, size, stride = transfer
    for row in range(chains):
        address = begin + row * stride
        chain_end = address + size
        while address < chain_end:
            end = min(chain_end, (address // PAGE + 1) * PAGE, (address // bus + limit) * bus)
            yield address, -(-end // bus) - address // bus, end
            address = end


def random_transfer(rng, bus, top):
    """Chains below `top`: their number, the start of the first, the size of each, the stride between starts."""
    return (
        rng.choice([0, 1, 1, 2, 3, 5]),
        rng.choice([rng.randrange(3 * PAGE), PAGE - 1, PAGE - bus, 0, top - 16 * PAGE]),
        rng.choice([1, bus, 2 * bus, rng.randrange(1, 100), rng.randrange(1, 10000)]),
        rng.choice([0, 1, bus, rng.randrange(5000)]),
    )


def start(ctx, cutter, transfer):
    """Start a transfer on a burst cutter."""
    signals = (cutter.chains, cutter.from_address, cutter.chain_bytes, cutter.stride_bytes)
    for signal, value in zip(signals, transfer, strict=True):
        ctx.set(signal, value)
    ctx.set(cutter.start, 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize("bus_bits", [8, 64, 256])
@pytest.mark.parametrize("limit", [1, 3, 16, 256])
def test_bursts_end_at_chain_ends_pages_and_their_limit(bench, bus_bits, limit):
    bus = bus_bits // 8
    cfg = load_config("tiny").with_(**{"memory.bus_bits": bus_bits})
    cutter = BurstCutter(Geometry(cfg), limit, 20, 16)
    rng = random.Random(limit)

    async def steps(ctx):
        for _ in range(12):
            transfer = random_transfer(rng, bus, 1 << len(cutter.from_address))
            expected = list(bursts_of(transfer, bus, limit))
            assert ctx.get(cutter.idle)
            start(ctx, cutter, transfer)
            await ctx.tick()
            ctx.set(cutter.start, 0)
            # The inputs may change after the start.
            for signal in (cutter.from_address, cutter.chain_bytes, cutter.stride_bytes):
                ctx.set(signal, rng.getrandbits(len(signal)))
            assert not ctx.get(cutter.valid)
            await ctx.tick()
            for number, burst in enumerate(expected):
                assert ctx.get(cutter.valid)
                assert not ctx.get(cutter.idle)
                for _ in range(rng.choice([0, 0, 1, 3])):
                    await ctx.tick()
                assert tuple(ctx.get(each) for each in (cutter.address, cutter.beats, cutter.end)) == burst
                assert ctx.get(cutter.last) == (number == len(expected) - 1)
                ctx.set(cutter.take, 1)
                await ctx.tick()
                ctx.set(cutter.take, 0)
            assert not ctx.get(cutter.valid)
            assert ctx.get(cutter.idle)

    bench(cutter, steps)


@pytest.mark.parametrize(("bus_bits", "limit", "beats"), [(8, 16, 32), (64, 3, 3), (64, 16, 16), (256, 1, 1)])
def test_bursts_are_requested_when_the_fifo_has_space_for_them(bench, bus_bits, limit, beats):
    bus = bus_bits // 8
    cfg = load_config("tiny").with_(**{"memory.bus_bits": bus_bits})
    unit = BurstRequests(Geometry(cfg), limit, beats, 20, 16)
    rng = random.Random(f"{bus_bits} {limit}")

    async def steps(ctx):
        requests, inside = 0, deque()  # accepted bursts: their beats, and how many have not left the FIFO
        for _ in range(12):
            chains, address, size, stride = random_transfer(rng, bus, 1 << len(unit.address))
            transfer = (chains, address, min(size, 60 * bus), stride)
            expected = deque(bursts_of(transfer, bus, limit))
            start(ctx, unit.cutter, transfer)
            await ctx.tick()
            ctx.set(unit.cutter.start, 0)
            patience = 0
            while expected or inside:
                assert not (ctx.get(unit.idle) and expected)
                if ctx.get(unit.valid):
                    assert tuple(ctx.get(each) for each in (unit.address, unit.beats, unit.end)) == expected[0]
                    assert ctx.get(unit.last) == (len(expected) == 1)
                    reserved = sum(burst for burst, _ in inside)
                    assert reserved + expected[0][1] <= beats, "a burst is requested without space in the FIFO"
                    patience = 0
                patience += 1
                assert patience < 200
                take = bool(ctx.get(unit.valid)) and rng.random() < 0.5
                ctx.set(unit.take, take)
                leaves = bool(inside) and rng.random() < 0.7
                ctx.set(unit.credits.beat, leaves)
                ctx.set(unit.credits.last, leaves and inside[0][1] == 1)
                if leaves:
                    burst, left = inside.popleft()
                    if left > 1:
                        inside.appendleft((burst, left - 1))
                if take:
                    burst = expected.popleft()[1]
                    inside.append((burst, burst))
                    requests += 1
                await ctx.tick()
            ctx.set(unit.take, 0)
            ctx.set(unit.credits.beat, 0)
            assert ctx.get(unit.idle)
            assert not ctx.get(unit.valid)
        assert requests > 20

    bench(unit, steps)
