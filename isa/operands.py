"""Operands of micro-ops: what they read and write, from each instruction's row in the table."""

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
    """A scratchpad vector that the micro-ops of an instruction read or write, by the ``index`` of a table row.

    A used index must be below the scratchpad's depth; otherwise the machine stops with ``code``.
    """

    opcode: Opcode
    row: MicroOpIndex

    @cached_property
    def index(self) -> str:
        """The name of the index."""
        return self.row.name

    @property
    def memory(self) -> MemoryType:
        """The memory type of the vector."""
        return self.row.memory

    @property
    def code(self) -> FaultCode:
        """The fault of an index out of range."""
        return FaultCode[f"{self.scratchpad.upper()}_RANGE"]

    @property
    def odd(self) -> str:
        """The key of the vector whose index has the lowest bit set, for instructions that also read that."""
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
        """The operand, for messages."""
        return f"{self.scratchpad} index {self.index}"

    @cached_property
    def factor_fields(self) -> tuple[str, str]:
        """The fields with the index's strides in the outer and the inner loop."""
        name = self.row.strides_of or self.index
        return f"{name}_factor_out", f"{name}_factor_in"

    @cached_property
    def factors_of(self) -> Callable[[MicroOpInstruction], tuple[int, int]]:
        """A function from an instruction to the index's strides in the outer and the inner loop."""
        return attrgetter(*self.factor_fields)

    def depth(self, config: HardwareConfig) -> int:
        """The scratchpad's depth in vectors."""
        return MEMORIES[self.memory].depth(config)

    @property
    def out_of_range(self) -> Expression:
        """Whether the index is out of range."""
        return FieldValue(self.index) >= depth_of(self.memory)

    def message(self, config: HardwareConfig, where: str, index: int) -> str:
        """The machine's message for an index out of range; ``where`` names the instruction."""
        return f"{self.name} of {where} must be below {self.depth(config)}, not {index}. The scratchpad ends there."

    def hazard_message(self, stages: int, where: str, index: int) -> str:
        """The message for a read of an accumulator that one of the ``stages`` previous issue cycles writes."""
        return (
            f"{self.name} of {where} must be one that none of the {stages} preceding issue cycles writes, not {index}. "
            "Its new value is not written back yet: execute micro-ops on other vectors in between."
        )


# If several indices accessed in one issue cycle are out of range, the machine reports the first; a micro-op with
# several issue cycles accesses one index in each.
OPERANDS: tuple[Operand, ...] = tuple(Operand(row.opcode, index) for row in TABLE.values() for index in row.indices)

# The instructions whose results have extra latency, and how many cycles.
EXTRA_LATENCIES: dict[Opcode, str] = {
    opcode: row.extra_latency.text() for opcode, row in TABLE.items() if row.extra_latency != NEVER
}


def operands_of(opcode: Opcode) -> tuple[Operand, ...]:
    """The operands of an instruction, in the order in which its micro-ops access them."""
    return _OPERANDS_OF[opcode]


_OPERANDS_OF = {opcode: tuple(each for each in OPERANDS if each.opcode == opcode) for opcode in TABLE}


@dataclass(frozen=True, slots=True)
class Usage:
    """The accesses of an instruction's micro-ops, independent of the machine.

    ``used``: the operands whose indices are checked, in this order; ``read``: those that are read; ``odd``: those of
    which the vector with the lowest bit of the index set is read, too; ``blocks``: the memory blocks that are read;
    ``written``: the accumulator; ``issue_cycles``: the issue cycles of a micro-op.
    """

    used: tuple[Operand, ...]
    read: tuple[Operand, ...]
    odd: tuple[Operand, ...]
    blocks: tuple[Block, ...]
    written: Operand
    issue_cycles: int


def usage_of(instruction: MicroOpInstruction) -> Usage:
    """The accesses of an instruction's micro-ops."""
    key = _DECIDING[instruction.opcode](instruction)
    usage = _USAGES.get(key)
    if usage is None:
        usage = _USAGES[key] = _usage(instruction)
    return usage


@dataclass(frozen=True)
class _Fields:
    """Reads the fields of an instruction, for expressions that do not depend on the machine."""

    instruction: MicroOpInstruction

    def field(self, name: str) -> int:
        return int(getattr(self.instruction, name))

    def named(self, name: str, value: Any) -> Any:  # noqa: ARG002 - names matter in hardware only
        return value


def _usage(instruction: MicroOpInstruction) -> Usage:
    reader = _Fields(instruction)
    operands = operands_of(instruction.opcode)
    read = tuple(each for each in operands if each.row.read.evaluate(reader))
    (written,) = (each for each in operands if each.row.written)
    used = tuple(each for each in operands if each in read or each is written)
    row = TABLE[instruction.opcode]
    odd = tuple(each for each in read if each.row.odd.evaluate(reader))
    blocks = tuple(each for each in row.blocks if each.read.evaluate(reader))
    return Usage(used, read, odd, blocks, written, int(row.issue_cycles.evaluate(reader)))


def operands_by_issue_cycle(usage: Usage) -> list[tuple[Operand, ...]]:
    """The operands that a micro-op accesses in each of its issue cycles."""
    last = usage.issue_cycles - 1
    return [*(usage.used[step : step + 1] for step in range(last)), usage.used[last:]]


def cells_of(block: Block, instruction: MicroOpInstruction) -> slice:
    """The vectors of a block that an instruction may read."""
    first = int(getattr(instruction, block.name)) * block.elements
    return slice(first, first + block.elements)


@lru_cache(maxsize=256)
def extra_latency(config: HardwareConfig, opcode: Opcode) -> int:
    """Cycles by which the results of an instruction are later than those of others."""
    return int(TABLE[opcode].extra_latency.evaluate(_Machine(config)))


@dataclass(frozen=True)
class _Machine:
    """Evaluates expressions that depend on the machine only."""

    config: HardwareConfig

    def field(self, name: str) -> int:
        raise AssertionError(f"an expression over a machine's parameters must not use instruction field {name}")

    def named(self, name: str, value: Any) -> Any:  # noqa: ARG002 - names matter in hardware only
        return value()


def loops_of(instruction: MicroOpInstruction) -> tuple[object, ...]:
    """A key of all that determines an instruction's execution besides its micro-ops."""
    key: tuple[object, ...] = _LOOPS[instruction.opcode](instruction)
    return key


def _deciding(opcode: Opcode) -> list[str]:
    """The fields that determine an instruction's accesses: a few flags, so that there are few usages."""
    row = TABLE[opcode]
    expressions = [row.issue_cycles, *(index.read for index in row.indices), *(index.odd for index in row.indices)]
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
