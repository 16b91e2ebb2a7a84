"""Attributes the cycles of a launch to labels (mostly layers), and for each label to the activities of each unit."""

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
    """The cycles that are attributed to one label, and its number of instructions.

    `busy` by activity: "load", "gemm", "alu", "transfer" (compute's LOADs of micro-ops and accumulators) and "store".
    `waiting` by unit: cycles in which the label's instructions waited for dispatch, a token, or the memory. A unit's
    busy and waiting cycles, summed over all labels, are the cycles up to the end of its last instruction. `reasons`
    splits the waiting by unit and stall cause (docs/timing-model.md): a stall before an instruction counts for the
    cause that ended last, a stall within it for the memory.
    """

    label: str
    instructions: int
    busy: Mapping[str, int]
    waiting: Mapping[str, int]
    reasons: Mapping[str, Mapping[str, int]]

    _repr_html_ = repr_html


def activity_of(instruction: Instruction, unit: str) -> str:
    """The activity that an instruction of `unit` counts for."""
    if unit != "compute":
        return unit
    if isinstance(instruction, Gemm):
        return "gemm"
    return "alu" if runs_micro_ops(instruction) else "transfer"


ACTIVITIES = ("load", "gemm", "alu", "transfer", "store")


def recorded_trace(result: Result) -> Trace:
    """The trace of a result. Raises TraceError when none was recorded."""
    if result.trace is None:
        raise TraceError("Cannot read the trace of this result: none was recorded. Simulate with trace=True.")
    return result.trace


def busy_cycles(result: Result, unit: str) -> NDArray[np.int64]:
    """The busy cycles of each entry of one unit's trace, as docs/timing-model.md defines them.

    Load starts an instruction while the previous one still streams, but handles their data in sequence; the data of
    each is complete `write_latency` cycles before its end. Compute and store are busy with an instruction until the
    next one starts, except in the cycles in which they wait; the last one gets the rest of the unit's busy cycles.
    """
    entries = recorded_trace(result).of_unit(unit)
    if not len(entries):
        return np.zeros(0, np.int64)
    if unit == "load":
        boundary = entries.end - result.program.config.timing.write_latency
        before = np.concatenate(([0], boundary[:-1]))
        return boundary - np.maximum(entries.start, before) - entries.waited
    busy = np.empty(len(entries), np.int64)
    busy[:-1] = np.diff(entries.start) - entries.stalled[1:] - entries.waited[:-1]
    busy[-1] = result.counters.units[unit].busy - busy[:-1].sum()
    return busy


def cycles_by_label(result: Result) -> list[LabelCycles]:
    """The cycles of a launch for each label of its program, in label order. Raises TraceError without a trace."""
    if not isinstance(result, Result):
        raise TraceError(f"The result of cycles_by_label must be what simulate returned, not {shown(result)}.")
    return cycles_by_group(result, result.program.labels, result.program.label_of)


def cycles_by_group(result: Result, names: Sequence[str], group_of: NDArray[np.integer[Any]]) -> list[LabelCycles]:
    """``cycles_by_label`` for any groups of instructions; ``group_of`` has each instruction's index in ``names``."""
    program = result.program
    trace = recorded_trace(result)
    count = len(names)
    busy = {activity: np.zeros(count, np.int64) for activity in ACTIVITIES}
    waiting = {unit: np.zeros(count, np.int64) for unit in UNITS}
    reasons = {unit: np.zeros((count, len(StallCause)), np.int64) for unit in UNITS}
    for unit in UNITS:
        entries = trace.of_unit(unit)
        groups = group_of[entries.instruction]
        cycles = busy_cycles(result, unit)
        executed = entries.instruction.tolist()
        activities = np.array([activity_of(program.instructions[index], unit) for index in executed])
        for activity in set(activities.tolist()):
            chosen = activities == activity
            np.add.at(busy[activity], groups[chosen], cycles[chosen])
        np.add.at(waiting[unit], groups, entries.stalled + entries.waited)
        np.add.at(reasons[unit], (groups, entries.cause), entries.stalled)
        np.add.at(reasons[unit][:, StallCause.MEMORY], groups, entries.waited)
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
    """The cycles of a launch divided among groups of instructions, (groups,); their sum is the launch's cycles.

    The compute unit's time line is divided: an instruction's share lasts from the end of its predecessor's work to the
    end of its own, stalls included. The final stores count for the last instruction.
    """
    entries = recorded_trace(result).of_unit("compute")
    begins = entries.start - entries.stalled
    if len(begins):
        begins[0] = 0
    taken = np.diff(np.append(begins, result.cycles))
    return np.bincount(group_of[entries.instruction], taken, groups).astype(np.int64)


def _named(cycles: NDArray[np.int64]) -> dict[str, int]:
    """Cycles by cause, largest first."""
    found = {str(StallCause(cause)): int(cycles[cause]) for cause in np.flatnonzero(cycles).tolist()}
    return dict(sorted(found.items(), key=lambda each: -each[1]))
