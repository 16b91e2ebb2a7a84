"""The trace of a launch: when each instruction was in each unit, and why it was stalled."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from lathe.configs.atomic import write_text
from lathe.configs.errors import LatheError, shown
from lathe.isa import Instruction, instruction_text
from lathe.isa.stall import TRACK_NAMES, StallCause
from lathe.sim.timeline import COMPUTE, FETCH, LOAD, STORE, Timeline

Ints = NDArray[np.int64]

UNIT_NAMES = TRACK_NAMES

# The tracks of the timeline, from top to bottom.
_TRACKS = (FETCH, LOAD, COMPUTE, STORE)


class TraceError(LatheError):
    """A request for a trace that was not recorded, or for a unit that does not exist."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One entry per instruction and unit that handles it: one for fetch and one for its own unit.

    Arrays (E,) int64, ordered by unit (0 load, 1 compute, 2 store, 3 fetch) and within a unit by instruction: ``unit``,
    ``instruction`` (index in the stream), ``start`` and ``end`` (cycles; tokens are popped in ``start`` and pushed in
    ``end``; fetch's entries start and end with the dispatch), ``cause`` (a :class:`StallCause`) and ``stalled`` (cycles
    that the unit was stalled before this entry), ``waited`` (cycles within the entry that it waited for the memory).
    docs/timing-model.md defines each.
    """

    unit: Ints
    instruction: Ints
    start: Ints
    end: Ints
    cause: Ints
    stalled: Ints
    waited: Ints
    stream: Sequence[Instruction]

    def __len__(self) -> int:
        return len(self.unit)

    @classmethod
    def of(cls, timeline: Timeline, stream: Sequence[Instruction]) -> "Trace":
        """The trace of a complete launch."""
        count = len(stream)
        units = np.fromiter(map(attrgetter("unit"), timeline.commands), np.int64, count)
        own = np.argsort(units, kind="stable")
        everything = np.arange(count)

        def joined(executed: Sequence[int], fetched: Sequence[int]) -> Ints:
            return np.concatenate((np.array(executed, np.int64)[own], np.array(fetched, np.int64)))

        return cls(
            unit=np.concatenate((units[own], np.full(count, FETCH))),
            instruction=np.concatenate((own, everything)),
            start=joined(timeline.start, timeline.dispatch),
            end=joined(timeline.end, timeline.dispatch),
            cause=joined(timeline.cause, timeline.dispatch_cause),
            stalled=joined(timeline.stalled, timeline.dispatch_stalled),
            waited=joined(timeline.waited, [0] * count),
            stream=stream,
        )

    @classmethod
    def concatenate(cls, launches: Sequence[tuple["Trace", int]]) -> "Trace":
        """The concatenated trace of launches with their cycles, each starting where the previous one ended."""
        instructions = np.cumsum([0, *(len(trace.stream) for trace, _ in launches)])
        cycles = np.cumsum([0, *(count for _, count in launches)])
        shifted = [
            replace(
                trace, instruction=trace.instruction + instructions[number], start=trace.start + cycles[number],
                end=trace.end + cycles[number],
            )
            for number, (trace, _) in enumerate(launches)
        ]  # fmt: skip
        names = ("unit", "instruction", "start", "end", "cause", "stalled", "waited")
        arrays = {
            name: np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in shifted)]) for name in names
        }
        stream = tuple(instruction for each in shifted for instruction in each.stream)
        # A launch's entries are in order already, so a stable sort keeps the order within a unit.
        return cls(**arrays, stream=stream).select(np.argsort(arrays["unit"], kind="stable"))

    def of_unit(self, name: str) -> "Trace":
        """The entries of one unit: "load", "compute", "store" or "fetch"."""
        if not isinstance(name, str) or name not in UNIT_NAMES:
            raise TraceError(f"The unit of a trace must be one of {', '.join(UNIT_NAMES)}, not {shown(name)}.")
        return self.select(self.unit == UNIT_NAMES.index(name))

    def select(self, chosen: NDArray[np.bool_] | Ints) -> "Trace":
        """Some of the entries, by a mask or by indices."""
        arrays = {
            name: getattr(self, name)[chosen]
            for name in ("unit", "instruction", "start", "end", "cause", "stalled", "waited")
        }
        return replace(self, **arrays)

    def assembly(self, entry: int) -> str:
        """The assembly text of an entry's instruction."""
        return instruction_text(self.stream[int(self.instruction[entry])])

    def write_chrome_trace(self, path: str | PathLike[str], label_of: Callable[[int], str] | None = None) -> None:
        """Write the trace as JSON for Perfetto (ui.perfetto.dev) and chrome://tracing, with one track per unit.

        One cycle is shown as one microsecond. `label_of` returns an instruction's label, which becomes part of its
        event. Events of a track must not overlap, so an event is truncated where the unit's next one starts; its
        arguments have the real cycles. Written atomically; raises :class:`~lathe.configs.atomic.FileError`.
        """
        events = ",\n".join(json.dumps(event) for event in self._events(label_of))
        write_text(path, f'{{"displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n')

    def _events(self, label_of: Callable[[int], str] | None) -> Iterator[dict[str, object]]:
        yield {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "machine"}}
        for track, unit in enumerate(_TRACKS):
            yield {"ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": {"name": UNIT_NAMES[unit]}}
            yield {"ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}
        for track, unit in enumerate(_TRACKS):
            rows = self.select(self.unit == unit)
            following = np.append(rows.start[1:], np.iinfo(np.int64).max)
            visible = np.minimum(rows.end + 1, following) - rows.start
            columns = (rows.instruction, rows.start, rows.end, visible, rows.cause, rows.stalled, rows.waited)
            for index, start, end, length, cause, stalled, waited in zip(*(c.tolist() for c in columns), strict=True):
                instruction = self.stream[index]
                arguments: dict[str, object] = {
                    "instruction": index,
                    "assembly": instruction_text(instruction),
                    "start": start,
                    "end": end,
                }
                if stalled:
                    arguments |= {"stalled": stalled, "cause": str(StallCause(cause))}
                if waited:
                    arguments["waited for memory"] = waited
                if label_of is not None:
                    arguments["label"] = label_of(index)
                kind = getattr(instruction, "memory_type", getattr(instruction, "alu_opcode", None))
                name = instruction.opcode.name + ("" if kind is None else f" {kind.name.lower()}")
                yield {
                    "ph": "X",
                    "pid": 1,
                    "tid": track,
                    "name": name,
                    "cat": UNIT_NAMES[unit],
                    "ts": start,
                    "dur": length,
                    "args": arguments,
                }
