"""Hardware statistics: cells, flip-flops, memory bits and multipliers of each module, counted by Yosys."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil

from lathe.configs import HardwareConfig
from lathe.rtl.accelerator import Accelerator
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.verilog import TOP
from lathe.rtl.yosys import yosys

# Turn processes into cells, remove unused cells, and merge the ports of each memory into one cell.
PASSES = f"hierarchy -top {TOP}; proc; opt; memory_collect; opt_clean; write_json"
# The suffix that Amaranth appends to make names of modules unique.
AGAIN = re.compile(r"\$\d+")


@dataclass(frozen=True)
class ModuleStatistics:
    """The contents of a module, without its submodules.

    ``path`` is its name in the hierarchy, as "lathe.compute.pipeline". ``cells``: word-level cells (an adder or
    a register of any width is one), memories among them; ``flip_flops``: bits of registers; ``memory_bits``: bits of
    memories; ``multipliers``: widths of both factors, (a, b) -> how many.
    """

    path: str
    cells: int
    flip_flops: int
    memory_bits: int
    multipliers: Mapping[tuple[int, int], int]

    @property
    def multiplier_count(self) -> int:
        """Multipliers of all widths."""
        return sum(self.multipliers.values())


def statistics(config: HardwareConfig) -> list[ModuleStatistics]:
    """One entry for each module instance of the machine, sorted by path; the first is the top module.

    Raises :class:`RtlError` for machines that cannot be built, and without Yosys.
    """
    Geometry(config)  # rejects machines that cannot be built, before elaboration
    tool = yosys("count the hardware of a machine")
    machine = Accelerator(config)
    text = rtlil.convert(machine, name=TOP, ports=machine.ports, emit_src=False)
    netlist = json.loads(tool.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil\n{PASSES}\n"))
    return sorted(_modules(netlist["modules"], TOP, TOP), key=lambda each: each.path)


def within(entries: list[ModuleStatistics], path: str) -> ModuleStatistics:
    """The sums over a module and all its submodules."""
    parts = [each for each in entries if each.path == path or each.path.startswith(f"{path}.")]
    multipliers: dict[tuple[int, int], int] = {}
    for part in parts:
        for widths, count in part.multipliers.items():
            multipliers[widths] = multipliers.get(widths, 0) + count
    return ModuleStatistics(
        path=path,
        cells=sum(part.cells for part in parts),
        flip_flops=sum(part.flip_flops for part in parts),
        memory_bits=sum(part.memory_bits for part in parts),
        multipliers=dict(sorted(multipliers.items())),
    )


def _modules(modules: Mapping[str, Any], name: str, path: str) -> Iterator[ModuleStatistics]:
    """A module and all its submodules, one entry per instance."""
    cells = flip_flops = memory_bits = 0
    multipliers: dict[tuple[int, int], int] = {}
    for cell_name, cell in modules[name]["cells"].items():
        kind, parameters = cell["type"], cell["parameters"]
        if kind in modules:
            yield from _modules(modules, kind, f"{path}.{AGAIN.sub('', cell_name)}")
            continue
        cells += 1
        if "Q" in cell["connections"]:
            flip_flops += len(cell["connections"]["Q"])
        elif kind == "$mem_v2":
            memory_bits += _number(parameters["SIZE"]) * _number(parameters["WIDTH"])
        elif kind == "$mul":
            factors = sorted(_number(parameters[width]) for width in ("A_WIDTH", "B_WIDTH"))
            widths = (factors[0], factors[1])
            multipliers[widths] = multipliers.get(widths, 0) + 1
    yield ModuleStatistics(path, cells, flip_flops, memory_bits, dict(sorted(multipliers.items())))


def _number(parameter: str | int) -> int:
    """Yosys writes parameters as binary digits."""
    return int(parameter, 2) if isinstance(parameter, str) else parameter
