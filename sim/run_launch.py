"""One launch of a stream: first its timing, then its data in the resulting order."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa import Columns, Instruction, MachineFault
from lathe.isa.table import Kind
from lathe.sim.bus_fault_injection import FAULTLESS, FaultyMemory
from lathe.sim.counters import Counters
from lathe.sim.dram import Dram
from lathe.sim.engine import Engine
from lathe.sim.executor import execute
from lathe.sim.fault import Rank, first_fault
from lathe.sim.illegal_instructions import Refusal, blanked, refusals_of
from lathe.sim.scratchpads import Scratchpads
from lathe.sim.timeline import Timeline
from lathe.sim.timing_ops import commands_of, element_bytes
from lathe.sim.trace import Trace


@dataclass(frozen=True)
class Launch:
    """A finished launch: token counts afterwards, counters, and the trace if it was requested."""

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
    undecodable: Refusal | None = None,
    faults: FaultyMemory = FAULTLESS,
) -> Launch:
    """Run a stream, given as columns and as instructions; without `dram`, compute only its timing.

    Scratchpads are initially zero. `undecodable` is the first instruction with invalid bytes, in which case the columns
    are blank from there on; `faults` are error responses of the memory. Raises :class:`~lathe.isa.MachineFault` for the
    fault that the machine detects first; `dram` may have been modified by then. Faults that depend on data (indices out
    of range) are not detected without `dram`.
    """
    refusals = refusals_of(cfg, columns, undecodable)
    illegal = refusals.decoding.instruction if refusals.decoding is not None else -1
    failing = faults.error is not None or (faults.end is not None and reach(cfg, columns, insn_addr) > faults.end)
    with without_gc():
        commands = commands_of(cfg, columns if illegal < 0 else blanked(columns, illegal), refusals.beyond)
        engine = Engine(cfg, commands, insn_addr, tokens, illegal=illegal, faults=faults if failing else None)
        engine.run()
    timeline = engine.timeline
    first = first_fault(engine, stream, refusals)
    if dram is not None:
        starts = np.array(timeline.start, np.int64)
        # A token is popped after it was pushed, so the order of starts respects every token.
        order = np.argsort(starts, kind="stable")
        if first is not None:
            order = order[_happens(timeline, starts, first.cycle)[order]]
        try:
            execute(cfg, stream, order.tolist(), Scratchpads(cfg), dram, starts=timeline.start)
        except MachineFault as fault:
            if first is None or (fault.cycle, Rank.COMPUTE) < (first.cycle, first.rank):
                raise
    if first is not None:
        raise first.fault
    counts = [len(pushed) - len(popped) for pushed, popped in zip(timeline.tokens, timeline.pops, strict=True)]
    tokens_after = (counts[0], counts[1], counts[2], counts[3])
    return Launch(tokens_after, Counters.of(cfg, columns, engine), Trace.of(timeline, stream) if trace else None)


@contextmanager
def without_gc() -> Iterator[None]:
    """A context without cyclic garbage collection: an engine creates many small tuples, and no reference cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def reach(cfg: HardwareConfig, columns: Columns, insn_addr: int) -> int:
    """One past the last byte of DRAM that a stream occupies or transfers."""
    x, y = columns["x_size"], columns["y_size"]
    ends = columns["dram_base"] + (y - 1) * columns["x_stride"] + x
    ends *= element_bytes(cfg)[columns["memory_type"]]
    moved = int(ends[(x > 0) & (y > 0)].max(initial=0))
    return max(moved, insn_addr + INSTRUCTION_BYTES * len(columns))


def _happens(timeline: Timeline, starts: NDArray[np.int64], fault: int) -> NDArray[np.bool_]:
    """Which instructions take effect: those that start before the fault; of transfers, those that end by then."""
    ends = np.array(timeline.end, np.int64)
    issued = np.fromiter((command.kind == Kind.ISSUE for command in timeline.commands), np.bool_, len(starts))
    happens: NDArray[np.bool_] = (starts >= 0) & (starts < fault) & (issued | ((ends >= 0) & (ends <= fault)))
    return happens
