"""The RTL as an engine: converts its outcomes to the simulator's result types, so that the two can be compared."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lathe.configs import HardwareConfig
from lathe.configs.atomic import hidden_prefix, mode_for, unwritable
from lathe.configs.memory import PAGE_BYTES
from lathe.input_values import blank_inputs
from lathe.isa import BusError, FaultCode, Instruction, MachineFault, Program, unit_of
from lathe.isa.fault import FAULT_DESCRIPTIONS
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.engines.launch import Launch, Outcome
from lathe.rtl.engines.launch import Trace as RtlTrace
from lathe.sim import Counters, ReplayResult, Result, Trace, UnitCounters
from lathe.sim.counters import ALU_OPERATIONS
from lathe.sim.dram import FlatMemory
from lathe.sim.replay import decoded
from lathe.sim.simulate import memory_of, token_counts, unpacked
from lathe.sim.stream import stream_for
from lathe.sim.trace import UNIT_NAMES

Runner = Callable[..., list[Outcome]]


def runner_named(name: str) -> Runner:
    """The function that runs launches for engine "pysim" or "verilator"."""
    if name == "pysim":
        from lathe.rtl.engines import pysim

        return pysim.run
    from lathe.rtl.engines import verilator

    return verilator.run


def prepare(name: str, config: HardwareConfig, wave: str | None) -> None:
    """Build the machine for engine "verilator" if it is not cached; `wave` is a suffix. Raises RtlError."""
    Geometry(config)  # raises for machines that cannot be built, before modules are elaborated
    if name == "verilator":
        from lathe.rtl.engines.build import library

        library(config, wave)


def simulate_with(runner: Runner) -> Callable[..., Result]:
    """``simulate_program`` with launches run by ``runner(config, *launches)``."""

    def simulate(
        program: Program,
        inputs: Mapping[str, ArrayLike] | None = None,
        *,
        timing_only: bool = False,
        trace: bool = True,
        tokens: Sequence[int] | None = None,
        wave: str | PathLike[str] | None = None,
    ) -> Result:
        # Timing does not depend on data, so any inputs serve.
        given = blank_inputs(program) if timing_only else {} if inputs is None else inputs
        before = memory_of(program, given)
        memory = PagedMemory()
        memory.write(0, before.content)
        launch = Launch(
            program.insn_addr,
            len(program.instructions),
            memory,
            token_counts(program.tokens_in if tokens is None else tokens),
            memory_end=program.memory_end,
            trace=trace,
        )
        outcome = completed(launched(runner, program.config, launch, wave))
        after = FlatMemory(program.memory_end)
        after.content[:] = outcome.memory.read(0, len(after.content))
        return Result(
            program=program,
            outputs={} if timing_only else {each.name: unpacked(after, each) for each in program.outputs},
            cycles=outcome.cycles,
            tokens=outcome.tokens,
            counters=counters_of(outcome, program.instructions),
            trace=in_simulators_order(outcome.trace, program.instructions) if outcome.trace is not None else None,
        )

    return simulate


def replay_with(runner: Runner) -> Callable[..., ReplayResult]:
    """``replay`` with launches run by ``runner(config, *launches)``."""

    def replay(
        cfg: HardwareConfig,
        stream: str | PathLike[str] | Mapping[str, ArrayLike],
        *,
        trace: bool = True,
        wave: str | PathLike[str] | None = None,
        bus_error: BusError | None = None,
        memory_end: int | None = None,
    ) -> ReplayResult:
        raw = stream_for(cfg, stream)
        # Invalid instruction words are not refused here: the machine faults on them.
        instructions = decoded(cfg, raw.insns)[0].instructions()
        memory = PagedMemory.of(raw.page_addrs, raw.pages)
        memory.write(raw.insn_addr, np.ascontiguousarray(raw.insns).reshape(-1))
        launch = Launch(
            raw.insn_addr, len(raw.insns), memory, raw.tokens, memory_end=memory_end, error=bus_error, trace=trace
        )
        outcome = completed(launched(runner, cfg, launch, wave))
        blank = np.zeros(PAGE_BYTES, np.uint8)
        given = set(raw.page_addrs.tolist())
        changes = {
            address: not np.array_equal(page, memory.pages.get(address, blank))
            for address, page in outcome.memory.pages.items()
        }
        addresses = sorted(address for address, changed in changes.items() if changed or address in given)
        pages = [outcome.memory.pages[address] for address in addresses]
        return ReplayResult(
            stream=raw,
            page_addrs=np.array(addresses, np.uint64),
            pages=np.array(pages, np.uint8).reshape(-1, PAGE_BYTES),
            changed=np.array([changes[address] for address in addresses], bool),
            tokens=outcome.tokens,
            cycles=outcome.cycles,
            counters=counters_of(outcome, instructions),
            trace=in_simulators_order(outcome.trace, instructions) if outcome.trace is not None else None,
        )

    return replay


def launched(runner: Runner, cfg: HardwareConfig, launch: Launch, wave: str | PathLike[str] | None) -> Outcome:
    """Run one launch; its waveform is moved to its path atomically, also after a fault. Raises FileError, RtlError."""
    Geometry(cfg)  # as in prepare
    if wave is None:
        return runner(cfg, launch)[0]
    target = Path(wave)
    try:
        folder = TemporaryDirectory(dir=target.parent, prefix=hidden_prefix(target))
    except OSError as error:
        raise unwritable(target, error) from error
    with folder as name:
        written = Path(name) / f"wave{target.suffix}"
        try:
            return runner(cfg, replace(launch, wave=str(written)))[0]
        finally:  # the waveform of a launch that fails is needed to debug it
            if written.exists():
                written.chmod(mode_for(target))
                os.replace(written, target)


def completed(outcome: Outcome) -> Outcome:
    """The outcome itself. Raises :class:`MachineFault` if the machine stopped with a fault."""
    if outcome.fault is FaultCode.NONE:
        return outcome
    cycle = outcome.cycles - 1  # the counter includes the cycle in which the fault was detected
    message = (
        f"The machine stopped in cycle {cycle} with fault {outcome.fault.name} ({int(outcome.fault)}): "
        f"{FAULT_DESCRIPTIONS[outcome.fault]}. Run engine 'sim' to learn which instruction caused it."
    )
    raise MachineFault(message, outcome.fault, cycle=cycle)


def counters_of(outcome: Outcome, stream: Sequence[Instruction]) -> Counters:
    """The counters of a completed launch in the simulator's form."""
    # The unit of each instruction from the RTL's trace; without a trace, from the instruction set.
    ran_on = [int(unit_of(each)) for each in stream] if outcome.trace is None else outcome.trace.unit.tolist()
    executed = {**{name: ran_on.count(number) for number, name in enumerate(UNIT_NAMES)}, "fetch": len(stream)}
    units: dict[str, UnitCounters] = {}
    for unit, cycles in outcome.units.items():
        stalls = {cause: number for cause, number in cycles.items() if cause != "busy" and number}
        units[unit] = UnitCounters(executed[unit], cycles["busy"], stalls)
    alu = {name: outcome.operations.get(name, 0) for name in ALU_OPERATIONS}
    kinds = [memory.name.lower() for memory in MemoryType if memory is not MemoryType.OUT]
    return Counters(
        cycles=outcome.cycles,
        gemm_operations=outcome.operations.get("gemm", 0),
        reset_operations=outcome.operations.get("reset", 0),
        alu_operations=sum(alu.values()),
        alu_operations_of=alu,
        bytes_read={name: outcome.bytes_read.get(name, 0) for name in ("instructions", *kinds)},
        bytes_written={"out": outcome.bytes_written},
        read_bursts=outcome.bursts.get("read", 0),
        read_beats=outcome.beats.get("read", 0),
        write_bursts=outcome.bursts.get("write", 0),
        write_beats=outcome.beats.get("write", 0),
        units=units,
    )


def in_simulators_order(trace: RtlTrace, stream: Sequence[Instruction]) -> Trace:
    """The trace of a launch in the simulator's order: by unit, and within a unit by instruction."""
    own = np.argsort(trace.unit, kind="stable")
    everything = np.arange(len(stream))

    def joined(executed: Any, fetched: Any) -> Any:
        return np.concatenate((executed[own], fetched))

    return Trace(
        unit=np.concatenate((trace.unit[own], np.full(len(stream), UNIT_NAMES.index("fetch")))),
        instruction=np.concatenate((own, everything)),
        start=joined(trace.start, trace.dispatch),
        end=joined(trace.end, trace.dispatch),
        cause=joined(trace.cause, trace.dispatch_cause),
        stalled=joined(trace.stalled, trace.dispatch_stalled),
        waited=joined(trace.waited, np.zeros(len(stream), np.int64)),
        stream=stream,
    )
