"""The engine "verilator": the machine as compiled C++, with memory model, trace and counts in the same library."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.memory import PAGE_BYTES
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.engines.abi import TRACE_COLUMNS, End, LatheCounts, LatheLaunch, LatheTrace
from lathe.rtl.engines.axi_checker import ProtocolError, Rule
from lathe.rtl.engines.build import library
from lathe.rtl.engines.dram import first_state
from lathe.rtl.engines.host import REPORT, report, settings
from lathe.rtl.engines.launch import BrokenRunError, Launch, Outcome, Trace
from lathe.rtl.registers import BY_NAME
from lathe.rtl.trace_opcodes import OPERATIONS

_BROKEN = {
    End.TOO_LONG: "the RTL did not end the launch within {most} cycles",
    End.NO_DATA: "the RTL had no data for a write beat",
}


def run(config: HardwareConfig, *launches: Launch) -> list[Outcome]:
    """Run launches one after the other on one machine, without a reset between them; each has its own memory.

    Raises :class:`~lathe.rtl.derived_widths.RtlError` when the machine cannot be built, or a tool is missing.
    """
    wave = next((launch.wave for launch in launches if launch.wave is not None), None)
    shared = _loaded(library(config, None if wave is None else Path(wave).suffix))
    machine = shared.lathe_new()
    try:
        if wave is not None:
            shared.lathe_wave(machine, str(wave).encode())
        return [_launched(shared, machine, config, launch) for launch in launches]
    finally:
        shared.lathe_wave_close(machine)
        shared.lathe_delete(machine)


@lru_cache(maxsize=32)
def _loaded(path: Path) -> Any:
    try:
        shared = ctypes.CDLL(str(path))
    except OSError as error:
        raise RtlError(
            f"Cannot load the compiled simulator {str(path)!r}: {error}. Delete the file to build it again."
        ) from None
    signatures: dict[str, tuple[list[Any], Any]] = {
        "lathe_new": ([], c_void_p),
        "lathe_delete": ([c_void_p], None),
        "lathe_reset": ([c_void_p], None),
        "lathe_write": ([c_void_p, c_uint32, c_uint32], None),
        "lathe_read": ([c_void_p, c_uint32], c_uint32),
        "lathe_wave": ([c_void_p, c_char_p], None),
        "lathe_wave_close": ([c_void_p], None),
        "lathe_set_memory": ([c_void_p, c_int64, POINTER(c_uint64), POINTER(c_uint8)], None),
        "lathe_page_count": ([c_void_p], c_int64),
        "lathe_get_memory": ([c_void_p, POINTER(c_uint64), POINTER(c_uint8)], None),
        "lathe_run": ([c_void_p, POINTER(LatheLaunch), POINTER(LatheTrace), POINTER(LatheCounts)], c_int32),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(shared, name)
        function.argtypes, function.restype = arguments, result
    return shared


def _launched(shared: Any, machine: int, config: HardwareConfig, launch: Launch) -> Outcome:
    error = launch.error
    described = LatheLaunch(
        count=launch.count,
        memory_end=-1 if launch.memory_end is None else launch.memory_end,
        error_read=error.number if error is not None and error.channel == "read" else -1,
        error_write=error.number if error is not None and error.channel == "write" else -1,
        reset_at=-1 if launch.reset_at is None else launch.reset_at,
        most_cycles=launch.most_cycles,
        stall_seed=0 if launch.stalls is None else first_state(launch.stalls),
        latency=config.memory.latency,
        cycles_per_beat=config.memory.cycles_per_beat,
        shared_bandwidth=config.memory.shared_bandwidth,
        response_latency=config.timing.response_latency,
        burst_beats=config.memory.burst_beats,
        outstanding_reads=config.memory.outstanding_reads,
    )
    ended, trace, counts = _once(shared, machine, launch, described)
    if ended == End.RESET:
        shared.lathe_reset(machine)
        described.reset_at = -1
        ended, trace, counts = _once(shared, machine, launch, described)
    if ended == End.BROKEN:
        raise ProtocolError(Rule(counts.rule), counts.cycle)
    if ended != End.ENDED:
        problem = _BROKEN[End(ended)].format(most=launch.most_cycles)
        raise BrokenRunError(f"the run was aborted in cycle {counts.cycle}: {problem}")
    values = {name: shared.lathe_read(machine, BY_NAME[name].address) for name in REPORT}
    read = {memory.name.lower(): counts.bytes_read[memory] for memory in MemoryType if memory is not MemoryType.OUT}
    return Outcome(
        **report(values),
        memory=_memory_of(shared, machine),
        operations={name: counts.operations[index] for index, name in enumerate(OPERATIONS) if name},
        bytes_read={"instructions": INSTRUCTION_BYTES * counts.dispatched, **read},
        bytes_written=counts.bytes_written,
        bursts=dict(zip(("read", "write"), counts.bursts, strict=True)),
        beats=dict(zip(("read", "write"), counts.beats, strict=True)),
        interleaved=counts.interleaved,
        trace=trace,
    )


def _once(shared: Any, machine: int, launch: Launch, described: LatheLaunch) -> tuple[int, Trace | None, LatheCounts]:
    addresses = np.fromiter(launch.memory.pages, np.uint64, len(launch.memory.pages))
    pages = np.array(list(launch.memory.pages.values()), np.uint8).reshape(-1, PAGE_BYTES)
    shared.lathe_set_memory(
        machine, len(addresses), addresses.ctypes.data_as(POINTER(c_uint64)), pages.ctypes.data_as(POINTER(c_uint8))
    )
    trace = Trace.blank(launch.count) if launch.trace else None
    columns = None
    if trace is not None:
        columns = byref(LatheTrace(*(getattr(trace, name).ctypes.data_as(POINTER(c_int64)) for name in TRACE_COLUMNS)))
    for name, value in settings(launch):
        shared.lathe_write(machine, BY_NAME[name].address, value)
    counts = LatheCounts()
    return shared.lathe_run(machine, byref(described), columns, byref(counts)), trace, counts


def _memory_of(shared: Any, machine: int) -> PagedMemory:
    number = shared.lathe_page_count(machine)
    addresses, pages = np.empty(number, np.uint64), np.empty((number, PAGE_BYTES), np.uint8)
    shared.lathe_get_memory(
        machine, addresses.ctypes.data_as(POINTER(c_uint64)), pages.ctypes.data_as(POINTER(c_uint8))
    )
    memory = PagedMemory()
    memory.pages = dict(zip(addresses.tolist(), pages, strict=True))
    return memory
