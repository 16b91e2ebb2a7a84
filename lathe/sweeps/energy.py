"""What a run costs in energy: its actions by a table, `energy.yaml` or the user's.

Actions are products, operations of the ALU, accesses to scratchpads by their size, and bits of DRAM. Counted is what
instructions make the machine do: each GEMM micro-op reads an input, a weight and a sum, and writes the sum; one of the
ALU reads a vector of sums and writes one; each load writes its scratchpad, each store reads the accumulators. Clock,
control and leakage are not in it: the table has what is published of single actions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from lathe.configs import HardwareConfig
from lathe.configs.errors import Fault
from lathe.configs.validation import unknown
from lathe.configs.yaml_file import YamlFile, line_of, text_of
from lathe.sim import Counters
from lathe.sweeps.errors import SweepError

OWN = Path(__file__).with_name("energy.yaml")
NUMBERS = ("mac", "alu", "alu_multiply", "sram_bits", "dram_bit")
KEYS = (*NUMBERS, "sram")
MULTIPLYING = ("mul", "rescale", "rescale_add")
"""Operations that are counted among the ALU's and multiply."""


@dataclass(frozen=True)
class EnergyTable:
    """pJ of each action; ``sram``: of an access to ``sram_bits`` bits, by sizes in bytes in rising order."""

    mac: float
    alu: float
    alu_multiply: float
    sram_bits: float
    dram_bit: float
    sram: tuple[tuple[float, float], ...]

    def sram_bit(self, size: int) -> float:
        """pJ of a bit of a memory of so many bytes."""
        known = self.sram
        if len(known) == 1:
            return known[0][1] / self.sram_bits
        at = next((at for at in range(1, len(known) - 1) if size <= known[at][0]), len(known) - 1)
        (s0, e0), (s1, e1) = known[at - 1], known[at]
        share = (math.log(size) - math.log(s0)) / (math.log(s1) - math.log(s0))
        return math.exp(math.log(e0) + share * (math.log(e1) - math.log(e0))) / self.sram_bits


def energies(
    machine: HardwareConfig, counters: Counters, table: EnergyTable, dram_bit: float | None = None
) -> dict[str, float]:
    """pJ of a run, in all and by kind: ``energy_pj``, ``energy_core_pj``, ``energy_sram_pj``, ``energy_dram_pj``.

    ``dram_bit``: pJ of a bit of the machine's DRAM, the table's unless given.
    """
    lanes = machine.batch * machine.block_out
    operations = counters.alu_operations_of
    multiplied = sum(operations.get(name, 0) for name in MULTIPLYING)
    core = counters.gemm_operations * machine.multipliers * table.mac
    core += lanes * (multiplied * table.alu_multiply + (counters.alu_operations - multiplied) * table.alu)
    read, written = counters.bytes_read, sum(counters.bytes_written.values())
    gemm, alu, reset = counters.gemm_operations, counters.alu_operations, counters.reset_operations
    accumulators = (2 * gemm + 2 * alu + reset) * machine.acc_element_bytes
    bytes_of: dict[str, tuple[int, float]] = {
        "inp": (machine.inp_buffer_bytes, gemm * machine.inp_element_bytes + read["inp"]),
        "wgt": (machine.wgt_buffer_bytes, gemm * machine.wgt_element_bytes + read["wgt"]),
        "acc": (machine.acc_buffer_bytes, accumulators + read["acc"] + 4 * read["acc8"] + 4 * written),
        "uop": (machine.uop_buffer_bytes, (gemm + alu + reset) * machine.uop_element_bytes + read["uop"]),
        "par": (machine.par_buffer_bytes, operations.get("rescale", 0) * machine.par_element_bytes + read["par"]),
        "lut": (machine.lut_buffer_bytes, operations.get("lookup", 0) * machine.lut_element_bytes + read["lut"]),
    }
    sram = sum(8 * count * table.sram_bit(size) for size, count in bytes_of.values() if size)
    dram = 8 * (sum(read.values()) + written) * (table.dram_bit if dram_bit is None else dram_bit)
    found = {"energy_core_pj": core, "energy_sram_pj": sram, "energy_dram_pj": dram}
    return {name: round(value, 3) for name, value in {"energy_pj": sum(found.values()), **found}.items()}


def energy_table(path: str | None) -> EnergyTable:
    """The table of a file, or Lathe's own. Raises SweepError with line and key for what is none."""
    return _table(str(OWN if path is None else path))


@lru_cache(maxsize=8)
def _table(path: str) -> EnergyTable:
    text = text_of(Path(path), "table of energies", "Correct the path.", SweepError)
    return _TableFile(Path(path), text, SweepError).table()


class _TableFile(YamlFile):
    """A file of energies."""

    def table(self) -> EnergyTable:
        if not isinstance(self.root, yaml.MappingNode):
            self.refuse(
                1, Fault("", "The content", "keys with values such as 'mac: 0.3'", f"It needs {', '.join(KEYS)}.")
            )
        found: dict[str, Any] = {}
        for key, key_node, node in self.pairs(self.root):
            line = line_of(key_node)
            if key not in KEYS:
                self.refuse(line, unknown(key, KEYS, "A key"))
            found[key] = self._sizes(node, line) if key == "sram" else self._number(key, self.value(node), line)
        for key in KEYS:
            if key not in found:
                fault = Fault(
                    key, "The table of energies", f"complete, not without {key}", f"It needs {', '.join(KEYS)}."
                )
                self.refuse(None, fault)
        return EnergyTable(**found)

    def _sizes(self, node: yaml.Node, line: int) -> tuple[tuple[float, float], ...]:
        content = self.value(node)
        if not isinstance(content, Mapping) or not content:
            fault = Fault("sram", "sram", "energies by sizes in bytes", "Write '8192: 10' on a line for each size.")
            self.refuse(line, fault)
        sizes = {self._number("sram", size, line): self._number("sram", pj, line) for size, pj in content.items()}
        return tuple(sorted(sizes.items()))

    def _number(self, key: str, value: object, line: int) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            self._refuse_number(key, value, line)
        return float(value)

    def _refuse_number(self, key: str, value: object, line: int) -> NoReturn:
        self.refuse(line, Fault(key, key, f"a number above 0, not {value!r}", "Give pJ, or bits and bytes."))
