"""Reads nextpnr's results: resources, the clock, and the modules along the critical path."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

# Kinds of resources, and nextpnr's names for them.
RESOURCES: Mapping[str, str] = {
    "luts": "TRELLIS_COMB",
    "flip_flops": "TRELLIS_FF",
    "multipliers": "MULT18X18D",
    "block_rams": "DP16KD",
}
# The suffixes with which Amaranth and Yosys make names unique.
NUMBER = re.compile(r"\$\d+(?=\.|$)")
# "Info: 	          TRELLIS_COMB:   14907/  43848    33%"
USED = re.compile(r"^Info:\s+(\w+):\s*(\d+)/\s*(\d+)\s+\d+%", re.MULTILINE)


@dataclass(frozen=True)
class Resource:
    """Used and available cells of one kind."""

    used: int
    available: int


@dataclass(frozen=True)
class PathPart:
    """A segment of the critical path in one module: the delays of its cells and of the nets that they drive."""

    module: str
    nanoseconds: float


def resources_of(log: str) -> dict[str, Resource]:
    """The table of resources in nextpnr's log, which has it even if they do not suffice."""
    found = {name: Resource(int(used), int(available)) for name, used, available in USED.findall(log)}
    return {name: found[cell] for name, cell in RESOURCES.items()}


def megahertz_of(report: Mapping[str, Any]) -> float:
    """The maximum frequency of the machine's one clock."""
    (clock,) = report["fmax"].values()
    return round(float(clock["achieved"]), 2)


def path_of(report: Mapping[str, Any], modules: Iterable[str]) -> list[PathPart]:
    """The critical path from register to register, as segments by module, in order.

    ``modules``: the paths of all instances, as "machine.compute.pipeline". A cell belongs to the innermost instance
    whose path is a prefix of its name; a cell between two modules is named after a net of one of them.
    """
    known = set(modules)
    (path,) = (each["path"] for each in report["critical_paths"] if each["from"] == each["to"])
    steps = [(_module(step["from"]["cell"], known), step["delay"]) for step in path]
    segments = groupby(steps, key=lambda step: step[0])
    return [PathPart(module, round(sum(delay for _, delay in each), 2)) for module, each in segments]


def _module(cell: str, known: set[str]) -> str:
    """The instance that contains a cell, by the cell's name; "" for the top."""
    names = NUMBER.sub("", cell).split(".")
    for length in range(len(names) - 1, 0, -1):
        candidate = ".".join(names[:length])
        if candidate in known:
            return candidate
    return ""
