"""The simulator: architectural state, unit models, event engine, trace and counters."""

from lathe.configs.array_args import InputError
from lathe.isa import MachineFault
from lathe.isa.stall import StallCause
from lathe.sim.counters import Counters, UnitCounters
from lathe.sim.replay import ReplayResult, replay
from lathe.sim.result import OutputError, Result
from lathe.sim.simulate import simulate_program
from lathe.sim.stream import RawStream, StreamError, read_stream
from lathe.sim.trace import Trace, TraceError

__all__ = [
    "Counters",
    "InputError",
    "MachineFault",
    "OutputError",
    "RawStream",
    "ReplayResult",
    "Result",
    "StallCause",
    "StreamError",
    "Trace",
    "TraceError",
    "UnitCounters",
    "read_stream",
    "replay",
    "simulate_program",
]
