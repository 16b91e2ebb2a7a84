"""Equal bursts take the same cycles in bulk as one by one; an attached fault injector disables bulk processing."""

import random

import pytest
from streams import random_machine

from lathe.configs import load_config
from lathe.isa import Columns, Finish, Load, MemoryType, Store
from lathe.sim.bus_fault_injection import FaultyMemory
from lathe.sim.engine import Engine
from lathe.sim.timing_ops import commands_of


def rows(rng):
    """A block of many rows, hence many bursts, equal or alternating; the engine checks no scratchpad's size."""
    x = rng.choice([1, 2, 7, 14, 40])
    block = {"sram_base": 0, "dram_base": rng.randrange(1 << 10), "y_size": rng.randrange(1, 60), "x_size": x}
    block["x_stride"] = x + rng.choice([0, 1, 3, 50])
    tokens = {"push_next": rng.random() < 0.3, "pop_next": False}
    if rng.random() < 0.25:
        return Store(**block)
    pads = {name: rng.choice([0, 0, 1, 3]) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    memory = rng.choice([MemoryType.INP, MemoryType.WGT, MemoryType.ACC, MemoryType.UOP])
    return Load(memory, **block, **pads, **(tokens if memory in (MemoryType.INP, MemoryType.WGT) else {}))


def timeline_of(cfg, columns, faults):
    engine = Engine(cfg, commands_of(cfg, columns), 0x100000, (0, 0, 0, 0), faults=faults)
    engine.run()
    assert engine.complete
    line = engine.timeline
    cycles = (line.start, line.end, line.cause, line.stalled, line.waited, line.dispatch, line.dispatch_stalled)
    return cycles, line.stalls, line.busy, engine.port.bursts, engine.port.beats


@pytest.mark.sample(7)
@pytest.mark.parametrize("seed", range(60))
def test_bursts_of_many_rows_take_the_same_cycles(seed):
    rng = random.Random(seed)
    cfg = random_machine(rng, rng.choice(["tiny", "vta", "wide"])) if seed % 3 else load_config("lathe16")
    reads, latency = rng.choice([1, 2, 3, 8]), rng.choice([0, 0, 1, 5, 60])
    cfg = cfg.with_(**{"memory.outstanding_reads": reads, "memory.latency": latency})
    count = 20 if cfg.memory.bus_bits > 8 else 2  # a block has a hundred thousand bursts on an 8-bit bus
    columns = Columns.of([*(rows(rng) for _ in range(count)), Finish()])
    together = timeline_of(cfg, columns, None)
    alone = timeline_of(cfg, columns, FaultyMemory(end=1 << 40))
    assert together == alone
