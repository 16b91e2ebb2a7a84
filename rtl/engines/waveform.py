"""The selection of signals in waveforms, the same for every engine.

Words of scratchpads are hundreds of bits wide, pass through a dozen ports, and change in every cycle, as do the signals
inside the lanes of the matrix core and the ALU. They would be more than nine tenths of a file, and have values that the
simulator gives directly. Waveforms show control, queues, tokens, transfers, the bus, micro-ops and indices, and, on
machines with narrow vectors, also the words of scratchpads.
"""

import re
from pathlib import Path
from typing import TextIO

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES

LANES = ("core", "core_alu")
"""The modules with the logic of the lanes, inside that of the pipeline."""

_ROW = re.compile(r"\[\d+\]$")  # of a memory's row, as Amaranth names it
_MODULE = re.compile(rf"^module \S*\.({'|'.join(LANES)}) .*?^endmodule$", re.MULTILINE | re.DOTALL)


def widest(config: HardwareConfig) -> int:
    """The width of the widest signal that is shown: an instruction, or a beat of the bus if that is wider."""
    return max(8 * INSTRUCTION_BYTES, config.memory.bus_bits)


def verilator_options(config: HardwareConfig) -> list[str]:
    """Options that exclude wide words and memories from Verilator's waveforms."""
    return ["--trace-max-width", str(widest(config)), "--trace-max-array", "1"]


def without_lanes(verilog: str) -> str:
    """Verilog in which tracing of the lanes is switched off for Verilator."""
    return _MODULE.sub(lambda found: f"/*verilator tracing_off*/\n{found[0]}\n/*verilator tracing_on*/", verilog)


class ShownChanges:
    """A text file that removes signals which are not shown from the VCD that Amaranth writes to it."""

    def __init__(self, path: str | Path, config: HardwareConfig) -> None:
        self.file: TextIO = Path(path).open("w")  # noqa: SIM115 - closed by close()
        self.widest = widest(config)
        self.scopes: list[str] = []
        self.shown: set[str] = set()
        self.hidden: set[str] = set()
        self.in_header = True
        self.rest = ""

    def write(self, text: str) -> int:
        """Filter a piece of the file."""
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            if self._header(line) if self.in_header else self._change(line):
                self.file.write(f"{line}\n")
        return len(text)

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()

    def close(self) -> None:
        """Write the rest."""
        if self.rest:
            self.file.write(self.rest)
        self.file.close()

    def _header(self, line: str) -> bool:
        words = line.split()
        match words:
            case ["$scope", _, name, *_]:
                self.scopes.append(name)
            case ["$upscope", *_]:
                self.scopes.pop()
            case ["$var", _, width, key, name, *_]:
                hides = int(width) > self.widest or _ROW.search(name) or any(each in LANES for each in self.scopes)
                (self.hidden if hides else self.shown).add(key)
                return not hides
            case ["$enddefinitions", *_]:
                self.in_header = False
                self.hidden -= self.shown  # a signal that is shown under another name
        return True

    def _change(self, line: str) -> bool:
        if line[:1] in ("b", "r", "s"):
            return line.partition(" ")[2] not in self.hidden
        return line[1:] not in self.hidden or line[:1] in ("#", "$")
