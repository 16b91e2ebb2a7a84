"""Evaluation of field expressions on one instruction or on the columns of a stream, for a machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lathe.configs import HardwareConfig
from lathe.configs.field_expressions import FieldReader, MachineNumber
from lathe.isa.columnar_stream import Columns
from lathe.isa.instructions import Instruction
from lathe.isa.table import MEMORIES, MemoryType


class Reader(FieldReader, Protocol):
    """A field reader that knows its machine."""

    @property
    def config(self) -> HardwareConfig:
        """The machine."""
        ...


def depth_of(memory: MemoryType) -> MachineNumber:
    """The depth of the scratchpad of a memory type."""
    return MachineNumber(f"{MEMORIES[memory].scratchpad} depth", MEMORIES[memory].depth)


@dataclass(frozen=True)
class InstructionReader:
    """Reads the fields of one instruction, and the given indices of its micro-op."""

    config: HardwareConfig
    instruction: Instruction
    indices: Mapping[str, int] = field(default_factory=dict)

    def field(self, name: str) -> int:
        """The field's value."""
        return self.indices[name] if name in self.indices else int(getattr(self.instruction, name))

    def named(self, name: str, value: Callable[[], int]) -> int:  # noqa: ARG002 - names matter in hardware only
        """The value."""
        return value()


@dataclass(frozen=True)
class ColumnsReader:
    """Reads the columns of a stream, (N,) arrays; with ``row``, the fields of that instruction."""

    config: HardwareConfig
    columns: Columns
    row: int | None = None

    def field(self, name: str) -> Any:
        """The field's column, or its value in the row."""
        column = self.columns.opcode if name == "opcode" else self.columns[name]
        return column if self.row is None else int(column[self.row])

    def named(self, name: str, value: Callable[[], Any]) -> Any:  # noqa: ARG002 - names matter in hardware only
        """The value."""
        return value()
