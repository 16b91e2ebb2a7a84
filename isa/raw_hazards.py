"""Accumulators that are read before what an earlier step writes there is there: of instructions with late results."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa.instructions import MicroOpInstruction
from lathe.isa.operands import Operand, trailing_steps, usage_of
from lathe.isa.table import MemoryType

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reuse:
    """The first read of that kind: ``step`` of the instruction, counted from 0, its operand, and the accumulator."""

    step: int
    operand: Operand
    index: int


def first_reuse(config: HardwareConfig, instruction: MicroOpInstruction, starts: Mapping[str, Ints]) -> Reuse | None:
    """Where an instruction first reads an accumulator that one of the steps before writes too late for it, if it does.

    ``starts`` has the indices of its micro-ops, by name, each (U,) and of at least one; the instruction has at least
    one iteration. All accumulators move by the same factors, so that micro-ops of two iterations meet or not whatever
    iterations these are, if only their distance is the same. The first iterations of each loop show all distances.
    """
    late = trailing_steps(config, instruction.opcode)
    if not late:
        return None
    usage = usage_of(instruction)
    written = starts[usage.written.index]
    count, inner = len(written), instruction.iter_in
    out, within = usage.written.factors_of(instruction)
    # Every executed micro-op that there is to look at, by its number in the order of execution.
    distances = range(1, (late - 1) // usage.steps + 2)
    iterations = -(-distances[-1] // count) + 1
    outer = np.arange(min(instruction.iter_out, iterations))[:, None, None] * inner
    first = outer + np.arange(min(inner, iterations))[:, None]
    numbers = (first * count + np.arange(count)).reshape(-1)

    def accumulator(table: Ints, number: Ints) -> Ints:
        iteration = number // count
        found: Ints = table[number % count] + iteration // inner * out + iteration % inner * within
        return found

    found: Reuse | None = None
    for place, operand in enumerate(usage.used):
        if operand.memory is not MemoryType.ACC or operand not in usage.read:
            continue
        offset = min(place, usage.steps - 1)
        indices = accumulator(starts[operand.index], numbers)
        for distance in distances:
            if distance * usage.steps + offset - (usage.steps - 1) > late:
                break
            same = (numbers >= distance) & (indices == accumulator(written, numbers - distance))
            for at in np.flatnonzero(same)[:1].tolist():
                step = int(numbers[at]) * usage.steps + offset
                if found is None or step < found.step:
                    found = Reuse(step, operand, int(indices[at]))
    return found
