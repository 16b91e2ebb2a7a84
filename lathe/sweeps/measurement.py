"""One row of a sweep: a machine, a workload, and what came of them."""

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
from lathe.sweeps.share_programs import Shared
from lathe.sweeps.specification import Point
from lathe.sweeps.workers import Lost
from lathe.sweeps.workload_types import Compiled, Measurable
from lathe.sweeps.workloads import make

OK, INVALID, UNMAPPABLE, DIFFERENT, FAILED = "ok", "invalid machine", "unmappable", "outputs differ", "internal error"
UNBUILT = "no hardware"
"""Of a row with all numbers but those of the RTL, which cannot be built or has no room on the device."""
LATE, LOST, CHANGED = "timed out", "worker lost", "files changed"
AGAIN = (LATE, LOST, CHANGED)
"""Statuses of rows that are measured again when a sweep goes on."""

UNITS = TRACK_NAMES[:3]
WAITS = {
    f"{unit}_waits_{cause.name.lower()}": (unit, str(cause))
    for unit, causes in zip(UNITS, CAUSES_OF, strict=False)
    for cause in causes
}
"""Cycles that a unit has waited, by cause: the columns of a row, with what the counters call them."""

# The columns of numbers, after those that name the point, its status and its reason.
NUMBERS = (
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
    """How points are measured: with data and a comparison, with programs that are shared, with which energies.

    ``memories``: those that shared programs are compiled for; none where each point has its own program. ``hardware``:
    what is asked of the RTL, if anything is. ``budget``: how many schedules are tried for a tensor program. ``keyed``:
    whether rows are kept, so that each has the key of what it was measured of.
    """

    check: bool = False
    memories: tuple[MemoryConfig, ...] = ()
    energies: str | None = None
    hardware: Hardware | None = None
    budget: int = 1
    keyed: bool = False


@dataclass(frozen=True)
class Row:
    """What came of a point: a status, the reason unless it is ok, numbers if there are any, and how long it took.

    ``seconds`` are those of the process that measured it. ``layers``: what each of them cost, where there are numbers.
    ``key``: that of the point before it was measured, of rows that are kept.
    """

    point: Point
    status: str
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)
    layers: Layers = field(default_factory=dict)
    key: str = field(default="", compare=False)


SHARED = Shared()


def measure(point: Point, check: bool = False, options: Options | None = None) -> Row:
    """Build and simulate a point, its time only, or with data and a comparison with NumPy when `check` is set.

    Whatever Lathe refuses is a row with the reason. So is a fault of Lathe itself, so that one does not end the sweep.
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
    except (Exception, SystemExit):  # which a user's script may raise, and would end the sweep with
        return Row(point, FAILED, " ".join(traceback.format_exc(limit=-1).split()))


def measured(point: Point, machine: Machine, options: Options) -> Row:
    """The row of a point on a machine that exists; raises LatheError for what cannot be built."""
    work = make(point.workload, point.parameters)
    if options.memories:
        family = family_of(point, machine), work.content() if options.keyed else ""  # files may change meanwhile
        programs = SHARED.programs(family, work, machine, options.memories, options.budget)
    else:
        programs = [work.compiled(machine.config, options.budget)]
    timed = [(timing(program), program) for program in programs]
    (counters, layers), program = min(timed, key=lambda each: each[0][0].cycles)
    if not counters.cycles:
        return Row(point, UNMAPPABLE, "No layer of the network is computed by the machine.")
    numbers = numbers_of(machine, work, program, counters, options)
    if options.check:
        reason = _difference(point, work, program)
        if reason is not None:
            return Row(point, DIFFERENT, reason, numbers, layers=layers)
    if options.hardware is not None:
        try:
            found = hardware_numbers(machine.config, options.hardware)
        except LatheError as error:
            return Row(point, UNBUILT, str(error), numbers, layers=layers)
        numbers = {**timed_by(found, numbers), **found}
    return Row(point, OK, "", numbers, layers=layers)


def timed_by(hardware: Mapping[str, float], numbers: Mapping[str, float]) -> dict[str, float]:
    """Numbers with the time at the clock that the hardware reaches, where no other clock is given."""
    if "fit_mhz" not in hardware or "time_us" in numbers:
        return dict(numbers)
    return {**numbers, "time_us": round(numbers["cycles"] / hardware["fit_mhz"], 6)}


def family_of(point: Point, machine: Machine) -> Hashable:
    """What points have in common that share programs: all but the memory."""
    parameters = tuple(sorted(point.parameters.items()))
    return point.workload, parameters, *core_of(machine)


def core_of(machine: Machine) -> tuple[Hashable, ...]:
    """A machine without its memory."""
    return tuple(getattr(machine.config, each.name) for each in fields(machine.config) if each.name != "memory")


def timing(program: Compiled) -> tuple[Counters, Layers]:
    """The counts of a run without data, of all streams of a network, and what each layer cost."""
    streams = program.parts if isinstance(program, NetworkProgram) else (program,)
    results = [simulate(each, timing_only=True) for each in streams]
    return Counters.of_several([each.counters for each in results]), layers_of(program, results)


def numbers_of(
    machine: Machine, work: Measurable, program: Compiled, counters: Counters, options: Options
) -> dict[str, float]:
    """The numbers of a row; what nobody knows is left out."""
    streams = program.parts if isinstance(program, NetworkProgram) else (program,)
    products = [each.products for each in streams if each.products is not None]
    macs = sum(products) if len(products) == len(streams) else None
    hosts = [step for step in getattr(program, "steps", ()) if isinstance(step, HostStep)]
    dram = None if machine.dram is None else machine.dram.name
    found: dict[str, float | None] = {
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
    return {name: value for name, value in found.items() if value is not None}


def _difference(point: Point, work: Measurable, program: Compiled) -> str | None:
    """What of the outputs differs from NumPy's on random inputs, the same whenever the point is measured."""
    inputs = work.inputs(program, seed_of(point))
    expected = work.expected(program, inputs)
    if expected is None:
        raise SweepError(
            f"Workload {point.workload} of a checked sweep must have a meaning in NumPy, and what its function built "
            "has none. Return the tensor instead, or leave out --check."
        )
    outputs = simulate_any(program, inputs).outputs
    wrong = sum(int((np.asarray(outputs[name]) != np.asarray(values)).sum()) for name, values in expected.items())
    total = sum(np.asarray(values).size for values in expected.values())
    return f"{wrong} of {total} outputs" if wrong else None


def seed_of(point: Point) -> int:
    """A number that follows from a point's workload."""
    return zlib.crc32(repr((point.workload, sorted(point.parameters.items()))).encode())


def row_of(point: Point, result: object, remedy: str) -> Row:
    """The row that a process has sent, or that tells of a point which every process was lost with, with a remedy."""
    if isinstance(result, Lost):
        told = "Allow more with --timeout." if result.late else remedy
        return Row(point, LATE if result.late else LOST, f"{result.reason}. {told}")
    assert isinstance(result, Row)
    return result
