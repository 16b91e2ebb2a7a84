"""Read-after-write hazards on accumulators, within one instruction whose results have extra latency."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa.instructions import MicroOpInstruction
from lathe.isa.operands import Operand, extra_latency, usage_of
from lathe.isa.table import MemoryType

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RawHazard:
    """The first hazard: ``step``, its issue cycle within the instruction, the reading operand and the accumulator."""

    step: int
    operand: Operand
    index: int


def first_raw_hazard(
    config: HardwareConfig, instruction: MicroOpInstruction, starts: Mapping[str, Ints]
) -> RawHazard | None:
    """The first read of an accumulator whose new value is not written back yet, or None.

    ``starts`` has the indices of the instruction's micro-ops by name, each (U,) with at least one; it has at least one
    iteration. All accumulator indices have the same loop strides, so whether micro-ops of two iterations conflict
    depends only on the distance of the iterations. The first iterations of each loop cover all distances.
    """
    late = extra_latency(config, instruction.opcode)
    if not late:
        return None
    usage = usage_of(instruction)
    written = starts[usage.written.index]
    count, inner = len(written), instruction.iter_in
    out, within = usage.written.factors_of(instruction)
    # The micro-ops to check, by their number in the order of execution.
    distances = range(1, (late - 1) // usage.issue_cycles + 2)
    iterations = -(-distances[-1] // count) + 1
    outer = np.arange(min(instruction.iter_out, iterations))[:, None, None] * inner
    first = outer + np.arange(min(inner, iterations))[:, None]
    numbers = (first * count + np.arange(count)).reshape(-1)

    def accumulator(table: Ints, number: Ints) -> Ints:
        iteration = number // count
        index: Ints = table[number % count] + iteration // inner * out + iteration % inner * within
        return index

    first_hazard: RawHazard | None = None
    for position, operand in enumerate(usage.used):
        if operand.memory is not MemoryType.ACC or operand not in usage.read:
            continue
        offset = min(position, usage.issue_cycles - 1)
        indices = accumulator(starts[operand.index], numbers)
        for distance in distances:
            if distance * usage.issue_cycles + offset - (usage.issue_cycles - 1) > late:
                break
            same = (numbers >= distance) & (indices == accumulator(written, numbers - distance))
            for at in np.flatnonzero(same)[:1].tolist():
                step = int(numbers[at]) * usage.issue_cycles + offset
                if first_hazard is None or step < first_hazard.step:
                    first_hazard = RawHazard(step, operand, int(indices[at]))
    return first_hazard
