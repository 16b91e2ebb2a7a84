"""The stream under verification, and the list that its mistakes are put on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa.columnar_stream import Columns
from lathe.isa.constraints import DECODING, STARTING, Rule
from lathe.isa.diagnostics import Finding, FindingKind
from lathe.isa.disassembly import instruction_text
from lathe.isa.dram_map import DramMap
from lathe.isa.dram_rows import Rows, rows_of
from lathe.isa.fault import FaultCode
from lathe.isa.happens_before import Order, order_of
from lathe.isa.instructions import Instruction, unit_of
from lathe.isa.table import Unit


@dataclass
class VerificationContext:
    """A stream, the DRAM it runs on, the tokens it starts with, where it lies, and what is wrong with it so far."""

    config: HardwareConfig
    instructions: Sequence[Instruction]
    columns: Columns
    dram: DramMap
    tokens: tuple[int, int, int, int]
    insn_addr: int | None = None
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def refused(self) -> list[tuple[Rule, NDArray[np.bool_]]]:
        """Each rule by which machines refuse instructions whatever the data, and which of the stream break it, (N,)."""
        return [(rule, rule.broken_in(self.config, self.columns)) for rule in (*DECODING, *STARTING)]

    @cached_property
    def rows(self) -> Rows:
        """The DRAM rows of all instructions but refused ones; a block that fits no scratchpad may have very many."""
        refused = np.zeros(len(self.columns), np.bool_)
        for _, broken in self.refused:
            refused |= broken
        return rows_of(self.config, self.columns, ~refused)

    @cached_property
    def order(self) -> Order:
        """What runs before what."""
        return order_of(self.columns, self.tokens, self.config.timing.command_queue_depth)

    def describe(self, index: int) -> str:
        """An instruction as messages name it."""
        instruction = self.instructions[index]
        return f"instruction {index} in {unit_of(instruction).name.lower()} ({instruction_text(instruction)})"

    def report_missing(self, kind: FindingKind, what: str, contract: str, cell: str, code: FaultCode) -> None:
        """Put a mistake of the stream as a whole on the list, one that no instruction is to blame for."""
        end = len(self.instructions)
        self.findings.append(Finding(kind, end, "", Unit.COMPUTE, what, cell, contract, code=code))

    def report(
        self,
        kind: FindingKind,
        index: int,
        field_name: str,
        cell: str,
        contract: str,
        *,
        cells: int = 1,
        other: int | None = None,
        code: FaultCode | None = None,
    ) -> None:
        """Put a mistake on the list."""
        instruction = self.instructions[index]
        self.findings.append(
            Finding(
                kind,
                index,
                instruction_text(instruction),
                unit_of(instruction),
                field_name,
                cell,
                contract,
                cells,
                other,
                code,
            )
        )
