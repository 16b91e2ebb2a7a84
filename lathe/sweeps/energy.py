"""Energy model: the energy of a run from its action counts and a table of energies, `energy.yaml` or the user's.

Actions are MACs, ALU operations, accesses to scratchpads by width and size, and bits of DRAM. Each GEMM micro-op reads
an input, a weight and an accumulator, and writes the accumulator; each ALU micro-op reads and writes an accumulator;
each load writes its scratchpad, each store reads the accumulators. Clock, control and leakage are not included: the
table has published energies of single actions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from lathe.configs import HardwareConfig
from lathe.configs.errors import KeyViolation, shown
from lathe.configs.validate_config import unknown
from lathe.configs.yaml_file import YamlFile, line_of, read_text
from lathe.sim import Counters
from lathe.sweeps.dram import presets
from lathe.sweeps.errors import SweepError

OWN = Path(__file__).with_name("energy.yaml")
NUMBERS = ("mac", "alu", "alu_multiply", "dram_bit")
KEYS = (*NUMBERS, "sram")
ALL_KEYS = (*KEYS, "dram")
PJ, SOURCE = "pj", "source"
MULTIPLYING = ("mul", "rescale", "rescale_add")
"""ALU operations that multiply."""
MOST = 1e15
"""The exclusive upper limit of energies, widths and sizes, so that sums stay finite."""
REMEDY = "Give pJ, or bits and bytes."

Line: TypeAlias = tuple[tuple[float, float], ...]
"""Pairs of a width or size and its energy, in rising order."""


@dataclass(frozen=True)
class EnergyTable:
    """pJ of each action. ``sram``: an access, by its width in bits and then by the memory's size in bytes.

    ``dram``: a bit of a DRAM preset, by its name; ``dram_bit``: a bit of any other DRAM.
    """

    mac: float
    alu: float
    alu_multiply: float
    dram_bit: float
    sram: tuple[tuple[float, Line], ...]
    dram: Mapping[str, float] = field(default_factory=dict)

    def sram_bit(self, size: int, width: int) -> float:
        """pJ per bit of an access of ``width`` bits to a memory of ``size`` bytes."""
        by_width = tuple((bits, _on(sizes, size) / bits) for bits, sizes in self.sram)
        return _on(by_width, min(max(width, by_width[0][0]), by_width[-1][0]))

    def dram_bit_of(self, name: str | None) -> float:
        """pJ of a bit of a DRAM, by the name of its preset or None."""
        return self.dram_bit if name is None else self.dram.get(name, self.dram_bit)


def _on(known: Line, at: float) -> float:
    """The value at ``at`` by piecewise linear interpolation of logarithms; constant for a single known value."""
    if len(known) == 1:
        return known[0][1]
    right = next((index for index in range(1, len(known) - 1) if at <= known[index][0]), len(known) - 1)
    (x0, y0), (x1, y1) = known[right - 1], known[right]
    share = (math.log(at) - math.log(x0)) / (math.log(x1) - math.log(x0))
    return math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0)))


def energies(
    machine: HardwareConfig, counters: Counters, table: EnergyTable, dram: str | None = None
) -> dict[str, float]:
    """The energy of a run in pJ: ``energy_pj`` in all, ``energy_core_pj``, ``energy_sram_pj``, ``energy_dram_pj``.

    ``dram``: the name of the machine's DRAM preset, if it has one.
    """
    lanes = machine.batch * machine.block_out
    operations = counters.alu_operations_of
    multiplied = sum(operations.get(name, 0) for name in MULTIPLYING)
    core = counters.gemm_operations * machine.multipliers * table.mac
    core += lanes * (multiplied * table.alu_multiply + (counters.alu_operations - multiplied) * table.alu)
    read, written = counters.bytes_read, sum(counters.bytes_written.values())
    gemm, alu, reset = counters.gemm_operations, counters.alu_operations, counters.reset_operations
    accumulators = (2 * gemm + 2 * alu + reset) * machine.acc_element_bytes
    bytes_of: dict[str, float] = {
        "inp": gemm * machine.inp_element_bytes + read["inp"],
        "wgt": gemm * machine.wgt_element_bytes + read["wgt"],
        "acc": accumulators + read["acc"] + 4 * read["acc8"] + 4 * written,
        "uop": (gemm + alu + reset) * machine.uop_element_bytes + read["uop"],
        "par": operations.get("rescale", 0) * machine.par_element_bytes + read["par"],
        "lut": operations.get("lookup", 0) * machine.lut_element_bytes + read["lut"],
    }
    sram = sum(8 * count * _bit(machine, name, table) for name, count in bytes_of.items())
    moved = 8 * (sum(read.values()) + written) * table.dram_bit_of(dram)
    parts = {"energy_core_pj": core, "energy_sram_pj": sram, "energy_dram_pj": moved}
    return {name: round(value, 3) for name, value in {"energy_pj": sum(parts.values()), **parts}.items()}


def _bit(machine: HardwareConfig, name: str, table: EnergyTable) -> float:
    """pJ per bit of a scratchpad, accessed by vectors; 0 for one that the machine does not have."""
    size, element = getattr(machine, f"{name}_buffer_bytes"), getattr(machine, f"{name}_element_bytes")
    return table.sram_bit(size, 8 * element) if size else 0.0


def energy_table(path: str | None) -> EnergyTable:
    """The table in a file, or Lathe's own. Raises SweepError with line and key for an invalid one."""
    file = str(OWN if path is None else path)
    try:
        changed = Path(file).stat().st_mtime_ns
    except (OSError, ValueError):
        changed = 0  # reading the file raises an error
    return _table(file, changed)


