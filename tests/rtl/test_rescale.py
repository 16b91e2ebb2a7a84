"""The unit of RESCALE, compared with Python integers and the semantics of the instruction."""

import random
from collections import deque

import numpy as np
import pytest
from amaranth import Elaboratable, Module
from extended_machines import with_extensions
from rescaling import rescale_flags

from lathe.configs import load_config
from lathe.configs.memory import LOOKUP_STAGES, RESCALE_STAGES
from lathe.isa import Rescale as Instruction
from lathe.isa.table import MemoryType, Opcode, Unit
from lathe.isa.uop_semantics import UOP_SEMANTICS
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.read_data import BeatWrite
from lathe.rtl.rescale import Rescale
from lathe.rtl.scaling import SUM, Scaling
from lathe.rtl.scratchpad import LookupTables

CORNERS = (-(1 << 31), -(1 << 31) + 1, -1, 0, 1, (1 << 31) - 1)
MANTISSAS = (-(1 << 25), -1, 0, 1, 1 << 24, (1 << 25) - 1)


def wrapped(value):
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def rounded(total, shift):
    """total / 2**shift, rounded to the nearest integer, ties to even."""
    quotient, rest = divmod(total, 1 << shift)
    return quotient + (2 * rest > 1 << shift or (2 * rest == 1 << shift and quotient % 2 == 1))


def scaled(operands, shift, zero_point, low, high):
    total = sum(wrapped(value + bias) * mantissa for value, bias, mantissa in operands)
    return min(max(rounded(total, shift) + zero_point, low), high)


def any_operand(rng):
    """A value, a bias and a mantissa: corner cases, or of random magnitude."""

    def number(bits, corners):
        size = rng.randrange(bits)
        return rng.choice([rng.choice(corners), rng.randrange(-(1 << size), 1 << size)])

    return number(32, CORNERS), number(32, CORNERS), number(26, MANTISSAS)


def any_shift(rng, operands):
    """A shift, mostly one for which the result is within the bounds or just beyond."""
    total = abs(sum(wrapped(value + bias) * mantissa for value, bias, mantissa in operands))
    return rng.choice([rng.randrange(64), min(63, max(0, total.bit_length() - rng.randrange(11)))])


def any_bounds(rng):
    """Zero point, lower and upper bound."""
    unsigned = rng.randrange(2)
    least, most = (0, 255) if unsigned else (-128, 127)
    zero_point = rng.choice([least, 0, most, rng.randrange(least, most + 1)])
    return zero_point, rng.choice([least, zero_point]), most


def test_a_value_is_scaled_rounded_to_even_and_clamped(bench):
    rng = random.Random(32)
    unit = Scaling()
    expected = deque()
    seen = set()

    async def steps(ctx):
        for _ in range(60):
            zero_point, low, high = any_bounds(rng)
            for signal, value in ((unit.zero_point, zero_point), (unit.low, low), (unit.high, high)):
                ctx.set(signal, value)
            adds = deque([0] * SUM)
            valid = 0
            count = rng.randrange(4, 60)
            coming = deque()
            for cycle in range(count + RESCALE_STAGES):
                if not coming and cycle + 2 < count and rng.random() < 0.8:
                    operands = [any_operand(rng) for _ in range(rng.choice([1, 2]))]
                    shift = any_shift(rng, operands)
                    if rng.random() < 0.3:  # a tie
                        operands = [(0, 0, 5)] * (len(operands) - 1) + [(1, 0, 1 << 24 | 1 << 23 | rng.randrange(2))]
                        shift = rng.choice([24, 25, 26])
                    coming.extend((number, each, shift, operands) for number, each in enumerate(operands))
                issue = bool(coming)
                found = None
                add = 0
                if issue:
                    number, (value, bias, mantissa), shift, operands = coming.popleft()
                    last = number == len(operands) - 1
                    for signal, each in ((unit.value, value), (unit.bias, bias), (unit.mantissa, mantissa)):
                        ctx.set(signal, each)
                    ctx.set(unit.shift, shift if last else rng.randrange(64))
                    add = number
                    found = (operands, shift, zero_point, low, high) if last else None
                valid = (valid << 1 | issue) & ((1 << RESCALE_STAGES) - 1)
                ctx.set(unit.valid, valid)
                adds.append(add)
                ctx.set(unit.adds, adds.popleft())
                expected.append(found)
                await ctx.tick()
                if len(expected) >= RESCALE_STAGES:
                    case = expected.popleft()
                    if case is not None:
                        assert ctx.get(unit.result) == scaled(*case), case
                        seen.add(scaled(*case))
            expected.clear()

    bench(unit, steps)
    assert {-128, 127, 0, 255} <= seen
    assert len(seen) > 100


