"""Measures a point of a sweep, a workload on a machine: its row has a status and metrics."""

import time
import traceback
import zlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from lathe.configs import LatheError, MemoryConfig
from lathe.engines import simulate
from lathe.isa.stall import CAUSES_OF, TRACK_NAMES
from lathe.networks.overloads import simulate as simulate_any
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostStep
from lathe.sim import Counters
from lathe.sweeps.energy import energies, energy_table
from lathe.sweeps.errors import SweepError
from lathe.sweeps.hardware import COUNTS, FITS, Hardware, hardware_numbers
from lathe.sweeps.layers import Layers, layers_of
from lathe.sweeps.machines import Machine, machine_of
from lathe.sweeps.share_programs import SharedPrograms
from lathe.sweeps.specification import Point
from lathe.sweeps.workers import Lost
from lathe.sweeps.workload_types import Compiled, Measurable
from lathe.sweeps.workloads import make

OK, INVALID, UNMAPPABLE, DIFFERENT, FAILED = "ok", "invalid machine", "unmappable", "outputs differ", "internal error"
UNBUILT = "no hardware"
"""The status of a row without hardware metrics: the RTL cannot be built or does not fit the device."""
LATE, LOST, CHANGED = "timed out", "worker lost", "files changed"
RETRIED = (LATE, LOST, CHANGED)
"""Statuses of rows that are measured again when a sweep is resumed."""

UNITS = TRACK_NAMES[:3]
WAITS = {
    f"{unit}_waits_{cause.name.lower()}": (unit, str(cause))
    for unit, causes in zip(UNITS, CAUSES_OF, strict=False)
    for cause in causes
}
"""Columns of stall cycles by unit and cause, with the counter's unit and cause."""

# The columns of metrics.
METRICS = (
    "cycles",
    "utilisation",
    "gemm_operations",
    "alu_operations",
    "instructions",
    "bytes_read",
    "bytes_written",
    "read_instructions",
    "read_uop",
    "read_wgt",
    "read_inp",
    "read_acc",
    "read_acc8",
    "read_par",
    "read_lut",
    "efficiency",
    *(f"{unit}_busy" for unit in UNITS),
    *WAITS,
    "macs",
    "bound_cycles",
    "time_us",
    "energy_pj",
    "energy_core_pj",
    "energy_sram_pj",
    "energy_dram_pj",
    "host_nodes",
    *COUNTS,
    *FITS,
)


@dataclass(frozen=True)
class Options:
    """How points are measured. ``check``: compare outputs with NumPy's; ``energies``: the file of a table of energies.

    ``memories``: those that shared programs are compiled for; () if each point has its own program. ``hardware``: the
    hardware metrics, if requested. ``budget``: the number of candidate schedules for a tensor program. ``keyed``:
    whether rows get the keys of their points, since they are stored.
    """

    check: bool = False
    memories: tuple[MemoryConfig, ...] = ()
    energies: str | None = None
    hardware: Hardware | None = None
    budget: int = 1
    keyed: bool = False


@dataclass(frozen=True)
class Row:
    """The result of a point: a status, a reason unless it is ok, and metrics (``numbers``) if there are any.

    ``seconds``: the time that measuring took. ``layers``: per-layer results, if there are metrics. ``key``: the point's
    key before it was measured, for rows that are stored.
    """

    point: Point
    status: str
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)
    layers: Layers = field(default_factory=dict)
    key: str = field(default="", compare=False)


SHARED = SharedPrograms()


def measure(point: Point, check: bool = False, options: Options | None = None) -> Row:
    """Build and simulate a point: its timing only or, with `check`, also its outputs, compared with NumPy's.

    An error becomes a row with the reason, an internal error of Lathe too, so that it does not end the sweep.
    """
    start = time.perf_counter()
    row = _row(point, options or Options(check=check))
    return replace(row, seconds=time.perf_counter() - start)


def _row(point: Point, options: Options) -> Row:
    try:
        machine = machine_of(point)
    except LatheError as error:
        return Row(point, INVALID, str(error))
    try:
        return measured(point, machine, options)
    except LatheError as error:
        return Row(point, UNMAPPABLE, str(error))
    except (Exception, SystemExit):  # a user's script may raise SystemExit, which must not end the sweep
        return Row(point, FAILED, " ".join(traceback.format_exc(limit=-1).split()))


