"""What verifier, meaning, simulator and RTL say of a stream, and where they contradict each other."""

from dataclasses import dataclass

from comparison import data_differences, drain, fault_of, told_fault

from lathe.isa import FaultCode, FindingKind, MachineFault, PagedMemory, Unit, unit_of, verify_stream
from lathe.isa.dispatch import Dispatch
from lathe.isa.semantics import MachineState, step
from lathe.isa.semantics import run as run_plainly
from lathe.isa.table import QUEUE_OF
from lathe.sim import replay

# What a machine may do anyhow depends on time, or on what its scratchpads held before.
OF_TIME = {FindingKind.RACE, FindingKind.TOKEN_OVERFLOW}
OF_CONTENT = {FindingKind.UNINITIALISED, FindingKind.UOP_UNLOADED}
UNKNOWN_MICRO_OPS = {FindingKind.UOP_UNLOADED, FindingKind.UOP_SOURCE}
INDEX_FAULTS = {FaultCode.ACC_RANGE, FaultCode.INP_RANGE, FaultCode.WGT_RANGE}


@dataclass
class Ended:
    """How a stream ends: with a fault at an instruction, or with memory and tokens."""

    fault: tuple | None
    pages: dict | None = None
    tokens: tuple | None = None


def verified(cfg, stream):
    """What the verifier finds."""
    memory = PagedMemory.of(stream.page_addrs, stream.pages)
    encoded = stream.encoded(cfg)
    return verify_stream(cfg, stream.instructions, memory, stream.tokens, insn_addr=stream.insn_addr, encoded=encoded)


def simulated(cfg, stream):
    """In the simulator."""
    try:
        result = replay(cfg, stream.raw(cfg), trace=False)
    except MachineFault as fault:
        return Ended((fault.code, fault.instruction))
    pages = memory_of(cfg, stream).pages | dict(zip(result.page_addrs.tolist(), result.pages, strict=True))
    return Ended(None, pages, tuple(result.tokens))


def meant(cfg, stream):
    """In the executable meaning."""
    state = MachineState(cfg, memory_of(cfg, stream), list(stream.tokens))
    try:
        run_plainly(state, stream.instructions, stream.insn_addr)
    except MachineFault as fault:
        return Ended((fault.code, fault.instruction))
    return Ended(None, state.dram.pages, tuple(state.tokens))


def meant_anyhow(cfg, stream, rng):
    """In the executable meaning, in any order that tokens and queues allow; the stream must be one that ends."""
    state = MachineState(cfg, memory_of(cfg, stream), list(stream.tokens))
    units = [unit_of(instruction) for instruction in stream.instructions]
    queues = {unit: [] for unit in Unit}
    dispatch = Dispatch(units, cfg.timing.command_queue_depth)
    while True:
        ready = [unit for unit in Unit if queues[unit] and has_tokens(state, stream.instructions[queues[unit][0]])]
        if dispatch.dispatched < len(units) and not dispatch.waits:
            ready.append(None)
        if not ready:
            break
        unit = rng.choice(ready)
        if unit is None:
            queues[units[dispatch.dispatched]].append(dispatch.dispatched)
            dispatch.fetch()
        else:
            index = queues[unit].pop(0)
            dispatch.start(unit)
            step(state, stream.instructions[index], index)
    assert state.finished
    assert not any(queues.values()), queues
    return Ended(None, state.dram.pages, tuple(state.tokens))


def has_tokens(state, instruction):
    """Whether the tokens that an instruction pops are there."""
    pops = [name for name in ("pop_prev", "pop_next") if getattr(instruction, name)]
    return all(state.tokens[QUEUE_OF[unit_of(instruction), name]] for name in pops)


def memory_of(cfg, stream):
    """The memory before, the stream in it."""
    memory = PagedMemory.of(stream.page_addrs, [page.copy() for page in stream.pages])
    memory.write(stream.insn_addr, stream.encoded(cfg).reshape(-1))
    return memory


def contradictions(cfg, stream):
    """Where verifier, simulator and meaning contradict each other; what the verifier found; and how both others end."""
    findings = verified(cfg, stream)
    kinds = {finding.kind for finding in findings}
    foretold = {(finding.code, place_of(finding)) for finding in findings if finding.code is not None}
    certain = {code for code, _ in foretold} - {FaultCode.TOKEN_OVERFLOW}
    # Indices of micro-ops that nobody knows before the run.
    blind = {finding.instruction for finding in findings if finding.kind is FindingKind.UOP_UNLOADED}
    changed = FindingKind.UOP_SOURCE in kinds
    # The verifier names the first push that may overflow; one of the next may be the first that does.
    overflows = [finding.instruction for finding in findings if finding.kind is FindingKind.TOKEN_OVERFLOW]
    ends = {"simulator": simulated(cfg, stream), "meaning": meant(cfg, stream)}
    found = []
    for name, end in ends.items():
        if end.fault is None:
            if certain and not (changed and certain <= INDEX_FAULTS):
                found.append(f"{name}: ends well, and the verifier foretells {certain}")
        elif end.fault not in foretold:
            code, place = end.fault
            unknown = code in INDEX_FAULTS and (changed or place in blind)
            late = code is FaultCode.TOKEN_OVERFLOW and overflows and place > min(overflows)
            if not unknown and not late:
                found.append(f"{name}: {code.name} at {place} is not foretold")
    one, other = ends.values()
    if not kinds & (OF_TIME | UNKNOWN_MICRO_OPS) and one.fault is None and other.fault is None:
        if one.tokens != other.tokens:
            found.append(f"tokens: simulator {one.tokens}, meaning {other.tokens}")
        found += data_differences(one.pages, other.pages)
    return found, findings, ends


def place_of(finding):
    """The instruction that a machine blames; none of a stream that has no FINISH."""
    return None if finding.code is FaultCode.NO_FINISH else finding.instruction


def contradictions_of_rtl(cfg, streams, run):
    """Where the RTL contradicts the simulator, by place in `streams`; and how the simulator says that each ends.

    All run on one machine, whose scratchpads are not cleared between them.
    """
    foreseen = [{finding.kind for finding in verified(cfg, stream)} for stream in streams]
    chosen = [place for place, kinds in enumerate(foreseen) if not kinds & UNKNOWN_MICRO_OPS]
    expected = [fault_of(cfg, streams[place]) for place in chosen]
    most = [cycles + drain(cfg) for _, cycles in expected]
    launches = [streams[place].launch(cfg, most_cycles=limit) for place, limit in zip(chosen, most, strict=True)]
    found = {}
    for place, told, outcome in zip(chosen, expected, run(cfg, *launches), strict=True):
        differences = [] if told_fault(outcome) == told else [f"simulator {told}, RTL {told_fault(outcome)}"]
        if told[0] is FaultCode.NONE and not differences and not foreseen[place] & (OF_TIME | OF_CONTENT):
            end = simulated(cfg, streams[place])
            if end.tokens != outcome.tokens:
                differences.append(f"tokens: simulator {end.tokens}, RTL {outcome.tokens}")
            differences += data_differences(end.pages, outcome.memory.pages)
        if differences:
            found[place] = differences
    return found, [code for code, _ in expected]
