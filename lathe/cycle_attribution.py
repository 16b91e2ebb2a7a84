"""Where the cycles of a launch went: by label, which mostly is a layer, and by what each unit did for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.errors import shown
from lathe.configs.html_repr import repr_html
from lathe.isa import Gemm, Instruction
from lathe.isa.instructions import runs_micro_ops
from lathe.isa.stall import StallCause
from lathe.sim import Result, Trace, TraceError

UNITS = ("load", "compute", "store")


@dataclass(frozen=True)
class LabelCycles:
    """What one label cost, in cycles unless said otherwise.

    `busy` has an entry for each activity: "load", "gemm", "alu" and "transfer" (the LOADs of compute: micro-ops and
    accumulators) and "store". `waiting` says for each unit how many cycles it waited on behalf of the label's
    instructions: for an instruction, a token, or the memory. The busy cycles of a unit's activities and its waiting,
    over all labels, are the cycles up to the unit's last instruction. `reasons` takes the waiting apart, for each unit
    and cause of docs/timing-model.md: before an instruction by what it waited for last, within it for the memory.
    """

    label: str
    instructions: int
    busy: Mapping[str, int]
    waiting: Mapping[str, int]
    reasons: Mapping[str, Mapping[str, int]]

    _repr_html_ = repr_html


def activity_of(instruction: Instruction, unit: str) -> str:
    """What an instruction of `unit` does."""
    if unit != "compute":
        return unit
    if isinstance(instruction, Gemm):
        return "gemm"
    return "alu" if runs_micro_ops(instruction) else "transfer"


ACTIVITIES = ("load", "gemm", "alu", "transfer", "store")


def recorded_trace(result: Result) -> Trace:
    """The trace of a result. Raises TraceError when none was recorded."""
    if result.trace is None:
        raise TraceError("The trace of this result must have been recorded, and was not. Simulate with trace=True.")
    return result.trace


def busy_cycles(result: Result, unit: str) -> NDArray[np.int64]:
    """The busy cycles of each entry of one unit's trace; docs/timing-model.md defines them.

    Load starts an instruction while the one before it still streams, but handles their data one after the other, each
    up to `write_latency` cycles before its end. Compute and store are busy with one instruction until the next one
    starts, but for the cycles in which they waited; what the last took is what is left of the unit's busy cycles.
    """
    part = recorded_trace(result).of_unit(unit)
    if not len(part):
        return np.zeros(0, np.int64)
    if unit == "load":
        boundary = part.end - result.program.config.timing.write_latency
        before = np.concatenate(([0], boundary[:-1]))
        return boundary - np.maximum(part.start, before) - part.waited
    busy = np.empty(len(part), np.int64)
    busy[:-1] = np.diff(part.start) - part.stalled[1:] - part.waited[:-1]
    busy[-1] = result.counters.units[unit].busy - busy[:-1].sum()
    return busy


def cycles_by_label(result: Result) -> list[LabelCycles]:
    """The cycles of a launch for each label of its program, in the order of the program's labels.

    The result must have a trace; raises TraceError otherwise.
    """
    if not isinstance(result, Result):
        raise TraceError(f"The result of cycles_by_label must be what simulate returned, not {shown(result)}.")
    return cycles_by_group(result, result.program.labels, result.program.label_of)


def cycles_by_group(result: Result, names: Sequence[str], group_of: NDArray[np.integer[Any]]) -> list[LabelCycles]:
    """The same for other groups of instructions than labels; ``group_of`` has each instruction's place in ``names``."""
    program = result.program
    trace = recorded_trace(result)
    count = len(names)
    busy = {activity: np.zeros(count, np.int64) for activity in ACTIVITIES}
    waiting = {unit: np.zeros(count, np.int64) for unit in UNITS}
    reasons = {unit: np.zeros((count, len(StallCause)), np.int64) for unit in UNITS}
    for unit in UNITS:
        part = trace.of_unit(unit)
        groups = group_of[part.instruction]
        cycles = busy_cycles(result, unit)
        activities = np.array([activity_of(program.instructions[index], unit) for index in part.instruction.tolist()])
        for activity in set(activities.tolist()):
            chosen = activities == activity
            np.add.at(busy[activity], groups[chosen], cycles[chosen])
        np.add.at(waiting[unit], groups, part.stalled + part.waited)
        np.add.at(reasons[unit], (groups, part.cause), part.stalled)
        np.add.at(reasons[unit][:, StallCause.MEMORY], groups, part.waited)
    instructions = np.bincount(group_of, minlength=count)
    return [
        LabelCycles(
            name,
            int(instructions[number]),
            {activity: int(found[number]) for activity, found in busy.items()},
            {unit: int(found[number]) for unit, found in waiting.items()},
            {unit: _named(found[number]) for unit, found in reasons.items()},
        )
        for number, name in enumerate(names)
    ]


def divided_cycles(result: Result, group_of: NDArray[np.integer[Any]], groups: int) -> NDArray[np.int64]:
    """The cycles of a launch divided among groups of instructions, (groups,): they add up to the launch's.

    The compute unit's time is divided: an instruction has it from when the one before has done its work until it has
    done its own, what it waits for included. What stores take at the end belongs to the last.
    """
    part = recorded_trace(result).of_unit("compute")
    begins = part.start - part.stalled
    if len(begins):
        begins[0] = 0
    taken = np.diff(np.append(begins, result.cycles))
    return np.bincount(group_of[part.instruction], taken, groups).astype(np.int64)


def _named(cycles: NDArray[np.int64]) -> dict[str, int]:
    """Cycles by cause, the most first."""
    found = {str(StallCause(cause)): int(cycles[cause]) for cause in np.flatnonzero(cycles).tolist()}
    return dict(sorted(found.items(), key=lambda each: -each[1]))
