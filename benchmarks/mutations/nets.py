"""The nets that compare simulator and RTL on a case, and check a program's outputs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from comparison import (
    count_differences,
    counter_differences,
    data_differences,
    reported_fault,
    trace_differences,
)
from overlapping_streams import token_violations
from percycle_on_bus import stalled_time_differences

from lathe.isa import FaultCode, MachineFault
from lathe.rtl.engines.launch import Outcome
from lathe.sim import ReplayResult
from lathe.sim.dram import FlatMemory
from lathe.sim.simulate import unpacked
from mutations.cases import Case, Simulated
from mutations.programs import outputs_equal

NETS = ("memory", "tokens", "cycles", "trace", "counters", "fault", "bus", "crash", "values")

# Cases that run after the first on which a net catches the fault, for the other nets.
MORE = 20


def collected(cases: Iterable[Case], look: Callable[[Case], Mapping[str, str]]) -> dict[str, str]:
    """What `look` returns for each net's first catch; stops some cases after the first catch of all."""
    found: dict[str, str] = {}
    left = MORE
    for case in cases:
        for net, said in look(case).items():
            found.setdefault(net, said)
        left -= bool(found)
        if not left:
            break
    return found


def caught_on(case: Case, expected: Sequence[Simulated], outcomes: Sequence[Outcome]) -> set[str]:
    """The nets in which simulator and RTL differ."""
    found: set[str] = set()
    for place, (result, outcome) in enumerate(zip(expected, outcomes, strict=True)):
        if isinstance(result, MachineFault) or outcome.fault != FaultCode.NONE:
            mine = (result.code, result.cycle) if isinstance(result, MachineFault) else (FaultCode.NONE, result.cycles)
            if mine != reported_fault(outcome):
                found.add("fault")
            continue
        stream = case.streams[place]
        parts: dict[str, Any] = {"tokens": tuple(result.tokens) != outcome.tokens}
        if case.stalls is None:
            parts["cycles"] = result.cycles != outcome.cycles
            parts["trace"] = trace_differences(stream.instructions, result.trace, outcome.trace)
            parts["counters"] = counter_differences(result.counters, outcome)
        else:
            time = stalled_time_differences(case.config, stream, case.stalls, outcome)
            parts["cycles"] = any(each.startswith("cycles") for each in time)
            parts["trace"] = [*time, *token_violations(stream, outcome.trace)]
            parts["counters"] = count_differences(result.counters, outcome)
        if case.data:
            parts["memory"] = data_differences(pages_after(case, place, result), outcome.memory.pages)
        found |= {net for net, differs in parts.items() if differs}
    return found


def pages_after(case: Case, place: int, result: ReplayResult) -> dict[int, Any]:
    """Memory after a launch in the simulator, which returns only changed pages."""
    changed = dict(zip(result.page_addrs.tolist(), result.pages, strict=True))
    return case.launches[place].memory.pages | changed


def values_wrong(case: Case, pages: Mapping[int, Any]) -> bool:
    """Whether a program's outputs differ from NumPy's; `pages`: memory after the launch."""
    built = case.built
    if built is None:
        return False
    memory = FlatMemory(built.program.memory_end)
    for address, page in pages.items():
        if address < len(memory.content):
            end = min(address + len(page), len(memory.content))
            memory.content[address:end] = page[: end - address]
    return not outputs_equal(built, {each.name: unpacked(memory, each) for each in built.program.outputs})