class Rescaling(Elaboratable):
    """The unit, with look-up tables on machines that have them."""

    def __init__(self, geometry):
        self.write = BeatWrite(geometry, geometry.loaded_by(Unit.COMPUTE))
        self.tables = LookupTables(geometry, self.write) if geometry.config.lut_depth else None
        self.unit = Rescale(geometry, self.tables)

    def elaborate(self, _platform):
        m = Module()
        m.submodules.unit = self.unit
        if self.tables is not None:
            m.submodules.tables = self.tables
        return m


@pytest.mark.sample(1)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("extensions", [("rescale",), ("rescale", "rescale_add"), ("rescale", "rescale_add", "lookup")])
def test_results_of_consecutive_instructions_are_those_of_their_semantics(bench, extensions, batch):
    cfg = with_extensions(load_config("tiny"), extensions).with_(batch=batch, **{"memory.bus_bits": 32})
    rng, values = random.Random(batch), np.random.default_rng(batch)
    module = Rescaling(Geometry(cfg))
    unit, delay = module.unit, RESCALE_STAGES + (LOOKUP_STAGES if cfg.lut_depth else 0)
    seen = set()
    lut = values.integers(-128, 128, (max(1, cfg.lut_depth), cfg.block_out)).astype(np.int8)

    def packed(numbers):
        return int.from_bytes(np.ascontiguousarray(numbers).tobytes(), "little")

    def some(bits, *shape):
        return values.integers(-(1 << bits), 1 << bits, shape) >> values.integers(0, bits + 1, shape)

    async def load(ctx):
        ctx.set(module.write.en, 1)
        ctx.set(module.write.memory, MemoryType.LUT)
        ctx.set(module.write.size, 4)
        for row in range(cfg.lut_depth):
            ctx.set(module.write.address, 4 * row)
            ctx.set(module.write.data, packed(lut[row]))
            await ctx.tick()
        ctx.set(module.write.en, 0)

    async def steps(ctx):
        await load(ctx)
        expected = deque([None] * delay)
        for _ in range(25):
            instruction = Instruction(0, 1, 1, 1, 0, 0, 0, 0, **rescale_flags(rng, cfg))
            names = unit.fields.shape().members
            ctx.set(unit.fields, {name: int(getattr(instruction, name)) for name in names})
            coming = deque()
            for _ in range(rng.randrange(1, 6)):
                of = {name: some(31, batch, cfg.block_out).astype(np.int32) for name in ("dst", "src")}
                for name in ("wgt", "wgt|1"):
                    factors = some(25, cfg.block_out) << 6 | values.integers(0, 64, cfg.block_out)
                    of[name] = np.stack([some(31, cfg.block_out), factors], axis=1).astype(np.int32)
                if cfg.lut_depth:
                    of["table"] = lut[instruction.table * 256 :][:256]
                result = np.broadcast_to(UOP_SEMANTICS[Opcode.RESCALE].value(instruction, of), (batch, cfg.block_out))
                coming += [(True, of["src"], of["wgt|1"], None)] * instruction.add
                coming.append((False, of["dst"], of["wgt"], packed(result.astype(np.int32))))
            coming += [None] * delay  # trailing issue cycles
            for step in coming:
                ctx.set(unit.take, step is not None)
                result = None
                if step is not None:
                    first, value, parameters, result = step
                    ctx.set(unit.first, first)
                    ctx.set(unit.value, packed(value))
                    ctx.set(unit.parameters, packed(parameters))
                expected.append(result)
                await ctx.tick()
                expected.popleft()
                if expected[0] is not None:
                    assert ctx.get(unit.result) == expected[0], instruction
                    seen.add(expected[0])

    bench(module, steps)
    assert len(seen) > 30
