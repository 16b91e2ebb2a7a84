"""Runs a stream on the simulator and on the RTL, and lists their differences."""

import numpy as np

from lathe.configs.memory import PAGE_BYTES
from lathe.isa import FaultCode, MachineFault, instruction_text
from lathe.sim import replay

UNITS = ("load", "compute", "store")
UNIT_COLUMNS = ("start", "end", "cause", "stalled", "waited")


def differences(cfg, stream, run, *, data=True, **options):
    """The differences between RTL (`run` of an engine) and simulator on a stream; empty if there are none."""
    expected = replay(cfg, stream.raw(cfg))
    launch = stream.launch(cfg, most_cycles=expected.cycles + 1000, **options)
    (outcome,) = run(cfg, launch)
    found = time_differences(stream.instructions, expected, outcome)
    if data:
        # The simulator returns the pages that were given or have changed.
        pages = launch.memory.pages | dict(zip(expected.page_addrs.tolist(), expected.pages, strict=True))
        found += data_differences(pages, outcome.memory.pages)
    return found


def fault_of(cfg, stream, **options):
    """Code and cycle of the fault that the simulator predicts, or NONE and the number of cycles."""
    try:
        result = replay(cfg, stream.raw(cfg), trace=False, **options)
    except MachineFault as fault:
        return fault.code, fault.cycle
    return FaultCode.NONE, result.cycles


def reported_fault(outcome):
    """Code and cycle of the fault that the RTL reports, or NONE and the number of cycles."""
    # The counter includes the cycle in which the fault was detected.
    return outcome.fault, outcome.cycles - (outcome.fault != FaultCode.NONE)


def drain(cfg):
    """An upper bound on the cycles from a fault to the status register: the bursts in flight have to end first."""
    memory, timing = cfg.memory, cfg.timing
    beats = memory.outstanding_reads * memory.burst_beats + timing.dma_fifo_beats
    return memory.latency + beats * memory.cycles_per_beat + timing.response_latency + 8


def time_differences(instructions, expected, outcome):
    """Differences in cycles, traces, counters and tokens. `expected` is the simulator's result."""
    found = []
    if outcome.fault:
        found.append(f"fault {outcome.fault.name}")
    if expected.cycles != outcome.cycles:
        found.append(f"cycles: simulator {expected.cycles}, RTL {outcome.cycles}")
    if tuple(expected.tokens) != outcome.tokens:
        found.append(f"tokens: simulator {expected.tokens}, RTL {outcome.tokens}")
    found += trace_differences(instructions, expected.trace, outcome.trace)
    found += counter_differences(expected.counters, outcome)
    return found


def trace_differences(instructions, expected, trace):
    """The first differences between the simulator's trace and the RTL's."""
    found = []
    events = []
    for unit in UNITS:
        part = expected.of_unit(unit)
        for name in UNIT_COLUMNS:
            events += _events(unit, name, part, getattr(part, name), getattr(trace, name)[part.instruction])
    part = expected.of_unit("fetch")
    for name, column in (
        ("start", trace.dispatch),
        ("cause", trace.dispatch_cause),
        ("stalled", trace.dispatch_stalled),
    ):
        events += _events("fetch", name, part, getattr(part, name), column)
    for _, unit, name, index, mine, theirs in sorted(events)[:5]:
        text = instruction_text(instructions[index])
        found.append(f"{unit} {name} of instruction {index} ({text}): simulator {mine}, RTL {theirs}")
    return found


def _events(unit, name, part, mine, theirs):
    return [
        (int(part.start[row]), unit, name, int(part.instruction[row]), int(mine[row]), int(theirs[row]))
        for row in np.flatnonzero(mine != theirs)
    ]


def counter_differences(counters, outcome):
    """Differences between the simulator's counters and the RTL's."""
    cycles = {
        unit: ({"busy": each.busy, **each.stalls}, dict(outcome.units[unit])) for unit, each in counters.units.items()
    }
    return _unequal(cycles) + count_differences(counters, outcome)


def count_differences(counters, outcome):
    """Differences in counts that do not depend on time: operations, bytes, bursts and beats."""
    operations = (
        {"gemm": counters.gemm_operations, "reset": counters.reset_operations, **counters.alu_operations_of},
        outcome.operations,
    )
    moved = (
        {
            "written": counters.bytes_written["out"],
            "read bursts": counters.read_bursts,
            "read beats": counters.read_beats,
            "write bursts": counters.write_bursts,
            "write beats": counters.write_beats,
        },
        {
            "written": outcome.bytes_written,
            "read bursts": outcome.bursts["read"],
            "read beats": outcome.beats["read"],
            "write bursts": outcome.bursts["write"],
            "write beats": outcome.beats["write"],
        },
    )
    read = (counters.bytes_read, outcome.bytes_read)
    return _unequal({"operations": operations, "bytes read": read, "moved": moved})


def _unequal(pairs):
    found = []
    for what, (mine, theirs) in pairs.items():
        mine = {name: count for name, count in mine.items() if count}
        theirs = {name: count for name, count in theirs.items() if count}
        if mine != theirs:
            found.append(f"{what}: simulator {mine}, RTL {theirs}")
    return found


def data_differences(mine, theirs):
    """Differences between two memories, given as pages by address; missing pages are zero."""
    found = []
    blank = np.zeros(PAGE_BYTES, np.uint8)
    for address in sorted(mine.keys() | theirs.keys()):
        a, b = mine.get(address, blank), theirs.get(address, blank)
        for offset in np.flatnonzero(a != b)[:3].tolist():
            found.append(f"byte {address + offset:#x}: simulator {a[offset]}, RTL {b[offset]}")
    return found[:5]


def same(one, other):
    """Whether two outcomes have the same fault, cycles, tokens, counters and memory."""
    return (
        (one.fault, one.cycles, one.tokens, one.units) == (other.fault, other.cycles, other.tokens, other.units)
        and one.memory.pages.keys() == other.memory.pages.keys()
        and all(np.array_equal(one.memory.pages[page], other.memory.pages[page]) for page in one.memory.pages)
    )