@lru_cache(maxsize=8)
def _table(path: str, changed: int) -> EnergyTable:  # noqa: ARG001 - part of the cache key, since files change
    text = read_text(Path(path), "table of energies", "Correct the path.", SweepError)
    return _TableFile(Path(path), text, SweepError).table()


class _TableFile(YamlFile):
    """Parser of a table of energies."""

    def table(self) -> EnergyTable:
        if not isinstance(self.root, yaml.MappingNode):
            self.refuse(
                1, KeyViolation("", "The content", "keys with values such as 'mac: 0.3'", f"Give {', '.join(KEYS)}.")
            )
        entries: dict[str, Any] = {}
        for key, key_node, node in self.pairs(self.root):
            line = line_of(key_node)
            if key not in ALL_KEYS:
                self.refuse(line, unknown(key, ALL_KEYS, "A key"))
            if key in entries:
                self.refuse(line, KeyViolation(key, f"Key {key}", "given once, not twice", "Remove one of the two."))
            content = self.value(node)
            if key == "sram":
                entries[key] = self._by_width(content, line)
            elif key == "dram":
                entries[key] = self._by_name(content, line)
            else:
                entries[key] = self._energy(key, content, line)
        for key in KEYS:
            if key not in entries:
                fault = KeyViolation(
                    key, "The table of energies", f"complete, not without {key}", f"Give {', '.join(KEYS)}."
                )
                self.refuse(None, fault)
        return EnergyTable(**entries)

    def _by_width(self, content: Any, line: int) -> tuple[tuple[float, Line], ...]:
        widths = self._without_source(content, "sram", line, "64: {8192: 10}")
        lines = {}
        for width, sizes in widths.items():
            if not isinstance(sizes, Mapping) or not sizes:
                self._refuse_form("sram", line, "64: {8192: 10}")
            energies_of = {self._number("sram", size, line): self._number("sram", pj, line)
                           for size, pj in sizes.items()}  # fmt: skip
            lines[self._number("sram", width, line)] = tuple(sorted(energies_of.items()))
        return tuple(sorted(lines.items()))

    def _by_name(self, content: Any, line: int) -> dict[str, float]:
        energies_of = {}
        for name, energy in self._without_source(content, "dram", line, "hbm2: 3.92").items():
            if name not in presets():
                self.refuse(line, unknown(str(name), tuple(presets()), "A name in dram"))
            energies_of[name] = self._energy(f"dram {name}", energy, line)
        return energies_of

    def _without_source(self, content: Any, key: str, line: int, example: str) -> dict[Any, Any]:
        if not isinstance(content, Mapping):
            self._refuse_form(key, line, example)
        values = {name: value for name, value in content.items() if name != SOURCE}
        if not values:
            self._refuse_form(key, line, example)
        return values

    def _refuse_form(self, key: str, line: int, example: str) -> NoReturn:
        kind = "energies by bits of an access and bytes of a memory" if key == "sram" else "energies of a bit by memory"
        self.refuse(line, KeyViolation(key, key, kind, f"Write '{example}' on a line for each."))

    def _energy(self, key: str, content: Any, line: int) -> float:
        """An energy: a number, or a mapping of a number and its source."""
        if isinstance(content, Mapping):
            if not {PJ} <= set(content) <= {PJ, SOURCE}:
                contract = f"a number, or {PJ} with a {SOURCE}, not {shown(content)}"
                self.refuse(line, KeyViolation(key, key, contract, f"Write '{{{PJ}: 0.3, {SOURCE}: mine}}'."))
            content = content[PJ]
        return self._number(key, content, line)

    def _number(self, key: str, value: object, line: int) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < MOST:
            self.refuse(line, KeyViolation(key, key, f"a number above 0, up to {MOST:g}, not {shown(value)}", REMEDY))
        return float(value)
