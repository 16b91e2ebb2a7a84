"""Units of the hardware, each against the reference that defines it, over a catalogue of parameters."""

import random
from collections import deque

import numpy as np
import pytest

from lathe.configs import load_config
from lathe.isa import AluOp
from lathe.isa.arithmetic import alu as reference
from lathe.rtl.alu import Alu
from lathe.rtl.burst import BurstCutter
from lathe.rtl.fifo import Fifo
from lathe.rtl.geometry import Geometry
from lathe.rtl.matrix_core import MatrixCore
from lathe.rtl.tokens import TokenCounter


@pytest.mark.parametrize("depth", [1, 2, 3, 8, 13])
def test_a_fifo_is_a_queue_whose_words_are_there_one_cycle_later(bench, depth):
    rng = random.Random(depth)
    fifo = Fifo(8, depth)

    async def steps(ctx):
        expected = deque()
        for _ in range(300):
            assert ctx.get(fifo.r_valid) == bool(expected)
            assert ctx.get(fifo.full) == (len(expected) == depth)
            if expected:
                assert ctx.get(fifo.r_data) == expected[0]
            write = len(expected) < depth and rng.random() < 0.6
            read = bool(expected) and rng.random() < 0.5
            word = rng.randrange(256)
            ctx.set(fifo.w_en, write)
            ctx.set(fifo.w_data, word)
            ctx.set(fifo.r_en, read)
            if read:
                expected.popleft()
            if write:
                expected.append(word)
            await ctx.tick()

    bench(fifo, steps)


def test_tokens_are_counted_and_one_too_many_is_told(bench):
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


@pytest.mark.parametrize("operation", list(AluOp))
@pytest.mark.parametrize("use_imm", [False, True])
def test_the_alu_computes_what_isa_defines(bench, operation, use_imm):
    rng = np.random.default_rng(operation)
    edges = np.array([0, 1, -1, 31, 32, 33, -31, -32, -33, 2**31 - 1, -(2**31), 5], np.int32)
    unit = Alu(4, tuple(AluOp))

    async def steps(ctx):
        for _ in range(60):
            a = np.where(rng.random(4) < 0.5, rng.choice(edges, 4), rng.integers(-(2**31), 2**31, 4)).astype(np.int32)
            b = np.where(rng.random(4) < 0.7, rng.choice(edges, 4), rng.integers(-(2**31), 2**31, 4)).astype(np.int32)
            imm = int(rng.choice([0, 1, -1, 31, -31, 32767, -32768, 40, -40]))
            ctx.set(unit.operation, operation)
            ctx.set(unit.use_imm, use_imm)
            ctx.set(unit.imm, imm)
            ctx.set(unit.a, int.from_bytes(a.tobytes(), "little"))
            ctx.set(unit.operand, int.from_bytes(b.tobytes(), "little"))
            result = np.frombuffer(ctx.get(unit.result).to_bytes(16, "little"), np.int32)
            assert np.array_equal(result, reference(operation, a, np.asarray(imm) if use_imm else b))

    bench(unit, steps, clocked=False)


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


@pytest.mark.parametrize("bus_bits", [8, 64, 256])
@pytest.mark.parametrize("limit", [1, 3, 16, 256])
def test_bursts_are_cut_at_chain_ends_pages_and_their_limit(bench, bus_bits, limit):
    bus = bus_bits // 8
    cfg = load_config("tiny").with_(**{"memory.bus_bits": bus_bits})
    cutter = BurstCutter(Geometry(cfg), limit, 20)
    rng = random.Random(limit)

    async def steps(ctx):
        for _ in range(200):
            address = rng.choice([rng.randrange(4096), 4095, 4096 - bus, 0])
            rest = rng.choice([1, bus, rng.randrange(1, 10000)])
            end = min(address + rest, 4096, (address // bus + limit) * bus)
            ctx.set(cutter.address, address)
            ctx.set(cutter.rest, rest)
            assert ctx.get(cutter.size) == end - address
            assert ctx.get(cutter.beats) == -(-end // bus) - address // bus
            assert ctx.get(cutter.last) == (end == address + rest)

    bench(cutter, steps, clocked=False)
