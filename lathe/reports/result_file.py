"""Results in files: what ran, and when each instruction was in each unit, for `lathe report` and for later."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.archive_headers import ArchiveForm, OtherVersionError, bytes_of_file, loaded_from_bytes
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.configs.atomic import writing
from lathe.configs.errors import LatheError
from lathe.cycle_attribution import recorded_trace
from lathe.isa import Program
from lathe.networks.program import NetworkProgram
from lathe.reports.errors import ReportError
from lathe.sim import Counters, Result, Trace
from lathe.sim.counters import UnitCounters

FORM = ArchiveForm("result", "lathe result", 1)
COLUMNS = tuple(each.name for each in fields(Trace) if each.name != "stream")

Ran = Program | NetworkProgram


def write_result(path: str | PathLike[str], ran: Ran, results: Sequence[Result]) -> None:
    """Write what ran, and the result of each of its launches without outputs, to a file; whole or not at all.

    Raises TraceError for a result without a trace, and FileError.
    """
    arrays: dict[str, Any] = {"program": np.frombuffer(bytes_of_file(ran.save), np.uint8)}
    launches = []
    for number, result in enumerate(results):
        trace = recorded_trace(result)
        arrays |= {f"{name}{number}": getattr(trace, name) for name in COLUMNS}
        launches.append({"cycles": result.cycles, "tokens": list(result.tokens), "counters": result.counters.to_dict()})
    kind = "network" if isinstance(ran, NetworkProgram) else "program"
    with writing(path) as file:
        np.savez_compressed(file, **FORM.with_header({"kind": kind, "launches": launches}, arrays))


def holds_result(path: str | PathLike[str]) -> bool:
    """Whether a file is an archive as results are saved in; whoever reads another file says what is wrong with it."""
    return FORM.is_form_of(path)


def read_result(path: str | PathLike[str]) -> tuple[Ran, tuple[Result, ...]]:
    """What :func:`write_result` has written.

    Raises ReportError for a file that is foreign, damaged or of a later version.
    """
    source = Path(path)
    foreign = ReportError(
        f"The file {str(source)!r} must be a result that `lathe simulate --result` has written, and is not, or it is "
        "damaged. Write it again."
    )
    try:
        arrays = read_arrays(source)
        header = FORM.header_of(arrays)
    except UnreadableArchiveError:
        raise foreign from None
    except OtherVersionError as error:
        raise ReportError(
            f"The version of result file {str(source)!r} must be {FORM.version}, not {error.version!r}. Write it again "
            "with this version of Lathe."
        ) from None
    try:
        ran = _ran(arrays["program"].tobytes(), header["kind"])
        programs = ran.parts if isinstance(ran, NetworkProgram) else (ran,)
        pairs = zip(programs, header["launches"], strict=True)
        return ran, tuple(_result(program, told, arrays, number) for number, (program, told) in enumerate(pairs))
    except (LatheError, KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise foreign from None


def _ran(content: bytes, kind: str) -> Ran:
    if kind == "network":
        return loaded_from_bytes(content, NetworkProgram.load)
    return loaded_from_bytes(content, Program.load)


def _result(program: Program, told: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], number: int) -> Result:
    """A launch's result. Raises ValueError where the trace is not the program's."""
    columns = {name: np.asarray(arrays[f"{name}{number}"], np.int64) for name in COLUMNS}
    count = len(program.instructions)
    if any(each.shape != (2 * count,) for each in columns.values()):
        raise ValueError("the trace is not of this program")
    if {*columns["instruction"].tolist()} != {*range(count)}:
        raise ValueError("the trace is not of this program")
    counts = dict(told["counters"])
    counts["units"] = {name: UnitCounters(**unit) for name, unit in counts["units"].items()}
    first, second, third, fourth = told["tokens"]
    return Result(
        program, {}, int(told["cycles"]), (first, second, third, fourth), Counters(**counts),
        Trace(**columns, stream=program.instructions),
    )  # fmt: skip
