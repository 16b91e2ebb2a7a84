"""Diagnostics of the static verifier, and the error that carries them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lathe.configs import LatheError
from lathe.configs.html_repr import repr_html
from lathe.isa.fault import FaultCode
from lathe.isa.table import Unit


class FindingKind(StrEnum):
    """The kinds of mistakes in a program."""

    FIELD = "value too wide"
    RESERVED_BITS = "unused bits"
    ILLEGAL = "illegal instruction"
    SHIFT_AMOUNT = "shift amount"
    SRAM_RANGE = "scratchpad out of range"
    DRAM_RANGE = "DRAM out of range"
    STREAM_WRITE = "store into the stream"
    RAW_HAZARD = "accumulator not there yet"
    REUSE = RAW_HAZARD  # its former name
    UNINITIALISED = "uninitialised scratchpad"
    UNINITIALISED_DRAM = "uninitialised DRAM"
    UOP_UNLOADED = "micro-op never loaded"
    UOP_SOURCE = "micro-ops of unknown content"
    DEADLOCK = "deadlock"
    TOKEN_OVERFLOW = "token overflow"
    UNBALANCED = "unbalanced tokens"
    RACE = "race"


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: the instruction (its index in the stream and its text), unit, field and cell.

    For a missing instruction, ``instruction`` is the index where it should be, and ``text`` is empty.

    ``cell`` is the first cell concerned ("inp[5]", "DRAM 0x1000", "load->compute"), ``cells`` their number. ``cell`` is
    empty if the instruction is illegal whatever it accesses. ``other`` is the second instruction of a race.
    ``contract`` is the violated condition. ``code`` is the fault with which a machine stops at the instruction, unless
    it stops earlier; None for a mistake that no machine detects.
    """

    kind: FindingKind
    instruction: int
    text: str
    unit: Unit
    field: str
    cell: str
    contract: str
    cells: int = 1
    other: int | None = None
    code: FaultCode | None = None

    _repr_html_ = repr_html

    def __str__(self) -> str:
        more = f" and {self.cells - 1} more" if self.cells > 1 else ""
        seen = f"; see {self.cell}{more}" if self.cell else ""
        where = (
            f"instruction {self.instruction} in {self.unit.name.lower()} ({self.text})" if self.text else "the stream"
        )
        return f"{self.kind}: {self.field} of {where} must {self.contract}{seen}."


class VerificationError(LatheError):
    """A program that must not run; ``findings`` are the reasons."""

    def __init__(self, name: str, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        first = " ".join(str(finding) for finding in self.findings[:3])
        rest = f" ({len(self.findings) - 3} more findings)" if len(self.findings) > 3 else ""
        super().__init__(f"{name} must pass verification; number of findings: {len(self.findings)}. {first}{rest}")
