"""A stream of instructions as columns, one array per field, so that work on streams is vectorised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.isa.errors import EncodingError
from lathe.isa.instructions import CLASS_OF, CODES, FIELDS_OF, FLAGS, Instruction
from lathe.isa.table import MEMORIES, TABLE, MemoryType, Opcode, Unit

Ints = NDArray[np.int64]

ALL_FIELDS = tuple(dict.fromkeys(name for opcode in Opcode for name in FIELDS_OF[opcode]))

# By opcode, from the table; opcodes of no instruction are refused elsewhere.
_OPCODES = 1 << 3
_BY_MEMORY = -1  # marks instructions whose unit depends on the memory type
_UNIT, _KIND = np.full(_OPCODES, int(Unit.COMPUTE), np.int64), np.zeros(_OPCODES, np.int64)
_STORES = np.zeros(_OPCODES, np.bool_)
for _row in TABLE.values():
    _UNIT[_row.opcode] = _BY_MEMORY if _row.unit is None else _row.unit
    _KIND[_row.opcode], _STORES[_row.opcode] = _row.kind, _row.stores

_LOAD_UNIT = np.array([MEMORIES[memory].load_unit for memory in MemoryType])


@dataclass(frozen=True)
class Columns:
    """N instructions: ``opcode`` (N,) int64, and for each field of the table an (N,) int64 array by name.

    Fields that an instruction does not have are 0.
    """

    opcode: Ints
    fields: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.opcode)

    def __getitem__(self, field: str) -> Ints:
        return self.fields[field]

    @cached_property
    def unit(self) -> Ints:
        """The unit of each instruction, (N,) int64."""
        units = _UNIT[self.opcode]
        loads = units == _BY_MEMORY
        units[loads] = _LOAD_UNIT[self["memory_type"][loads]]
        return units

    @property
    def kind(self) -> Ints:
        """How each instruction occupies its unit, a :class:`~lathe.isa.table.Kind`; (N,) int64."""
        return _KIND[self.opcode]

    @property
    def stores(self) -> NDArray[np.bool_]:
        """Which instructions write to DRAM, (N,)."""
        return _STORES[self.opcode]

    @classmethod
    def empty(cls, count: int) -> "Columns":
        """Columns of ``count`` instructions with all fields 0."""
        return cls(np.zeros(count, np.int64), {name: np.zeros(count, np.int64) for name in ALL_FIELDS})

    @classmethod
    def of(cls, instructions: Sequence[Instruction]) -> "Columns":
        """The columns of instruction values. Raises :class:`EncodingError` for a value that is not an integer."""
        columns = cls.empty(len(instructions))
        columns.opcode[:] = np.fromiter((each.opcode for each in instructions), np.int64, len(instructions))
        for opcode, names in FIELDS_OF.items():
            indices = np.flatnonzero(columns.opcode == opcode)
            if not len(indices):
                continue
            values_of = attrgetter(*names)
            try:
                rows = np.array([values_of(instructions[index]) for index in indices.tolist()])
            except (ValueError, TypeError):  # of lists and similar values
                _refuse_values(instructions, indices, names)
                raise
            if rows.dtype.kind not in "biu":
                _refuse_values(instructions, indices, names)
            for name, column in zip(names, rows.T, strict=True):
                columns.fields[name][indices] = column
        return columns

    def instructions(self) -> list[Instruction]:
        """The instruction values of valid columns."""
        instructions: list[Instruction | None] = [None] * len(self)
        for opcode, kind in CLASS_OF.items():
            indices = np.flatnonzero(self.opcode == opcode)
            if not len(indices):
                continue
            names = FIELDS_OF[opcode]
            columns = [_typed(name, self.fields[name][indices]) for name in names]
            for index, row in zip(indices.tolist(), zip(*columns, strict=True), strict=True):
                instructions[index] = kind(**dict(zip(names, row, strict=True)))
        assert None not in instructions, "columns hold an opcode that is not in the table"
        return instructions  # type: ignore[return-value]


def _typed(name: str, column: Ints) -> list[Any]:
    """A column's values in the types of the instruction classes' fields."""
    values: list[Any] = column.astype(bool).tolist() if name in FLAGS else column.tolist()
    if name in CODES:
        members = {member.value: member for member in CODES[name]}
        return [members[value] for value in values]
    return values


def _refuse_values(instructions: Sequence[Instruction], indices: Ints, names: tuple[str, ...]) -> None:
    for index in indices.tolist():
        for name in names:
            value = getattr(instructions[index], name)
            if not isinstance(value, int | np.integer | np.bool_) or not -(1 << 63) <= int(value) < 1 << 63:
                kind = instructions[index].opcode.name
                raise EncodingError(
                    f"{name} of instruction {index} ({kind}) must be an integer of the field's width, not {value!r}. "
                    "Correct the value."
                )
    raise AssertionError(f"columns of instructions {indices} do not fit int64, but each of their values does")
