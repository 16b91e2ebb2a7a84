"""What micro-ops read and write: the operands of each instruction, as its row in the table has them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

from lathe.configs import HardwareConfig
from lathe.configs.field_expressions import Expression, FieldValue
from lathe.configs.instructions.row import ALWAYS, NEVER, Block, MicroOpIndex, MicroOpInstruction
from lathe.isa.expression_readers import depth_of
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
    def odd(self) -> str:
        """The name of the element whose index has the lowest bit set, where an instruction reads that, too."""
        return f"{self.index}|1"

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
        name = self.row.moved_by or self.index
        return f"{name}_factor_out", f"{name}_factor_in"

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

    def reuse_message(self, stages: int, where: str, index: int) -> str:
        """What a machine says of an accumulator that one of so many steps before writes; ``where`` names the
        instruction.
        """
        return (
            f"{self.name} of {where} must be one that none of the {stages} steps before writes, not {index}. Its new "
            "value is not there yet; let micro-ops of other elements come between."
        )


# Of several indices that are looked at in one step, the machine tells the first; a micro-op of several steps looks at
# one in each.
OPERANDS: tuple[Operand, ...] = tuple(Operand(row.opcode, index) for row in TABLE.values() for index in row.indices)

# The instructions whose results are late, and by how many steps.
LATE: dict[Opcode, str] = {opcode: row.trailing.text() for opcode, row in TABLE.items() if row.trailing != NEVER}


def operands_of(opcode: Opcode) -> tuple[Operand, ...]:
    """The operands of an instruction, in the order in which its micro-ops look at them."""
    return _OPERANDS_OF[opcode]


_OPERANDS_OF = {opcode: tuple(each for each in OPERANDS if each.opcode == opcode) for opcode in TABLE}


@dataclass(frozen=True, slots=True)
class Usage:
    """What the micro-ops of an instruction do, whatever the machine.

    ``used``: the operands that they look at, in this order; ``read``: those of which they read the element; ``odd``:
    those of which they read the element with the lowest bit set in its index besides; ``blocks`` of memories that they
    read from; ``written`` the accumulator; ``steps`` that each takes.
    """

    used: tuple[Operand, ...]
    read: tuple[Operand, ...]
    odd: tuple[Operand, ...]
    blocks: tuple[Block, ...]
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
    row = TABLE[instruction.opcode]
    odd = tuple(each for each in read if each.row.odd.on(reader))
    blocks = tuple(each for each in row.blocks if each.read.on(reader))
    return Usage(used, read, odd, blocks, written, int(row.steps.on(reader)))


def in_steps(usage: Usage) -> list[tuple[Operand, ...]]:
    """The operands that a micro-op looks at in each of its steps."""
    last = usage.steps - 1
    return [*(usage.used[step : step + 1] for step in range(last)), usage.used[last:]]


def cells_of(block: Block, instruction: MicroOpInstruction) -> slice:
    """The elements of a block that an instruction reads from."""
    first = int(getattr(instruction, block.name)) * block.elements
    return slice(first, first + block.elements)


@lru_cache(maxsize=256)
def trailing_steps(config: HardwareConfig, opcode: Opcode) -> int:
    """Steps by which the results of an instruction are later than others'."""
    return int(TABLE[opcode].trailing.on(_Machine(config)))


@dataclass(frozen=True)
class _Machine:
    """Reads what follows from the machine alone."""

    config: HardwareConfig

    def field(self, name: str) -> int:
        raise AssertionError(f"what follows from a machine alone does not depend on {name}")

    def named(self, name: str, value: Any) -> Any:  # noqa: ARG002 - names matter in hardware only
        return value()


def loops_of(instruction: MicroOpInstruction) -> tuple[object, ...]:
    """All that an instruction's executions follow from besides its micro-ops: alike for instructions that are alike."""
    found: tuple[object, ...] = _LOOPS[instruction.opcode](instruction)
    return found


def _deciding(opcode: Opcode) -> list[str]:
    """The fields that decide what an instruction uses: a few flags, so that there are few usages."""
    row = TABLE[opcode]
    expressions = [row.steps, *(index.read for index in row.indices), *(index.odd for index in row.indices)]
    expressions += [block.read for block in row.blocks]
    return sorted(frozenset[str]().union(*(each.fields() for each in expressions)))


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
