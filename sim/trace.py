"""The trace of a launch: when each instruction was in each unit, and why it had to wait."""

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

# The tracks of a picture, from top to bottom.
_TRACKS = (FETCH, LOAD, COMPUTE, STORE)


class TraceError(LatheError):
    """A trace that was not recorded is asked for, or a unit that there is not."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One entry for each instruction in each unit that handles it, so two for each: fetch's and its own unit's.

    Arrays (E,) int64, ordered by unit (0 load, 1 compute, 2 store, 3 fetch) and within a unit by instruction:
    ``unit``, ``instruction`` (place in the stream), ``start`` and ``end`` (cycles; tokens are popped in ``start`` and
    pushed in ``end``; fetch's entries start and end with the dispatch), ``cause`` (a :class:`StallCause`) and
    ``stalled`` (cycles that the unit had nothing to do before this entry), ``waited`` (cycles within that it waited
    for the memory).
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
    def one_after_the_other(cls, launches: Sequence[tuple["Trace", int]]) -> "Trace":
        """The trace of several launches, each with its cycles, as if each began where the one before it ended."""
        instructions = np.cumsum([0, *(len(trace.stream) for trace, _ in launches)])
        cycles = np.cumsum([0, *(count for _, count in launches)])
        moved = [
            replace(
                trace, instruction=trace.instruction + instructions[at], start=trace.start + cycles[at],
                end=trace.end + cycles[at],
            )
            for at, (trace, _) in enumerate(launches)
        ]  # fmt: skip
        names = ("unit", "instruction", "start", "end", "cause", "stalled", "waited")
        arrays = {
            name: np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in moved)]) for name in names
        }
        stream = tuple(instruction for each in moved for instruction in each.stream)
        # A launch's entries are in order already, so that those of a unit stay so.
        return cls(**arrays, stream=stream).select(np.argsort(arrays["unit"], kind="stable"))

    def of_unit(self, name: str) -> "Trace":
        """The entries of one unit: "load", "compute", "store" or "fetch"."""
        if not isinstance(name, str) or name not in UNIT_NAMES:
            raise TraceError(f"The unit of a trace must be one of {', '.join(UNIT_NAMES)}, not {shown(name)}.")
        return self.select(self.unit == UNIT_NAMES.index(name))

    def select(self, chosen: NDArray[np.bool_] | Ints) -> "Trace":
        """Some of the entries, by a mask or by places."""
        arrays = {
            name: getattr(self, name)[chosen]
            for name in ("unit", "instruction", "start", "end", "cause", "stalled", "waited")
        }
        return replace(self, **arrays)

    def assembly(self, entry: int) -> str:
        """The assembly text of an entry's instruction."""
        return instruction_text(self.stream[int(self.instruction[entry])])

    def write_chrome_trace(self, path: str | PathLike[str], label_of: Callable[[int], str] | None = None) -> None:
        """Write the trace as JSON that Perfetto (ui.perfetto.dev) and chrome://tracing show, one track per unit.

        One cycle is shown as one microsecond. `label_of` gives an instruction's label, which becomes part of its event.
        The tracks hold no overlapping events, so an event that overlaps the next of its unit is cut there; its
        arguments have the real cycles. Raises :class:`~lathe.configs.atomic.FileError`; the file is whole or untouched.
        """
        events = ",\n".join(json.dumps(event) for event in self._events(label_of))
        write_text(path, f'{{"displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n')

    def _events(self, label_of: Callable[[int], str] | None) -> Iterator[dict[str, object]]:
        yield {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "machine"}}
        for track, unit in enumerate(_TRACKS):
            yield {"ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": {"name": UNIT_NAMES[unit]}}
            yield {"ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}
        for track, unit in enumerate(_TRACKS):
            part = self.select(self.unit == unit)
            following = np.append(part.start[1:], np.iinfo(np.int64).max)
            shown = np.minimum(part.end + 1, following) - part.start
            columns = (part.instruction, part.start, part.end, shown, part.cause, part.stalled, part.waited)
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
