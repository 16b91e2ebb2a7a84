"""One launch of a stream: its time first, then its data in the order that the time gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lathe.configs import HardwareConfig
from lathe.isa import Columns, Instruction
from lathe.sim.commands import commands_of
from lathe.sim.counters import Counters
from lathe.sim.dram import Dram
from lathe.sim.engine import Engine
from lathe.sim.executor import execute
from lathe.sim.fault import refuse_illegal, refuse_unended
from lathe.sim.scratchpads import Scratchpads
from lathe.sim.trace import Trace


@dataclass(frozen=True)
class Launch:
    """A launch that has ended: token counts afterwards, counters, and the trace unless it was not asked for."""

    tokens: tuple[int, int, int, int]
    counters: Counters
    trace: Trace | None


def launch(
    cfg: HardwareConfig,
    columns: Columns,
    stream: Sequence[Instruction],
    insn_addr: int,
    tokens: Sequence[int],
    dram: Dram | None,
    *,
    trace: bool,
) -> Launch:
    """Run a stream, given as columns and as instructions; without `dram` only its time.

    Scratchpads are zero at first. Raises :class:`~lathe.isa.MachineFault`; `dram` may have been written to then.
    """
    refuse_illegal(cfg, columns, stream)
    engine = Engine(cfg, commands_of(cfg, columns), insn_addr, tokens)
    engine.run()
    refuse_unended(engine, stream)
    timeline = engine.timeline
    if dram is not None:
        # A token is popped after it was pushed, so the order of starts respects every token.
        order = np.argsort(np.array(timeline.start), kind="stable").tolist()
        execute(cfg, stream, order, Scratchpads(cfg), dram)
    counts = [len(pushed) - len(popped) for pushed, popped in zip(timeline.tokens, timeline.pops, strict=True)]
    left = (counts[0], counts[1], counts[2], counts[3])
    return Launch(left, Counters.of(cfg, columns, engine), Trace.of(timeline, stream) if trace else None)