def measured(point: Point, machine: Machine, options: Options) -> Row:
    """The row of a point on a valid machine; raises LatheError if it cannot be built."""
    work = make(point.workload, point.parameters)
    if options.memories:
        family = family_of(point, machine), work.content() if options.keyed else ""  # files may change between points
        programs = SHARED.programs(family, work, machine, options.memories, options.budget)
    else:
        programs = [work.compiled(machine.config, options.budget)]
    timed = [(timing(program), program) for program in programs]
    (counters, layers), program = min(timed, key=lambda each: each[0][0].cycles)
    if not counters.cycles:
        return Row(point, UNMAPPABLE, "The machine computes no layer of the network.")
    numbers = numbers_of(machine, work, program, counters, options)
    if options.check:
        reason = _difference(point, work, program)
        if reason is not None:
            return Row(point, DIFFERENT, reason, numbers, layers=layers)
    if options.hardware is not None:
        try:
            hardware = hardware_numbers(machine.config, options.hardware)
        except LatheError as error:
            return Row(point, UNBUILT, str(error), numbers, layers=layers)
        numbers = {**timed_by(hardware, numbers), **hardware}
    return Row(point, OK, "", numbers, layers=layers)


def timed_by(hardware: Mapping[str, float], numbers: Mapping[str, float]) -> dict[str, float]:
    """The metrics with ``time_us`` at the clock that the hardware reaches, if no other clock is given."""
    if "fit_mhz" not in hardware or "time_us" in numbers:
        return dict(numbers)
    return {**numbers, "time_us": round(numbers["cycles"] / hardware["fit_mhz"], 6)}


def family_of(point: Point, machine: Machine) -> Hashable:
    """A key of the points that share programs: everything except the memory."""
    parameters = tuple(sorted(point.parameters.items()))
    return point.workload, parameters, *core_of(machine)


def core_of(machine: Machine) -> tuple[Hashable, ...]:
    """A key of a machine without its memory."""
    return tuple(getattr(machine.config, each.name) for each in fields(machine.config) if each.name != "memory")


def timing(program: Compiled) -> tuple[Counters, Layers]:
    """The counters of a timing-only run, over all streams of a network, and the per-layer results."""
    streams = program.parts if isinstance(program, NetworkProgram) else (program,)
    results = [simulate(each, timing_only=True) for each in streams]
    return Counters.total([each.counters for each in results]), layers_of(program, results)


def numbers_of(
    machine: Machine, work: Measurable, program: Compiled, counters: Counters, options: Options
) -> dict[str, float]:
    """The metrics of a row, without those that are unknown."""
    streams = program.parts if isinstance(program, NetworkProgram) else (program,)
    known_macs = [each.products for each in streams if each.products is not None]
    macs = sum(known_macs) if len(known_macs) == len(streams) else None
    hosts = [step for step in getattr(program, "steps", ()) if isinstance(step, HostStep)]
    dram = None if machine.dram is None else machine.dram.name
    numbers: dict[str, float | None] = {
        "cycles": counters.cycles,
        "utilisation": round(counters.utilisation, 6),
        "gemm_operations": counters.gemm_operations,
        "alu_operations": counters.alu_operations,
        "instructions": sum(len(each.instructions) for each in streams),
        "bytes_read": sum(counters.bytes_read.values()),
        "bytes_written": sum(counters.bytes_written.values()),
        **{f"read_{name}": count for name, count in counters.bytes_read.items()},
        "efficiency": round((macs or 0) / (counters.cycles * machine.config.multipliers), 6),
        **{f"{unit}_busy": counters.units[unit].busy for unit in UNITS},
        **{name: counters.units[unit].stalls.get(cause, 0) for name, (unit, cause) in WAITS.items()},
        "macs": macs,
        "bound_cycles": work.bound(machine.config, program),
        "time_us": None if machine.clock_mhz is None else round(counters.cycles / machine.clock_mhz, 6),
        **energies(machine.config, counters, energy_table(options.energies), dram),
        "host_nodes": sum(len(step.nodes) for step in hosts),
    }
    return {name: value for name, value in numbers.items() if value is not None}


def _difference(point: Point, work: Measurable, program: Compiled) -> str | None:
    """How many outputs differ from NumPy's on random inputs, as text; None if all agree."""
    inputs = work.inputs(program, seed_of(point))
    expected = work.expected(program, inputs)
    if expected is None:
        raise SweepError(
            f"Cannot check workload {point.workload}: its function returns a built program, which has no NumPy "
            "reference. Return the tensor instead, or omit --check."
        )
    outputs = simulate_any(program, inputs).outputs
    wrong = sum(int((np.asarray(outputs[name]) != np.asarray(values)).sum()) for name, values in expected.items())
    total = sum(np.asarray(values).size for values in expected.values())
    return f"{wrong} of {total} outputs" if wrong else None


def seed_of(point: Point) -> int:
    """A seed that depends on a point's workload only, so that its inputs are the same in every run."""
    return zlib.crc32(repr((point.workload, sorted(point.parameters.items()))).encode())


def row_of(point: Point, result: object, remedy: str) -> Row:
    """The row that a process has returned, or the row of a lost point, with the reason and a remedy."""
    if isinstance(result, Lost):
        advice = "Allow more with --timeout." if result.late else remedy
        return Row(point, LATE if result.late else LOST, f"{result.reason}. {advice}")
    assert isinstance(result, Row)
    return result
