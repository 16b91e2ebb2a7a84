"""Scratchpads: beats written at random addresses, vectors and beats read back, compared with an array of bytes."""

import random

import numpy as np
import pytest
from extended_machines import with_extensions

from lathe.configs import load_config
from lathe.isa import Load, MemoryType
from lathe.isa.table import MEMORIES, Unit
from lathe.rtl.accumulators import Accumulators
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.read_data import BeatWrite
from lathe.rtl.scratchpad import LookupTables, Scratchpad


def random_write(rng, geometry, memory):
    """A write of a data side, (pad, address, offset, size), of whole vectors or beats within the scratchpad."""
    bus, size = geometry.bus_bytes, 1 << geometry.shift(memory)
    depth = geometry.depth(memory)
    if rng.random() < 0.2:
        return True, rng.randrange(depth) * size, rng.randrange(0, bus, min(size, bus)), min(size, bus)
    if size >= bus:
        return False, rng.randrange(depth * size // bus) * bus, 0, bus
    offset = rng.randrange(0, bus, size)
    count = rng.randint(1, (bus - offset) // size)
    return False, rng.randrange(depth - count + 1) * size, offset, count * size


def pad_bytes(ctx, rng, write, memory, values):
    """Set the contents of padding, at random if the machine supports it; returns a padding vector, as bytes."""
    if write.padding is None:
        value, limit = 0, False
    else:
        value, limit = rng.choice([-128, -1, 0, 127, rng.randrange(-128, 128)]), rng.random() < 0.4
        ctx.set(write.padding, value & 0xFF | limit << 8)
    padding = Load(memory, 0, 0, 1, 1, 1, pad_value=value, pad_limit=limit).padding
    dtype = np.int32 if memory in (MemoryType.ACC, MemoryType.ACC8) else np.int8
    return np.full(values, padding, dtype).view(np.uint8)


def show(ctx, rng, write, memory, step):
    """Set the signals of a write, None for none; returns the beat's bytes."""
    ctx.set(write.en, step is not None)
    ctx.set(write.memory, memory)
    content = rng.getrandbits(len(write.data))
    ctx.set(write.data, content)
    if step is not None:
        for signal, value in zip((write.pad, write.address, write.offset, write.size), step, strict=True):
            ctx.set(signal, value)
    return np.frombuffer(content.to_bytes(len(write.data) // 8, "little"), np.uint8)


def put(pad, step, beat, padding):
    """Apply the write to an array of bytes; `padding` is a padding vector."""
    is_padding, address, offset, size = step
    if is_padding:
        pad[address : address + len(padding)] = padding
    else:
        pad[address : address + size] = beat[offset : offset + size]


@pytest.mark.sample(4)
@pytest.mark.parametrize("bus_bits", [8, 32, 64, 256])
@pytest.mark.parametrize("extensions", [(), ("pad_value",)])
@pytest.mark.parametrize("name", ["inp", "wgt", "uop", "par"])
def test_a_scratchpad_stores_beats(bench, name, extensions, bus_bits):
    memory = MemoryType[name.upper()]
    extensions = (*extensions, *(["rescale"] if name == "par" else []))
    geometry = Geometry(with_extensions(load_config("tiny"), extensions).with_(**{"memory.bus_bits": bus_bits}))
    write, rng = (
        BeatWrite(geometry, geometry.loaded_by(MEMORIES[memory].load_unit)),
        random.Random(f"{name} {bus_bits}"),
    )
    scratchpad, size = Scratchpad(geometry, memory, write), 1 << geometry.shift(memory)
    pad = np.zeros(scratchpad.depth * size, np.uint8)
    other = next(each for each in geometry.loaded_by(MEMORIES[memory].load_unit) if each != memory)

    async def steps(ctx):
        for _ in range(300):
            step = random_write(rng, geometry, memory) if rng.random() < 0.8 else None
            meant = rng.random() < 0.9  # else the write is to another memory type
            beat = show(ctx, rng, write, memory if meant else other, step)
            # Read only a vector that is not written in this cycle: programs never read a vector during its load.
            index = rng.randrange(scratchpad.depth)
            expected = pad[index * size : (index + 1) * size].copy()
            padding = pad_bytes(ctx, rng, write, memory, size)
            if step is not None and meant:
                put(pad, step, beat, padding)
            calm = np.array_equal(expected, pad[index * size : (index + 1) * size])
            ctx.set(scratchpad.r_en, calm)
            ctx.set(scratchpad.r_index, index)
            await ctx.tick()
            if calm:
                assert ctx.get(scratchpad.r_data).to_bytes(size, "little") == expected.tobytes()

    bench(scratchpad, steps)
    assert pad.any()


@pytest.mark.sample(2)
@pytest.mark.parametrize("bus_bits", [8, 32, 64, 128])
@pytest.mark.parametrize("extensions", [(), ("pad_value",)])
@pytest.mark.parametrize("batch", [1, 2])
def test_every_value_looks_up_a_byte_in_the_table_of_its_lane(bench, batch, extensions, bus_bits):
    cfg = with_extensions(load_config("tiny"), ("rescale", "lookup", *extensions))
    geometry = Geometry(cfg.with_(batch=batch, **{"memory.bus_bits": bus_bits}))
    memory, lanes = MemoryType.LUT, cfg.block_out
    write, rng = BeatWrite(geometry, geometry.loaded_by(Unit.COMPUTE)), random.Random(f"{batch} {bus_bits}")
    unit = LookupTables(geometry, write)
    pad = np.zeros(cfg.lut_depth * lanes, np.uint8)
    rows = pad.reshape(-1, lanes)

    async def steps(ctx):
        for _ in range(300):
            step = random_write(rng, geometry, memory) if rng.random() < 0.8 else None
            beat = show(ctx, rng, write, memory, step)
            before = pad.copy()
            padding = pad_bytes(ctx, rng, write, memory, lanes)
            if step is not None:
                put(pad, step, beat, padding)
            # Only vectors that are not written in this cycle: programs never use a table during its load.
            calm = np.flatnonzero((before == pad).reshape(-1, lanes).all(axis=1))
            indices = [int(rng.choice(calm)) for _ in range(batch * lanes)]
            ctx.set(unit.r_en, 1)
            ctx.set(unit.r_index, sum(each << (unit.index_bits * value) for value, each in enumerate(indices)))
            await ctx.tick()
            expected = bytes(rows[each, value % lanes] for value, each in enumerate(indices))
            assert ctx.get(unit.r_data).to_bytes(batch * lanes, "little") == expected

    bench(unit, steps)
    assert pad.any()


@pytest.mark.slow
@pytest.mark.parametrize("bus_bits", [8, pytest.param(64, marks=pytest.mark.slow), 128])
@pytest.mark.parametrize("block_out", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("extensions", [(), ("pad_value",)])
def test_loads_and_the_pipeline_write_accumulators_and_out_has_their_low_bytes(bench, extensions, block_out, bus_bits):
    cfg = load_config("tiny").with_(block_out=block_out, extensions=extensions, **{"memory.bus_bits": bus_bits})
    geometry = Geometry(cfg)
    write, rng = BeatWrite(geometry, geometry.loaded_by(Unit.COMPUTE)), random.Random(f"{block_out} {bus_bits}")
    unit, bus, values = Accumulators(geometry, write), geometry.bus_bytes, cfg.batch * block_out
    acc = np.zeros((cfg.acc_depth, values), np.int32)

    async def steps(ctx):
        asked, seen = None, 0  # the beat of out that was requested in the previous cycle
        for _ in range(300):
            kind = rng.choice(["acc", "acc8", "pipeline", "none"])
            memory = MemoryType.ACC8 if kind == "acc8" else MemoryType.ACC
            step = random_write(rng, geometry, memory) if kind.startswith("acc") else None
            beat = show(ctx, rng, write, memory, step)
            padding = pad_bytes(ctx, rng, write, memory, values)
            if kind == "acc":
                put(acc.reshape(-1).view(np.uint8), step, beat, padding)
            elif kind == "acc8" and step[0]:
                acc[step[1] // values] = padding.view(np.int32)
            elif kind == "acc8":
                after = acc.astype(np.int8).reshape(-1)
                put(after.view(np.uint8), step, beat, padding)
                written = slice(step[1], step[1] + step[3])
                acc.reshape(-1)[written] = after[written]
            target, content = rng.randrange(cfg.acc_depth), rng.getrandbits(32 * values)
            ctx.set(unit.w_en, kind == "pipeline")
            ctx.set(unit.w_index, target)
            ctx.set(unit.w_data, content)
            if kind == "pipeline":
                acc[target] = np.frombuffer(content.to_bytes(4 * values, "little"), np.int32)
            # The pipeline also reads the value that is written in the same cycle.
            reads = kind in ("pipeline", "none")
            index = target if rng.random() < 0.3 else rng.randrange(cfg.acc_depth)
            ctx.set(unit.r_en, reads)
            ctx.set(unit.r_index, index)
            stores = kind == "none"
            _, address, offset, size = random_write(rng, geometry, MemoryType.OUT)
            ctx.set(unit.out_en, stores)
            for signal, value in ((unit.out_address, address), (unit.out_offset, offset), (unit.out_size, size)):
                ctx.set(signal, value)
            await ctx.tick()
            if reads:
                assert ctx.get(unit.r_data).to_bytes(4 * values, "little") == acc[index].tobytes()
            # A beat of out arrives two cycles after its request; programs never overwrite it meanwhile.
            out = acc.astype(np.int8).reshape(-1).view(np.uint8)
            if asked is not None:
                at, first, count, expected = asked
                if out[at : at + count].tobytes() == expected:
                    assert ctx.get(unit.out_data).to_bytes(bus, "little")[first : first + count] == expected
                    seen += 1
            asked = (address, offset, size, out[address : address + size].tobytes()) if stores else None
        assert seen > 30

    bench(unit, steps)
