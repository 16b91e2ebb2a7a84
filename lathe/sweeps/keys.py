"""Hashes of all that a row depends on: the key of its point by content, and the sources of Lathe that measure it."""

import contextlib
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lathe.autotune.schedule_cache import HASHED_PACKAGES, sources_of
from lathe.configs import LatheError
from lathe.sweeps.energy import OWN
from lathe.sweeps.hardware import Hardware, tools_of
from lathe.sweeps.machines import machine_of
from lathe.sweeps.measurement import Options, Row, measure
from lathe.sweeps.specification import Point
from lathe.sweeps.workload_types import Scripted
from lathe.sweeps.workloads import known_workloads, make

MEASURING = (*HASHED_PACKAGES, "networks", "sweeps")


def point_key(point: Point, options: Options) -> str:
    """A hash of a point's machine, workload and options.

    Files are hashed by content, not by name; an invalid machine is hashed by its base and changes.
    """
    try:
        machine = machine_of(point)
        described = {
            "machine": machine.config.to_dict(),
            "clock": machine.clock_mhz,
            "dram": machine.dram and machine.dram.name,
        }
    except LatheError:
        described = {"base": point.base, "changes": dict(point.changes)}
    paths = {name for name, form in known_workloads().get(point.workload, {}).items() if form.path}
    content: dict[str, Any] = {
        **described,
        "workload": point.workload,
        "parameters": {name: value for name, value in point.parameters.items() if name not in paths},
        "content": content_of(point) if paths else "",
        "check": options.check,
        "budget": options.budget,
        "memories": [repr(each) for each in options.memories],
        "energies": digest_of(options.energies or str(OWN)),
    }
    if options.hardware is not None:
        content["hardware"] = asdict(options.hardware)
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def measure_content(content: Any) -> Row:
    """Measure a point with its options; called in subprocesses.

    If rows are stored, the key is computed before measuring, so that files edited meanwhile are detected.
    """
    point, options = content
    key = point_key(point, options) if options.keyed else ""
    return replace(measure(point, options=options), key=key)


def measuring_sources(hardware: Hardware | None = None) -> str:
    """A hash of Lathe's sources that metrics depend on; hardware metrics add the RTL's sources and the tools' versions.

    Raises RtlError if a tool is missing.
    """
    if hardware is None:
        return sources_of(MEASURING)
    content = [sources_of((*MEASURING, "rtl")), *sorted(tools_of(hardware).items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def content_of(point: Point) -> str:
    """A hash of the files that a workload depends on; "" for one that cannot be created.

    Raises SweepError if a script has too many dependencies.
    """
    try:
        work = make(point.workload, point.parameters)
    except LatheError:
        return ""
    return work.content()


def changed_meanwhile(point: Point) -> str:
    """The reason of a row whose files changed while it was measured."""
    reason = "A file that the point depends on changed while the point was measured{}. Run the sweep again{}."
    with contextlib.suppress(LatheError):
        work = make(point.workload, point.parameters)
        if isinstance(work, Scripted):
            remedy = "; if the script writes it, let it write elsewhere, or name the script's dependencies with files"
            return reason.format(f": {work.newest()!r}", remedy)
    return reason.format("", "")


def digest_of(path: str) -> str:
    """A hash of the content of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
