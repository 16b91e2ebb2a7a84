"""Faults of a launch with their cycles: the machine reports the first one that any unit detects."""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

import numpy as np

from lathe.configs.memory import DECODE, END
from lathe.isa import FaultCode, Instruction, MachineFault, TokenQueue, Unit, instruction_text, unit_of
from lathe.isa.instructions import describe_instruction
from lathe.isa.launch_checks import NO_FINISH_MESSAGE, overflow_message, stream_write_message
from lathe.isa.table import MOST_TOKENS, QUEUE_OF
from lathe.sim.bus_fault_injection import ErrorResponse
from lathe.sim.engine import Engine
from lathe.sim.illegal_instructions import Refusals
from lathe.sim.memory_port import NEVER, READ
from lathe.sim.timeline import Timeline


class Rank(IntEnum):
    """Priority among faults that are detected in the same cycle."""

    READ = 0
    WRITE = 1
    LOAD = 2
    COMPUTE = 3
    STORE = 4
    FETCH = 5
    TOKENS = 6
    REST = 7


class DetectedFault(NamedTuple):
    """A fault that the machine detects in ``cycle``, unless another one stops it before."""

    cycle: int
    rank: Rank
    code: FaultCode
    instruction: int | None
    message: str

    @property
    def fault(self) -> MachineFault:
        """The fault as an exception."""
        return MachineFault(self.message, self.code, instruction=self.instruction, cycle=self.cycle)


_RANK_OF = {Unit.LOAD: Rank.LOAD, Unit.COMPUTE: Rank.COMPUTE, Unit.STORE: Rank.STORE}


def first_fault(engine: Engine, stream: Sequence[Instruction], refusals: Refusals) -> DetectedFault | None:
    """The first fault of a launch that the engine has run to its end, apart from data; None when it is complete."""
    return min(_noticed(engine, stream, refusals), key=lambda each: (each.cycle, each.rank), default=None)


def _noticed(engine: Engine, stream: Sequence[Instruction], refusals: Refusals) -> Iterator[DetectedFault]:
    timeline, fetch = engine.timeline, engine.fetch
    if refusals.decoding is not None and fetch.refused != NEVER:
        refusal = refusals.decoding
        yield DetectedFault(fetch.refused, Rank.FETCH, refusal.code, refusal.instruction, refusal.message)
    written = engine.store.stream_write
    if written is not None:  # takes precedence over the refusal of a later store in the same cycle
        message = stream_write_message(
            describe_instruction(written.instruction, stream[written.instruction]), written.address
        )
        yield DetectedFault(written.cycle, Rank.STORE, FaultCode.STREAM_WRITE, written.instruction, message)
    for unit, refusal in refusals.starting.items():
        start = timeline.start[refusal.instruction]
        if start >= 0:
            yield DetectedFault(start, _RANK_OF[unit], refusal.code, refusal.instruction, refusal.message)
    for queue, visible in enumerate(timeline.tokens):
        if len(visible) > MOST_TOKENS:
            yield from _overflow(timeline, TokenQueue(queue), stream)
    yield from (_bus_error(answer, stream) for answer in engine.bus_errors)
    if fetch.refused == NEVER and not engine.complete:
        yield _at_rest(engine, stream)


def _bus_error(answer: ErrorResponse, stream: Sequence[Instruction]) -> DetectedFault:
    """The fault of an error response."""
    blamed = answer.instruction
    unit = "fetch" if blamed is None else describe_instruction(blamed, stream[blamed])
    if answer.outside is None:
        kind = "read" if answer.direction == READ else "write"
        message = (
            f"The memory must respond to each {kind} of {unit} without an error, but does not in cycle {answer.cycle}. "
            "Launch without the bus error."
        )
    else:
        message = (
            f"The DRAM range of {unit} must end within the program's memory, not at byte {answer.outside:#x}. "
            "Correct dram_base, the sizes or the segments."
        )
    if answer.direction == READ:
        return DetectedFault(answer.cycle, Rank.READ, FaultCode.READ_ERROR, blamed, message)
    return DetectedFault(answer.cycle, Rank.WRITE, FaultCode.WRITE_ERROR, blamed, message)


