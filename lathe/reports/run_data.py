"""The data of a run's page: columns with an entry per instruction, curves over cycles, and the layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.cycle_attribution import ACTIVITIES
from lathe.isa import instruction_text
from lathe.isa.columnar_stream import Columns
from lathe.isa.stall import TRACK_NAMES, StallCause
from lathe.isa.table import MEMORIES, QUEUE_OF, TOKEN_FIELDS, TokenQueue, Unit
from lathe.reports.columns import packed, packed_lines
from lathe.reports.memory_use import memory_use
from lathe.reports.occupancy import Occupancy, occupancy_of
from lathe.reports.run_model import Layer, Run, bytes_per_cycle, dram_bytes

Ints = NDArray[np.int64]


def run_data(run: Run) -> dict[str, Any]:
    """The data for the scripts of a run's page: plain values, with arrays and lines packed."""
    offsets = np.cumsum([0, *(each.result.cycles for each in run.streams)]).tolist()
    occupied = [occupancy_of(each.result) for each in run.streams]
    programs = [each.result.program for each in run.streams]
    return {
        "cycles": run.cycles,
        "units": list(TRACK_NAMES),
        "activities": [*ACTIVITIES, TRACK_NAMES[-1]],
        "causes": [str(cause) for cause in StallCause],
        "queues": [queue.arrow for queue in TokenQueue],
        # By unit and token field, the number of the queue, or -1.
        "token_fields": [[int(QUEUE_OF.get((unit, name), -1)) for name in TOKEN_FIELDS] for unit in Unit],
        "streams": [
            {"first": first, "begin": begin, "tokens": list(program.tokens_in)}
            for first, begin, program in zip(
                np.cumsum([0, *(len(each.instructions) for each in programs)]).tolist(), offsets, programs, strict=False
            )
        ],
        "bytes_per_cycle": bytes_per_cycle(run.config),
        "instruction_bytes": INSTRUCTION_BYTES,
        "peak": run.config.multipliers,
        "memories": _memories(run, occupied, offsets),
        "layers": layers_data(run.layers),
        "columns": _columns(run, occupied, offsets),
        "assembly": packed_lines([instruction_text(each) for program in programs for each in program.instructions]),
    }


def _columns(run: Run, occupied: Sequence[Occupancy], offsets: Sequence[int]) -> dict[str, Any]:
    """The columns. Times are stored as small numbers: the gap to the unit's previous instruction, and the length."""

    def joined(name: str) -> Ints:
        return np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in occupied)])

    def moved(name: str) -> Ints:
        pairs = zip(occupied, offsets, strict=False)
        return np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) + offset for each, offset in pairs)])

    unit, begin, boundary, dispatch = joined("unit"), moved("begin"), moved("boundary"), moved("dispatch")
    gap = np.zeros(len(unit), np.int64)
    for number in range(len(Unit)):
        own = np.flatnonzero(unit == number)
        gap[own] = begin[own] - np.concatenate(([0], boundary[own][:-1]))
    columns = [each.result.program.columns for each in run.streams]
    return {
        "unit": packed(unit),
        "activity": packed(joined("activity")),
        "cause": packed(joined("cause")),
        "gap": packed(gap),
        "length": packed(boundary - begin),
        "ahead": packed(begin - moved("start")),
        "behind": packed(moved("end") - boundary),
        "stalled": packed(joined("stalled")),
        "waited": packed(joined("waited")),
        "dispatch": packed(np.diff(dispatch, prepend=0)),
        "fetch_stalled": packed(joined("fetch_stalled")),
        "fetch_cause": packed(joined("fetch_cause")),
        "layer": packed(np.concatenate([np.zeros(0, np.int64), *(each.layer_of for each in run.streams)])),
        "tokens": packed(np.concatenate([np.zeros(0, np.int64), *map(_tokens, columns)])),
        "bytes": packed(np.concatenate([np.zeros(0, np.int64), *(dram_bytes(each.result) for each in run.streams)])),
    }


def _tokens(columns: Columns) -> Ints:
    """The token fields of each instruction as bits, in the order of ``TOKEN_FIELDS``."""
    bits: Ints = np.zeros(len(columns), np.int64)
    for bit, name in enumerate(TOKEN_FIELDS):
        bits |= (columns[name] != 0).astype(np.int64) << bit
    return bits


def _memories(run: Run, occupied: Sequence[Occupancy], offsets: Sequence[int]) -> list[dict[str, Any]]:
    """The number of live vectors of each scratchpad in use, over all launches."""
    uses = [memory_use(each.result.program, own) for each, own in zip(run.streams, occupied, strict=True)]
    depths = {memory.scratchpad: memory.depth(run.config) for memory in MEMORIES.values()}
    found = []
    for name in sorted({name for use in uses for name in use}):
        none = np.zeros(0, np.int64)
        curves = [(cycles + offset, used) for use, offset in zip(uses, offsets, strict=False)
                  for cycles, used in [use.get(name, (none, none))]]  # fmt: skip
        cycles = np.concatenate([each for each, _ in curves])
        used = np.concatenate([each for _, each in curves])
        found.append(
            {
                "name": name,
                "depth": depths[name],
                "cycles": packed(np.diff(cycles, prepend=0)),
                "used": packed(np.diff(used, prepend=0)),
            }
        )
    return found


def layers_data(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """The layers as plain values."""
    return [
        {
            "name": each.name,
            "where": each.where,
            "why": each.why,
            "instructions": each.instructions,
            "cycles": each.cycles,
            "bound": each.bound,
            "compute": each.compute,
            "memory": each.memory,
            "macs": each.macs,
            "bytes": each.bytes,
            "busy": dict(each.busy or {}),
            "waiting": dict(each.waiting or {}),
            "reasons": {unit: dict(causes) for unit, causes in (each.reasons or {}).items()},
        }
        for each in layers
    ]
