"""One row of a sweep: a machine, a workload, and what came of them."""

import traceback
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lathe as lt
from lathe.configs import HardwareConfig, LatheError, load_config
from lathe.isa.stall import CAUSES_OF, TRACK_NAMES
from lathe.sweeps.specification import Point
from lathe.sweeps.workloads import Workload, make

OK, INVALID, UNMAPPABLE, DIFFERENT, FAILED = "ok", "invalid machine", "unmappable", "outputs differ", "internal error"

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
)


@dataclass(frozen=True)
class Row:
    """What came of a point: a status, the reason unless it is ok, and the numbers if there are any."""

    point: Point
    status: str
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


def measure(point: Point, check: bool = False) -> Row:
    """Build and simulate a point, its time only, or with data and a comparison with NumPy when `check` is set.

    Whatever Lathe refuses is a row with the reason. So is a fault of Lathe itself, so that one does not end the sweep.
    """
    try:
        machine = load_config(point.base).with_(**point.changes)
    except LatheError as error:
        return Row(point, INVALID, str(error))
    try:
        return measured(point, machine, check)
    except LatheError as error:
        return Row(point, UNMAPPABLE, str(error))
    except Exception:
        return Row(point, FAILED, " ".join(traceback.format_exc(limit=-1).split()))


def measured(point: Point, machine: HardwareConfig, check: bool) -> Row:
    """The row of a point on a machine that exists; raises LatheError for what cannot be built."""
    work = make(point.workload, point.parameters)
    program = lt.build(work.output, work.tensors, machine, constants=work.constants)
    inputs = random_inputs(work, point) if check else None
    result = lt.simulate(program, inputs, timing_only=not check, trace=False)
    counters = result.counters
    numbers = {
        "cycles": counters.cycles,
        "utilisation": round(counters.utilisation, 6),
        "gemm_operations": counters.gemm_operations,
        "alu_operations": counters.alu_operations,
        "instructions": len(program.instructions),
        "bytes_read": sum(counters.bytes_read.values()),
        "bytes_written": sum(counters.bytes_written.values()),
        **{f"read_{name}": count for name, count in counters.bytes_read.items()},
        "efficiency": round(result.efficiency or 0.0, 6),
        **{f"{unit}_busy": counters.units[unit].busy for unit in UNITS},
        **{name: counters.units[unit].stalls.get(cause, 0) for name, (unit, cause) in WAITS.items()},
    }
    if inputs is not None:
        expected = lt.reference(work.output, {**inputs, **work.constants})
        wrong = int((result.outputs[work.output.name] != expected).sum())
        if wrong:
            return Row(point, DIFFERENT, f"{wrong} of {result.outputs[work.output.name].size} outputs", numbers)
    return Row(point, OK, "", numbers)


def random_inputs(work: Workload, point: Point) -> dict[str, NDArray[Any]]:
    """Values for the inputs of a workload, the same whenever the point is measured.

    int8 takes its whole range, int32 (biases) as much as 16 bits hold.
    """
    rng = np.random.default_rng(zlib.crc32(repr((point.workload, sorted(point.parameters.items()))).encode()))
    values = {}
    for tensor in work.tensors[:-1]:
        if tensor.name not in work.constants:
            bounds = np.iinfo(tensor.dtype if np.dtype(tensor.dtype).itemsize < 2 else np.int16)
            values[tensor.name] = rng.integers(bounds.min, bounds.max, tensor.shape, tensor.dtype, endpoint=True)
    return values
