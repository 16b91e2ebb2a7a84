"""What nextpnr says: the resources that are used, the clock, and which modules its longest path runs through."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

# Rows of the result, and nextpnr's names for them.
RESOURCES: Mapping[str, str] = {
    "luts": "TRELLIS_COMB",
    "flip_flops": "TRELLIS_FF",
    "multipliers": "MULT18X18D",
    "block_rams": "DP16KD",
}
# Amaranth's and Yosys's numbers behind names that would occur twice.
NUMBER = re.compile(r"\$\d+(?=\.|$)")
# "Info: 	          TRELLIS_COMB:   14907/  43848    33%"
USED = re.compile(r"^Info:\s+(\w+):\s*(\d+)/\s*(\d+)\s+\d+%", re.MULTILINE)


@dataclass(frozen=True)
class Resource:
    """How many of one kind of cell are used, and how many the device has."""

    used: int
    available: int


@dataclass(frozen=True)
class PathPart:
    """A part of the longest path that lies in one module: its cells' delays and those of the nets that they drive."""

    module: str
    nanoseconds: float


def resources_of(log: str) -> dict[str, Resource]:
    """The table of resources in nextpnr's log, which stands there also when they do not suffice."""
    found = {name: Resource(int(used), int(available)) for name, used, available in USED.findall(log)}
    return {name: found[cell] for name, cell in RESOURCES.items()}


def megahertz_of(report: Mapping[str, Any]) -> float:
    """The greatest frequency of the machine's one clock."""
    (clock,) = report["fmax"].values()
    return round(float(clock["achieved"]), 2)


def path_of(report: Mapping[str, Any], modules: Iterable[str]) -> list[PathPart]:
    """The longest path from register to register, module after module in the order in which it runs through them.

    ``modules``: the paths of all instances, as "machine.compute.pipeline". A cell belongs to the innermost whose path
    its name begins with; names of cells between modules are made of a net's, and so of one of the two.
    """
    known = set(modules)
    (path,) = (each["path"] for each in report["critical_paths"] if each["from"] == each["to"])
    steps = [(_module(step["from"]["cell"], known), step["delay"]) for step in path]
    parts = groupby(steps, key=lambda step: step[0])
    return [PathPart(module, round(sum(delay for _, delay in part), 2)) for module, part in parts]


def _module(cell: str, known: set[str]) -> str:
    """The instance that a cell's name says it is in; "" for the top."""
    names = NUMBER.sub("", cell).split(".")
    for length in range(len(names) - 1, 0, -1):
        candidate = ".".join(names[:length])
        if candidate in known:
            return candidate
    return ""
