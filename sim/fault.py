"""What a machine refuses to do: instructions that no unit carries out, and launches that do not end."""

from collections.abc import Iterator, Sequence

import numpy as np

from lathe.configs import HardwareConfig
from lathe.isa import (
    Columns,
    Instruction,
    MachineFault,
    MemoryType,
    Opcode,
    TokenQueue,
    Unit,
    instruction_text,
    unit_of,
)
from lathe.isa.table import MEMORIES, QUEUE_OF, TOKEN_FIELDS
from lathe.sim.engine import Engine

MOST_TOKENS = (1 << 16) - 1


def place(index: int, instruction: Instruction) -> str:
    """How messages name an instruction."""
    return f"instruction {index} ({instruction.opcode.name} in {unit_of(instruction).name.lower()})"


def refuse_illegal(cfg: HardwareConfig, columns: Columns, stream: Sequence[Instruction]) -> None:
    """Raise :class:`MachineFault` for the first instruction that no unit carries out, whatever the data.

    These are a token that names no neighbour, a LOAD of memory type out, a STORE of any other or with padding, and a
    block that does not fit its scratchpad.
    """
    found = min(_illegal(cfg, columns), key=lambda each: each[0], default=None)
    if found is not None:
        index, message = found
        raise MachineFault(message.format(where=place(index, stream[index])))


def _illegal(cfg: HardwareConfig, columns: Columns) -> Iterator[tuple[int, str]]:
    """For each rule, the first instruction that breaks it, and the message."""
    units = columns.unit
    for unit in Unit:
        for name in TOKEN_FIELDS:
            if (unit, name) not in QUEUE_OF:
                for index in np.flatnonzero((units == unit) & (columns[name] != 0))[:1].tolist():
                    yield (
                        index,
                        f"{name} of {{where}} must be 0, not 1. The unit has no neighbour on that side.",
                    )
    memory = columns["memory_type"]
    moves = columns["x_size"] > 0
    loads, stores = moves & (columns.opcode == Opcode.LOAD), moves & (columns.opcode == Opcode.STORE)
    for index in np.flatnonzero(loads & (memory == MemoryType.OUT))[:1].tolist():
        yield index, "memory_type of {where} must be uop, wgt, inp, acc or acc8, not out. No unit loads out."
    for index in np.flatnonzero(stores & (memory != MemoryType.OUT))[:1].tolist():
        name = MemoryType(int(memory[index])).name.lower()
        yield index, f"memory_type of {{where}} must be out, not {name}. STORE takes no other."
    for pad in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
        for index in np.flatnonzero(stores & (columns[pad] != 0))[:1].tolist():
            yield index, f"{pad} of {{where}} must be 0, not {int(columns[pad][index])}. STORE has no padding."
    rows = columns["y_pad_0"] + columns["y_size"] + columns["y_pad_1"]
    width = columns["x_pad_0"] + columns["x_size"] + columns["x_pad_1"]
    ends = columns["sram_base"] + rows * width
    depths = np.array([MEMORIES[each].depth(cfg) for each in MemoryType])[memory]
    for index in np.flatnonzero((loads | stores) & (ends > depths))[:1].tolist():
        kind = MemoryType(int(memory[index]))
        yield (
            index,
            f"last {MEMORIES[kind].scratchpad} element of {{where}} must be below {int(depths[index])}, "
            f"not {int(ends[index]) - 1}. The scratchpad ends there.",
        )


def refuse_unended(engine: Engine, stream: Sequence[Instruction]) -> None:
    """Raise :class:`MachineFault` for a launch at rest that is not complete, or that had too many tokens."""
    timeline = engine.timeline
    if min(timeline.end, default=-1) < 0 and stream:
        raise MachineFault(_deadlock(engine, stream))
    if not engine.compute.finished:
        raise MachineFault("The stream must have a FINISH, and has none: the launch never ends. Add a FINISH.")
    for queue, visible in enumerate(timeline.tokens):
        if len(visible) > MOST_TOKENS:
            _refuse_overflow(TokenQueue(queue), visible, timeline.pops[queue])


def _refuse_overflow(queue: TokenQueue, visible: list[int], pops: list[int]) -> None:
    """A token in the counter from cycle v on, popped in p, is not there after p."""
    # In the order of time, pops first: a token popped in cycle t makes room for one that is counted from t + 1 on.
    cycles = np.concatenate((np.array(visible), np.array(pops, np.int64) + 1))
    change = np.concatenate((np.ones(len(visible), np.int64), -np.ones(len(pops), np.int64)))
    order = np.lexsort((change, cycles))
    counts = np.cumsum(change[order])
    if counts.max(initial=0) > MOST_TOKENS:
        cycle = int(cycles[order][int(np.argmax(counts > MOST_TOKENS))])
        raise MachineFault(
            f"The tokens of {queue.arrow} must be at most {MOST_TOKENS}, not more, as from cycle {cycle} on. "
            "Let the receiving unit pop them earlier."
        )


def _deadlock(engine: Engine, stream: Sequence[Instruction]) -> str:
    """What each unit waits for."""
    timeline = engine.timeline
    last = max((*timeline.end, *timeline.start, *timeline.dispatch))
    told = [_standstill(engine, unit, stream) for unit in Unit]
    waiting = next((index for index, cycle in enumerate(timeline.dispatch) if cycle < 0), None)
    if waiting is not None:
        text, unit = instruction_text(stream[waiting]), unit_of(stream[waiting]).name.lower()
        told.append(f"fetch waits with instruction {waiting} ({text}) for room in the {unit} queue")
    waits = "; ".join(told)
    return f"The launch must end, and is deadlocked after cycle {last}: {waits}. Every pop needs a push before it."


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
    assert missing, f"{name} rests with instruction {index} though no token is missing"
    tokens = " and ".join(missing)
    return f"{name} waits with instruction {index} ({instruction_text(stream[index])}) for a token of {tokens}"
