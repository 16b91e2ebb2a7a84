"""From when to when each unit is occupied by each instruction, so that a picture and the tables say the same."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.cycle_attribution import ACTIVITIES, UNITS, activity_of, busy_cycles, recorded_trace
from lathe.isa.stall import TRACK_NAMES
from lathe.sim import Result

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occupancy:
    """A launch by instruction, arrays (N,) int64, all in cycles from the launch's begin but for codes.

    ``unit`` is a place in ``TRACK_NAMES``, ``activity`` one in ``ACTIVITIES``, ``cause`` a StallCause. The unit has an
    instruction from ``begin`` to ``boundary``, in which ``waited`` cycles go by for the memory; before, ``stalled``
    cycles go by for ``cause``. ``start`` and ``end`` are when tokens are taken and given. ``dispatch``: when fetch has
    handed it over, ``fetch_stalled`` cycles after the one before, mostly for ``fetch_cause``.
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
    """The occupancy of a launch, whose trace must have been recorded; raises TraceError otherwise."""
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
        # Of load, whose address side runs ahead, an instruction has the data side from the one before on.
        taken = busy_cycles(result, unit) + part.waited
        begin = part.start
        if unit == "load":
            before = part.end[:-1] - result.program.config.timing.write_latency
            begin = np.maximum(part.start, np.concatenate(([0], before)))
        arrays["begin"][own] = begin
        arrays["boundary"][own] = begin + taken
    fetch = trace.of_unit("fetch")
    return Occupancy(**arrays, dispatch=fetch.start, fetch_stalled=fetch.stalled, fetch_cause=fetch.cause)
