"""What micro-ops read and write: the operands of each instruction, as its row in the table has them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from lathe.configs import HardwareConfig
from lathe.configs.expressions import Expression, FieldValue
from lathe.configs.instructions.row import ALWAYS, MicroOpIndex, MicroOpInstruction
from lathe.isa.conditions import depth_of
from lathe.isa.fault import FaultCode
from lathe.isa.table import MEMORIES, TABLE, Kind, MemoryType, Opcode


@dataclass(frozen=True, eq=False)
class Operand:
    """An element that the micro-ops of an instruction read or write, by the row of its ``index`` in the table.

    An index that is used must be below the scratchpad's depth, or the machine stops with ``code``.
    """

    opcode: Opcode
    row: MicroOpIndex

    @cached_property
    def index(self) -> str:
        """The name of the index."""
        return self.row.name

    @property
    def memory(self) -> MemoryType:
        """The memory in which the element is."""
        return self.row.memory

    @property
    def code(self) -> FaultCode:
        """The fault of an index that lies beyond."""
        return FaultCode[f"{self.scratchpad.upper()}_RANGE"]

    @property
    def used(self) -> Expression | None:
        """When an instruction uses the operand; None: always."""
        return None if self.row.written or self.row.read == ALWAYS else self.row.read

    @cached_property
    def scratchpad(self) -> str:
        """The scratchpad's name."""
        return MEMORIES[self.memory].scratchpad

    @property
    def name(self) -> str:
        """The operand for messages."""
        return f"{self.scratchpad} element {self.index}"

    @cached_property
    def factor_fields(self) -> tuple[str, str]:
        """The fields that hold what the outer and the inner loop add to the index."""
        return f"{self.index}_factor_out", f"{self.index}_factor_in"

    @cached_property
    def factors_of(self) -> Callable[[MicroOpInstruction], tuple[int, int]]:
        """Gives what the outer and the inner loop of an instruction add to the index."""
        return attrgetter(*self.factor_fields)

    def depth(self, config: HardwareConfig) -> int:
        """Elements of the scratchpad."""
        return MEMORIES[self.memory].depth(config)

    @property
    def beyond(self) -> Expression:
        """Whether the index lies past the scratchpad's end."""
        return FieldValue(self.index) >= depth_of(self.memory)

    def message(self, config: HardwareConfig, where: str, index: int) -> str:
        """What a machine says of an index that lies beyond; ``where`` names the instruction."""
        return f"{self.name} of {where} must be below {self.depth(config)}, not {index}. The scratchpad ends there."


# Of several indices that are looked at in one step, the machine tells the first; a micro-op of several steps looks at
# one in each.
OPERANDS: tuple[Operand, ...] = tuple(Operand(row.opcode, index) for row in TABLE.values() for index in row.indices)


def operands_of(opcode: Opcode) -> tuple[Operand, ...]:
    """The operands of an instruction, in the order in which its micro-ops look at them."""
    return _OPERANDS_OF[opcode]


_OPERANDS_OF = {opcode: tuple(each for each in OPERANDS if each.opcode == opcode) for opcode in TABLE}


@dataclass(frozen=True, slots=True)
class Usage:
    """What the micro-ops of an instruction do, whatever the machine.

    ``used``: the operands that they look at, in this order; ``read``: those of which they read the element; ``written``
    the accumulator; ``steps`` that each takes.
    """

    used: tuple[Operand, ...]
    read: tuple[Operand, ...]
    written: Operand
    steps: int


def usage_of(instruction: MicroOpInstruction) -> Usage:
    """What the micro-ops of an instruction do."""
    key = _DECIDING[instruction.opcode](instruction)
    found = _USAGES.get(key)
    if found is None:
        found = _USAGES[key] = _usage(instruction)
    return found


@dataclass(frozen=True)
class _Fields:
    """Reads the fields of an instruction for what no machine matters to."""

    instruction: MicroOpInstruction

    def field(self, name: str) -> int:
        return int(getattr(self.instruction, name))

    def named(self, name: str, value: Any) -> Any:  # noqa: ARG002 - names matter in hardware only
        return value


def _usage(instruction: MicroOpInstruction) -> Usage:
    reader = _Fields(instruction)
    operands = operands_of(instruction.opcode)
    read = tuple(each for each in operands if each.row.read.on(reader))
    (written,) = (each for each in operands if each.row.written)
    used = tuple(each for each in operands if each in read or each is written)
    return Usage(used, read, written, int(TABLE[instruction.opcode].steps.on(reader)))


def loops_of(instruction: MicroOpInstruction) -> tuple[object, ...]:
    """All that an instruction's executions follow from besides its micro-ops: alike for instructions that are alike."""
    found: tuple[object, ...] = _LOOPS[instruction.opcode](instruction)
    return found


def _deciding(opcode: Opcode) -> list[str]:
    """The fields that decide what an instruction uses: a few flags, so that there are few usages."""
    row = TABLE[opcode]
    return sorted(row.steps.fields().union(*(index.read.fields() for index in row.indices)))


_ISSUED = tuple(opcode for opcode, row in TABLE.items() if row.kind is Kind.ISSUE)
_DECIDING = {opcode: attrgetter("opcode", *_deciding(opcode)) for opcode in _ISSUED}
_LOOPS = {
    opcode: attrgetter(
        "opcode",
        *("iter_out", "iter_in"),
        *(factor for each in operands_of(opcode) for factor in each.factor_fields),
        *_deciding(opcode),
    )
    for opcode in _ISSUED
}
_USAGES: dict[object, Usage] = {}
