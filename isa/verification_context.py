"""The stream under verification, with the list of its diagnostics."""

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
    """A stream, its DRAM, initial tokens and address, and the findings so far."""

    config: HardwareConfig
    instructions: Sequence[Instruction]
    columns: Columns
    dram: DramMap
    tokens: tuple[int, int, int, int]
    insn_addr: int | None = None
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def refused(self) -> list[tuple[Rule, NDArray[np.bool_]]]:
        """The rules that are independent of data, each with the instructions of the stream that break it, (N,)."""
        return [(rule, rule.broken_in(self.config, self.columns)) for rule in (*DECODING, *STARTING)]

    @cached_property
    def rows(self) -> Rows:
        """The DRAM rows of all legal instructions; an illegal block may have a huge number of rows."""
        refused = np.zeros(len(self.columns), np.bool_)
        for _, broken in self.refused:
            refused |= broken
        return rows_of(self.config, self.columns, ~refused)

    @cached_property
    def order(self) -> Order:
        """The happens-before order."""
        return order_of(self.columns, self.tokens, self.config.timing.command_queue_depth)

    def describe(self, index: int) -> str:
        """An instruction, for messages."""
        instruction = self.instructions[index]
        return f"instruction {index} in {unit_of(instruction).name.lower()} ({instruction_text(instruction)})"

    def report_missing(self, kind: FindingKind, what: str, contract: str, cell: str, code: FaultCode) -> None:
        """Add a finding about the stream as a whole, without an instruction at fault."""
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
        """Add a finding about an instruction."""
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
