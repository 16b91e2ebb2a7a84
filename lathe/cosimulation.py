"""One program on several engines, compared in every bit and every cycle.

The simulator predicts what the RTL does; this is where the prediction is checked, instruction by instruction. The idea
of one trace from both sides, compared entry by entry, is OpenTitan's for its OTBN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import LatheError
from lathe.engines import engine_named
from lathe.isa import Program
from lathe.isa.paged_memory import PAGE_BYTES
from lathe.sim import ReplayResult, StallCause, Trace
from lathe.sim.dram import FlatMemory
from lathe.sim.simulate import memory_of, token_counts, unpacked
from lathe.sim.trace import UNIT_NAMES

COLUMNS = ("unit", "instruction", "start", "end", "cause", "stalled", "waited")


class CosimulationError(LatheError):
    """Two engines differ; the message shows the first difference from both sides."""


@dataclass(frozen=True)
class Cosimulation:
    """What several engines made of one program. ``differences`` is empty when they agree in everything.

    ``results`` by engine; ``outputs`` and ``cycles`` of the first engine, which are those of all if they agree.
    """

    results: Mapping[str, ReplayResult]
    outputs: Mapping[str, NDArray[Any]]
    cycles: int
    differences: tuple[str, ...]

    def check(self) -> "Cosimulation":
        """Itself, if there is no difference. Raises :class:`CosimulationError` with all there are."""
        if self.differences:
            raise CosimulationError("The engines must agree, and do not. " + " ".join(self.differences))
        return self


def cosimulate(
    program: Program,
    inputs: Mapping[str, ArrayLike] | None = None,
    *,
    engines: Sequence[str] = ("sim", "verilator"),
    tokens: Sequence[int] | None = None,
) -> Cosimulation:
    """Run a program on several engines and compare memory, outputs, tokens, counters, and the trace of every unit.

    Raises EngineError for an unknown engine, InputError for inputs that do not fit, MachineFault for a program that a
    machine does not carry out.
    """
    before = memory_of(program, {} if inputs is None else inputs)
    count = -(-len(before.content) // PAGE_BYTES)
    pages = np.zeros((count, PAGE_BYTES), np.uint8)
    pages.reshape(-1)[: len(before.content)] = before.content
    stream: dict[str, ArrayLike] = {
        "insns": program.encoded,
        "insn_addr": program.insn_addr,
        "page_addrs": np.arange(count, dtype=np.uint64) * PAGE_BYTES,
        "pages": pages,
        "tokens": np.array(token_counts(program.tokens_in if tokens is None else tokens), np.int64),
    }
    results = {name: engine_named(name).replay(program.config, stream) for name in engines}
    first, *others = engines
    differences = [text for other in others for text in compare(first, results[first], other, results[other])]
    return Cosimulation(results, _outputs(program, results[first]), results[first].cycles, tuple(differences))


def _outputs(program: Program, result: ReplayResult) -> dict[str, NDArray[Any]]:
    memory = FlatMemory(program.memory_end)
    for address, page in zip(result.page_addrs.tolist(), result.pages, strict=True):
        end = min(address + PAGE_BYTES, len(memory.content))
        memory.content[address:end] = page[: max(end - address, 0)]
    return {each.name: unpacked(memory, each) for each in program.outputs}


def compare(left: str, a: ReplayResult, right: str, b: ReplayResult) -> list[str]:
    """Differences of two engines' results, the first event that diverges before the sums that follow from it."""
    found: list[str] = []
    if a.trace is not None and b.trace is not None:
        found += _first_event(left, a.trace, right, b.trace)
    found += _memory(left, a, right, b)
    if a.tokens != b.tokens:
        found.append(f"Tokens afterwards are {a.tokens} in {left} and {b.tokens} in {right}.")
    here, there = _flat(a.counters.to_dict()), _flat(b.counters.to_dict())
    for key in sorted(set(here) | set(there)):
        if here.get(key, 0) != there.get(key, 0):
            found.append(f"Counter {key} is {here.get(key, 0)} in {left} and {there.get(key, 0)} in {right}.")
    return found


def _first_event(left: str, a: Trace, right: str, b: Trace) -> list[str]:
    if len(a) != len(b):
        return [f"The trace has {len(a)} entries in {left} and {len(b)} in {right}."]
    wrong = np.zeros(len(a), np.bool_)
    for column in COLUMNS:
        wrong |= getattr(a, column) != getattr(b, column)
    if not wrong.any():
        return []
    places = np.flatnonzero(wrong)
    place = int(places[np.argmin(np.minimum(a.start[places], b.start[places]))])
    unit, number = UNIT_NAMES[int(a.unit[place])], int(a.instruction[place])
    sides = " and ".join(f"{_event(trace, place)} in {name}" for name, trace in ((left, a), (right, b)))
    return [
        f"Of {len(a)} events {int(wrong.sum())} differ, first instruction {number} ({a.assembly(place)}) in {unit}: "
        f"{sides}."
    ]


def _event(trace: Trace, place: int) -> str:
    cause = StallCause(int(trace.cause[place]))
    return (
        f"start {int(trace.start[place])}, end {int(trace.end[place])}, stalled {int(trace.stalled[place])} ({cause}), "
        f"waited {int(trace.waited[place])}"
    )


def _memory(left: str, a: ReplayResult, right: str, b: ReplayResult) -> list[str]:
    blank = np.zeros(PAGE_BYTES, np.uint8)
    pages = [dict(zip(each.page_addrs.tolist(), each.pages, strict=True)) for each in (a, b)]
    for address in sorted({*pages[0], *pages[1]}):
        here, there = (each.get(address, blank) for each in pages)
        places = np.flatnonzero(here != there)
        if len(places):
            at = int(places[0])
            return [
                f"Memory differs first at byte {address + at:#x}: {int(here[at])} in {left}, {int(there[at])} in {right}."
            ]
    return []


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
