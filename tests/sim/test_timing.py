"""The event engine against the per-cycle model: every start, end, stall cause and count."""

import random
import re
from pathlib import Path

import pytest
from extended_machines import with_extensions
from percycle import PerCycle
from streams import random_machine, random_stream

from lathe.configs import load_config, memory
from lathe.configs.extensions import EXTENSIONS
from lathe.isa import Columns, unit_of
from lathe.sim.engine import Engine
from lathe.sim.stall_accounting import StallCause
from lathe.sim.timeline import FETCH
from lathe.sim.timing_ops import commands_of

UNITS = ("load", "compute", "store", "fetch")


def both(cfg, instructions, insn_addr, tokens):
    """Run the engine and the per-cycle model; returns both results in one format."""
    engine = Engine(cfg, commands_of(cfg, Columns.of(instructions)), insn_addr, tokens)
    engine.run()
    timeline = engine.timeline
    slow = PerCycle(cfg, instructions, insn_addr, tokens)
    cycles = slow.run()
    if not engine.complete:
        return None, cycles
    mine = {"cycles": engine.cycles}
    theirs = {"cycles": cycles}
    for index, instruction in enumerate(instructions):
        unit = unit_of(instruction).name.lower()
        mine[index, unit] = (
            timeline.start[index],
            timeline.end[index],
            str(StallCause(timeline.cause[index])),
            timeline.stalled[index],
            timeline.waited[index],
        )
        entry = slow.trace[unit][index]
        theirs[index, unit] = (entry.start, entry.end, entry.cause, entry.stalled, entry.waited)
        mine[index, "fetch"] = (
            timeline.dispatch[index],
            str(StallCause(timeline.dispatch_cause[index])),
            timeline.dispatch_stalled[index],
        )
        entry = slow.trace["fetch"][index]
        theirs[index, "fetch"] = (entry.start, entry.cause, entry.stalled)
    for number, unit in enumerate(UNITS):
        counts = slow.count[unit]
        theirs[unit] = {name: count for name, count in counts.items() if count}
        mine[unit] = {str(StallCause(i)): n for i, n in enumerate(timeline.stalls[number]) if n}
        mine[unit]["busy"] = timeline.busy[number]
        rest = engine.cycles - sum(mine[unit].values())
        mine[unit]["empty"] = mine[unit].get("empty", 0) + rest
        mine[unit] = {name: count for name, count in mine[unit].items() if count}
    assert FETCH == 3
    return mine, theirs


def difference(mine, theirs):
    return {key: (mine[key], theirs[key]) for key in theirs if mine[key] != theirs[key]}


@pytest.mark.sample(13)
@pytest.mark.parametrize("seed", range(60))
def test_random_streams_on_random_machines_take_the_cycles_of_the_per_cycle_model(seed):
    rng = random.Random(seed)
    cfg = random_machine(rng, rng.choice(["tiny", "tiny", "vta", "batch4", "wide"]))
    cfg = with_extensions(cfg, rng.choice([(), ("rescale",), tuple(EXTENSIONS)]))
    instructions, tokens, _ = random_stream(rng, cfg, rng.choice([3, 10, 30]))
    insn_addr = rng.choice([0, 16, 4096 - 32, 0x2000])
    mine, theirs = both(cfg, instructions, insn_addr, tokens)
    assert mine is not None
    assert theirs["cycles"] is not None
    assert difference(mine, theirs) == {}


@pytest.mark.parametrize("name", ["tiny", "vta", "batch4", "wide", "lathe16"])
def test_random_streams_on_shipped_machines_take_the_cycles_of_the_per_cycle_model(name):
    rng, cfg = random.Random(name), load_config(name)
    for _ in range(3):
        instructions, tokens, _ = random_stream(rng, cfg, 20)
        mine, theirs = both(cfg, instructions, 0x1000, tokens)
        assert difference(mine, theirs) == {}


def test_the_timing_model_page_has_the_cycles_of_the_registers():
    page = (Path(__file__).parents[2] / "docs" / "timing-model.md").read_text()
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", page, re.MULTILINE))
    names = {"DECODE", "CUT", "STAGES", "RESCALE_STAGES", "LOOKUP_STAGES", "WRITE_BACK", "PACK", "END"}
    assert rows == {name: str(getattr(memory, name)) for name in names}