def _overflow(timeline: Timeline, queue: TokenQueue, stream: Sequence[Instruction]) -> Iterator[DetectedFault]:
    """The first overflow of a token counter. A token counted from cycle v on and popped in p is uncounted after p."""
    visible, pops = timeline.tokens[queue], timeline.pops[queue]
    # In order of time, pops first: a token popped in cycle t makes space for one that is counted from t + 1 on.
    cycles = np.concatenate((np.array(visible), np.array(pops, np.int64) + 1))
    change = np.concatenate((np.ones(len(visible), np.int64), -np.ones(len(pops), np.int64)))
    order = np.lexsort((change, cycles))
    counts = np.cumsum(change[order])
    if counts.max(initial=0) > MOST_TOKENS:
        token = int(order[int(np.argmax(counts > MOST_TOKENS))])
        # Initial tokens are counted from cycle 0 on. A queue has one pushing unit, which works in order.
        pushed = token - visible.count(0)
        unit = next(unit for (unit, name), named in QUEUE_OF.items() if named == queue and name.startswith("push"))
        pushers = (index for index in timeline.queues[unit] if queue in timeline.commands[index].pushes)
        index = next(islice(pushers, pushed, None))
        message = overflow_message(queue, describe_instruction(index, stream[index]))
        # It is detected when it is pushed, the cycle before it could be popped.
        yield DetectedFault(visible[token] - 1, Rank.TOKENS, FaultCode.TOKEN_OVERFLOW, index, message)


def _at_rest(engine: Engine, stream: Sequence[Instruction]) -> DetectedFault:
    """The fault of a launch that cannot progress, in the first cycle in which all units are detected idle."""
    timeline = engine.timeline
    last = max((*timeline.end, *timeline.dispatch), default=-1)
    # The first waiting instruction of each unit, which the unit receives when it is decoded.
    first = [
        queue[len(starts)]
        for queue, starts in zip(timeline.queues, timeline.starts, strict=True)
        if len(starts) < len(queue)
    ]
    seen = [timeline.dispatch[index] + 1 + DECODE for index in first]
    cycle = max(1, last + 1, engine.fetch.stuck, *seen) + END
    if min(timeline.end, default=0) >= 0:
        return DetectedFault(cycle, Rank.REST, FaultCode.NO_FINISH, None, NO_FINISH_MESSAGE)
    blamed = next((index for index, end in enumerate(timeline.end) if end < 0), None)
    return DetectedFault(cycle, Rank.REST, FaultCode.DEADLOCK, blamed, _deadlock(engine, stream))


def _deadlock(engine: Engine, stream: Sequence[Instruction]) -> str:
    """The deadlock's message: what each unit waits for."""
    timeline = engine.timeline
    last = max((*timeline.end, *timeline.start, *timeline.dispatch))
    reasons = [_standstill(engine, unit, stream) for unit in Unit]
    waiting = next((index for index, cycle in enumerate(timeline.dispatch) if cycle < 0), None)
    if waiting is not None:
        text, unit = instruction_text(stream[waiting]), unit_of(stream[waiting]).name.lower()
        reasons.append(f"fetch waits with instruction {waiting} ({text}) for space in the {unit} queue")
    waits = "; ".join(reasons)
    return f"The launch must end, but is deadlocked after cycle {last}: {waits}. Every pop requires an earlier push."


def _standstill(engine: Engine, unit: Unit, stream: Sequence[Instruction]) -> str:
    timeline = engine.timeline
    name = unit.name.lower()
    queue, started = timeline.queues[unit], len(timeline.starts[unit])
    if started == len(queue):
        return f"{name} has no instruction"
    index = queue[started]
    missing = [
        TokenQueue(each).arrow
        for each in timeline.commands[index].pops
        if len(timeline.pops[each]) == len(timeline.tokens[each])
    ]
    assert missing, f"{name} is stalled at instruction {index} without a missing token"
    tokens = " and ".join(missing)
    return f"{name} waits with instruction {index} ({instruction_text(stream[index])}) for a token in {tokens}"
