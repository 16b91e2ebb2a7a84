"""The cycles in which each instruction occupies its unit, consistent with the tables of cycles by layer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.cycle_attribution import ACTIVITIES, UNITS, activity_of, busy_cycles, recorded_trace
from lathe.isa.stall import TRACK_NAMES
from lathe.sim import Result

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occupancy:
    """The occupancy of units by instruction: arrays (N,) int64, in cycles since the launch or as codes.

    ``unit`` is an index in ``TRACK_NAMES``, ``activity`` one in ``ACTIVITIES``, ``cause`` a StallCause. An instruction
    occupies its unit from ``begin`` to ``boundary``, including ``waited`` cycles for the memory; before that, the unit
    stalls for ``stalled`` cycles due to ``cause``. Tokens are popped at ``start`` and pushed at ``end``. ``dispatch``:
    when fetch issues the instruction, after ``fetch_stalled`` stall cycles, mainly due to ``fetch_cause``.
    """

    unit: Ints
    activity: Ints
    start: Ints
    end: Ints
    begin: Ints
    boundary: Ints
    stalled: Ints
    waited: Ints
    cause: Ints
    dispatch: Ints
    fetch_stalled: Ints
    fetch_cause: Ints


def occupancy_of(result: Result) -> Occupancy:
    """The occupancy of a launch. Raises TraceError if no trace was recorded."""
    trace = recorded_trace(result)
    count = len(result.program.instructions)
    names = ("unit", "activity", "start", "end", "begin", "boundary", "stalled", "waited", "cause")
    arrays = {name: np.zeros(count, np.int64) for name in names}
    for number, unit in enumerate(TRACK_NAMES):
        if unit not in UNITS:
            continue
        part = trace.of_unit(unit)
        own = part.instruction
        for name in ("start", "end", "stalled", "waited", "cause"):
            arrays[name][own] = getattr(part, name)
        arrays["unit"][own] = number
        instructions = (result.program.instructions[index] for index in own.tolist())
        arrays["activity"][own] = [ACTIVITIES.index(activity_of(each, unit)) for each in instructions]
        # In load, whose address stage runs ahead, an instruction occupies the data stage from its predecessor's end on.
        taken = busy_cycles(result, unit) + part.waited
        begin = part.start
        if unit == "load":
            before = part.end[:-1] - result.program.config.timing.write_latency
            begin = np.maximum(part.start, np.concatenate(([0], before)))
        arrays["begin"][own] = begin
        arrays["boundary"][own] = begin + taken
    fetch = trace.of_unit("fetch")
    return Occupancy(**arrays, dispatch=fetch.start, fetch_stalled=fetch.stalled, fetch_cause=fetch.cause)
