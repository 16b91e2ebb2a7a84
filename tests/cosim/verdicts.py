"""Verdicts of verifier, reference semantics, simulator and RTL on a stream, and contradictions between them."""

from dataclasses import dataclass

from comparison import data_differences, drain, fault_of, reported_fault

from lathe.isa import FaultCode, FindingKind, MachineFault, PagedMemory, Unit, unit_of, verify_stream
from lathe.isa.dispatch import Dispatch
from lathe.isa.semantics import MachineState, step
from lathe.isa.semantics import run as run_plainly
from lathe.isa.table import QUEUE_OF
from lathe.sim import replay

# Findings after which the behaviour depends on timing, or on the previous contents of scratchpads.
OF_TIME = {FindingKind.RACE, FindingKind.TOKEN_OVERFLOW}
OF_CONTENT = {FindingKind.UNINITIALISED, FindingKind.UOP_UNLOADED}
UNKNOWN_MICRO_OPS = {FindingKind.UOP_UNLOADED, FindingKind.UOP_SOURCE}
INDEX_FAULTS = {FaultCode.ACC_RANGE, FaultCode.INP_RANGE, FaultCode.WGT_RANGE}


@dataclass
class Ended:
    """The outcome of a stream: a fault at an instruction, or final memory and tokens."""

    fault: tuple | None
    pages: dict | None = None
    tokens: tuple | None = None


def verified(cfg, stream):
    """The findings of the verifier."""
    memory = PagedMemory.of(stream.page_addrs, stream.pages)
    encoded = stream.encoded(cfg)
    return verify_stream(cfg, stream.instructions, memory, stream.tokens, insn_addr=stream.insn_addr, encoded=encoded)


def simulated(cfg, stream):
    """The outcome of the stream in the simulator."""
    try:
        result = replay(cfg, stream.raw(cfg), trace=False)
    except MachineFault as fault:
        return Ended((fault.code, fault.instruction))
    pages = memory_of(cfg, stream).pages | dict(zip(result.page_addrs.tolist(), result.pages, strict=True))
    return Ended(None, pages, tuple(result.tokens))


def meant(cfg, stream):
    """The outcome of the stream in the reference semantics."""
    state = MachineState(cfg, memory_of(cfg, stream), list(stream.tokens))
    try:
        run_plainly(state, stream.instructions, stream.insn_addr)
    except MachineFault as fault:
        return Ended((fault.code, fault.instruction))
    return Ended(None, state.dram.pages, tuple(state.tokens))


def meant_anyhow(cfg, stream, rng):
    """The outcome in the reference semantics, in a random order that tokens and queues allow; it must not deadlock."""
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
    """Whether the tokens that an instruction pops are available."""
    pops = [name for name in ("pop_prev", "pop_next") if getattr(instruction, name)]
    return all(state.tokens[QUEUE_OF[unit_of(instruction), name]] for name in pops)


def memory_of(cfg, stream):
    """The memory before the launch, including the stream."""
    memory = PagedMemory.of(stream.page_addrs, [page.copy() for page in stream.pages])
    memory.write(stream.insn_addr, stream.encoded(cfg).reshape(-1))
    return memory


def contradictions(cfg, stream):
    """Contradictions between verifier, simulator and semantics; the findings; the outcomes of the other two."""
    findings = verified(cfg, stream)
    kinds = {finding.kind for finding in findings}
    predicted = {(finding.code, faulting_instruction(finding)) for finding in findings if finding.code is not None}
    certain = {code for code, _ in predicted} - {FaultCode.TOKEN_OVERFLOW}
    # Instructions whose micro-ops, and thus indices, are statically unknown.
    blind = {finding.instruction for finding in findings if finding.kind is FindingKind.UOP_UNLOADED}
    changed = FindingKind.UOP_SOURCE in kinds
    # The verifier reports the first push that may overflow; a later one may be the first that does.
    overflows = [finding.instruction for finding in findings if finding.kind is FindingKind.TOKEN_OVERFLOW]
    ends = {"simulator": simulated(cfg, stream), "meaning": meant(cfg, stream)}
    found = []
    for name, end in ends.items():
        if end.fault is None:
            if certain and not (changed and certain <= INDEX_FAULTS):
                found.append(f"{name}: ends without fault, and the verifier predicts {certain}")
        elif end.fault not in predicted:
            code, index = end.fault
            unknown = code in INDEX_FAULTS and (changed or index in blind)
            late = code is FaultCode.TOKEN_OVERFLOW and overflows and index > min(overflows)
            if not unknown and not late:
                found.append(f"{name}: {code.name} at {index} is not predicted")
    one, other = ends.values()
    if not kinds & (OF_TIME | UNKNOWN_MICRO_OPS) and one.fault is None and other.fault is None:
        if one.tokens != other.tokens:
            found.append(f"tokens: simulator {one.tokens}, meaning {other.tokens}")
        found += data_differences(one.pages, other.pages)
    return found, findings, ends


def faulting_instruction(finding):
    """The instruction to which a machine attributes the fault; None for a stream without FINISH."""
    return None if finding.code is FaultCode.NO_FINISH else finding.instruction


def contradictions_of_rtl(cfg, streams, run):
    """Contradictions between RTL and simulator, by index in `streams`; and the fault codes that the simulator predicts.

    All run on one machine, whose scratchpads are not cleared between them.
    """
    found_kinds = [{finding.kind for finding in verified(cfg, stream)} for stream in streams]
    chosen = [index for index, kinds in enumerate(found_kinds) if not kinds & UNKNOWN_MICRO_OPS]
    expected = [fault_of(cfg, streams[index]) for index in chosen]
    most = [cycles + drain(cfg) for _, cycles in expected]
    launches = [streams[index].launch(cfg, most_cycles=limit) for index, limit in zip(chosen, most, strict=True)]
    found = {}
    for index, fault, outcome in zip(chosen, expected, run(cfg, *launches), strict=True):
        differences = [] if reported_fault(outcome) == fault else [f"simulator {fault}, RTL {reported_fault(outcome)}"]
        if fault[0] is FaultCode.NONE and not differences and not found_kinds[index] & (OF_TIME | OF_CONTENT):
            end = simulated(cfg, streams[index])
            if end.tokens != outcome.tokens:
                differences.append(f"tokens: simulator {end.tokens}, RTL {outcome.tokens}")
            differences += data_differences(end.pages, outcome.memory.pages)
        if differences:
            found[index] = differences
    return found, [code for code, _ in expected]
