"""Result files: the program or network that ran, with the trace of its instructions, for `lathe report`."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs.archive_headers import ArchiveHeader, OtherVersionError, load_from_bytes, save_to_bytes
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.configs.atomic import atomic_write
from lathe.configs.errors import LatheError
from lathe.cycle_attribution import recorded_trace
from lathe.isa import Program
from lathe.networks.program import NetworkProgram
from lathe.reports.errors import ReportError
from lathe.sim import Counters, Result, Trace
from lathe.sim.counters import UnitCounters

FORM = ArchiveHeader("result", "lathe result", 1)
COLUMNS = tuple(each.name for each in fields(Trace) if each.name != "stream")

Ran = Program | NetworkProgram


def write_result(path: str | PathLike[str], ran: Ran, results: Sequence[Result]) -> None:
    """Write a program or network and the results of its launches, without outputs, to a file atomically.

    Raises TraceError for a result without a trace, and FileError.
    """
    arrays: dict[str, Any] = {"program": np.frombuffer(save_to_bytes(ran.save), np.uint8)}
    launches = []
    for number, result in enumerate(results):
        trace = recorded_trace(result)
        arrays |= {f"{name}{number}": getattr(trace, name) for name in COLUMNS}
        launches.append({"cycles": result.cycles, "tokens": list(result.tokens), "counters": result.counters.to_dict()})
    kind = "network" if isinstance(ran, NetworkProgram) else "program"
    with atomic_write(path) as file:
        np.savez_compressed(file, **FORM.with_header({"kind": kind, "launches": launches}, arrays))


def holds_result(path: str | PathLike[str]) -> bool:
    """Whether a file is a result archive; errors of other files are reported when they are read."""
    return FORM.matches(path)


def read_result(path: str | PathLike[str]) -> tuple[Ran, tuple[Result, ...]]:
    """Read a file of :func:`write_result`.

    Raises ReportError for a file of another format or version, or a damaged one.
    """
    source = Path(path)
    foreign = ReportError(
        f"The file {str(source)!r} must be a result written by `lathe simulate --result`, and is not, or is damaged. "
        "Write it again."
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
        return ran, tuple(_result(program, launch, arrays, number) for number, (program, launch) in enumerate(pairs))
    except (LatheError, KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise foreign from None


def _ran(content: bytes, kind: str) -> Ran:
    if kind == "network":
        return load_from_bytes(content, NetworkProgram.load)
    return load_from_bytes(content, Program.load)


def _result(program: Program, launch: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], number: int) -> Result:
    """The result of a launch. Raises ValueError if the trace does not match the program."""
    columns = {name: np.asarray(arrays[f"{name}{number}"], np.int64) for name in COLUMNS}
    count = len(program.instructions)
    if any(each.shape != (2 * count,) for each in columns.values()):
        raise ValueError("the trace does not match the program")
    if {*columns["instruction"].tolist()} != {*range(count)}:
        raise ValueError("the trace does not match the program")
    counts = dict(launch["counters"])
    counts["units"] = {name: UnitCounters(**unit) for name, unit in counts["units"].items()}
    first, second, third, fourth = launch["tokens"]
    return Result(
        program, {}, int(launch["cycles"]), (first, second, third, fourth), Counters(**counts),
        Trace(**columns, stream=program.instructions),
    )  # fmt: skip
