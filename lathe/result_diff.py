"""Differences between two engines' results of one launch, as sentences; an empty list if they agree."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.memory import PAGE_BYTES
from lathe.isa import MachineFault
from lathe.sim import ReplayResult, Result, StallCause, Trace
from lathe.sim.trace import UNIT_NAMES

COLUMNS = ("unit", "instruction", "start", "end", "cause", "stalled", "waited")


def time_differences(left: str, a: Result | ReplayResult, right: str, b: Result | ReplayResult) -> list[str]:
    """The first event that diverges, then tokens and counters. `left` and `right` name the engines."""
    found = []
    if a.trace is not None and b.trace is not None:
        found += _first_event(left, a.trace, right, b.trace)
    if a.tokens != b.tokens:
        found.append(f"Tokens afterwards are {a.tokens} in {left} and {b.tokens} in {right}.")
    here, there = _flat(a.counters.to_dict()), _flat(b.counters.to_dict())
    for key in here | there:
        if here.get(key, 0) != there.get(key, 0):
            found.append(f"Counter {key} is {here.get(key, 0)} in {left} and {there.get(key, 0)} in {right}.")
    return found


def _first_event(left: str, a: Trace, right: str, b: Trace) -> list[str]:
    if len(a) != len(b):
        return [f"The trace has {len(a)} events in {left} and {len(b)} in {right}."]
    wrong = np.zeros(len(a), np.bool_)
    for column in COLUMNS:
        wrong |= getattr(a, column) != getattr(b, column)
    if not wrong.any():
        return []
    indices = np.flatnonzero(wrong)
    index = int(indices[np.argmin(np.minimum(a.start[indices], b.start[indices]))])
    words = [f"{len(indices)} of {len(a)} events differ, first {_subject(a, index)}: {_times(a, index)} in {left} and"]
    if _subject(a, index) != _subject(b, index):
        words.append(f"{_subject(b, index)}:")
    return [" ".join([*words, f"{_times(b, index)} in {right}."])]


def _subject(trace: Trace, index: int) -> str:
    unit = UNIT_NAMES[int(trace.unit[index])]
    return f"instruction {int(trace.instruction[index])} ({trace.assembly(index)}) in {unit}"


def _times(trace: Trace, index: int) -> str:
    cause = StallCause(int(trace.cause[index]))
    return (
        f"start {int(trace.start[index])}, end {int(trace.end[index])}, stalled {int(trace.stalled[index])} ({cause}), "
        f"waited {int(trace.waited[index])}"
    )


def fault_differences(left: str, a: MachineFault, right: str, b: MachineFault) -> list[str]:
    """A sentence if two faults differ in code, in cycle or, where both name one, in the instruction."""
    same_instruction = a.instruction is None or b.instruction is None or a.instruction == b.instruction
    if a.code == b.code and a.cycle == b.cycle and same_instruction:
        return []
    return [f"The launch stops {_fault(left, a)} and {_fault(right, b)}."]


def _fault(engine: str, fault: MachineFault) -> str:
    blamed = "" if fault.instruction is None else f" for instruction {fault.instruction}"
    return f"in {engine} in cycle {fault.cycle} with {fault.code.name}{blamed}"


def output_differences(
    left: str, a: Mapping[str, NDArray[Any]], right: str, b: Mapping[str, NDArray[Any]]
) -> list[str]:
    """For each output that differs: the number of elements that differ, and the first of them."""
    found = []
    for name, here in a.items():
        there = b[name]
        wrong = np.argwhere(here != there)
        if len(wrong):
            at = tuple(wrong[0].tolist())
            found.append(
                f"Output {name!r} differs in {len(wrong)} of {here.size} elements, first at {at}: {here[at]} in {left} "
                f"and {there[at]} in {right}."
            )
    return found


def memory_differences(left: str, a: ReplayResult, right: str, b: ReplayResult) -> list[str]:
    """The number of bytes that differ in the final memory, and the first of them."""
    blank = np.zeros(PAGE_BYTES, np.uint8)
    pages = [dict(zip(each.page_addrs.tolist(), each.pages, strict=True)) for each in (a, b)]
    count, first = 0, ""
    for address in sorted({*pages[0], *pages[1]}):
        here, there = (each.get(address, blank) for each in pages)
        offsets = np.flatnonzero(here != there)
        count += len(offsets)
        if len(offsets) and not first:
            at = int(offsets[0])
            first = f"{address + at:#x}: {int(here[at])} in {left} and {int(there[at])} in {right}"
    return [f"Memory differs in {count} bytes, first at byte {first}."] if count else []


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
