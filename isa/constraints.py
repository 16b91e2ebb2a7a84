"""Constraints on legal instructions: one row for each thing that a machine does not execute.

Everything that refuses instructions is derived from these rows: the decoder of binary streams, the static verifier, the
executable semantics, the simulator's faults, the RTL's decoder and range checks, and the tables in the manual.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import Field
from lathe.configs.field_expressions import Expression, FieldValue, MachineNumber, Named
from lathe.configs.instructions.row import Row
from lathe.isa.columnar_stream import Columns
from lathe.isa.errors import MachineFault
from lathe.isa.expression_readers import ColumnsReader, InstructionReader, Reader, depth_of
from lathe.isa.fault import FaultCode
from lathe.isa.instructions import CODES, FIELDS_OF, Instruction
from lathe.isa.table import (
    MEMORIES,
    QUEUE_OF,
    TABLE,
    TOKEN_FIELDS,
    AluOp,
    Kind,
    Memory,
    MemoryType,
    Opcode,
    Unit,
    alu_operations,
    instructions_of,
    memories_of,
)

PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


class Check(Enum):
    """When a rule is checked, in the order in which an instruction reaches these points."""

    WORD = "do the bits encode an instruction"  # fetch
    DECODE = "is there a unit that executes it"  # fetch, too
    START = "does it stay in range of its scratchpad"  # the unit, before it starts the instruction


# ---------------------------------------------------------------------- expressions in the rules


OPCODE = FieldValue("opcode")
MEMORY_TYPE = FieldValue("memory_type")
X_PADS = Named("x_pads", FieldValue("x_pad_0") + FieldValue("x_pad_1"))
MOVES = Named("moves", FieldValue("x_size").differs(0))  # with 0 nothing is transferred, whatever the other fields hold
READS_DRAM = Named("in_dram", MOVES & FieldValue("y_size").differs(0))
WIDTH = Named("width", X_PADS + FieldValue("x_size"))
ROWS = Named("rows", FieldValue("y_pad_0") + FieldValue("y_pad_1") + FieldValue("y_size"))
ELEMENTS = Named("elements", ROWS * WIDTH)  # vectors of a LOAD's or STORE's block in the scratchpad
BLOCK_END = FieldValue("sram_base") + ELEMENTS
IDLE = Named(  # an instruction that executes no micro-op
    "idle",
    FieldValue("iter_out").equals(0)
    | FieldValue("iter_in").equals(0)
    | (FieldValue("uop_bgn") >= FieldValue("uop_end")),
)
EXPLAINED = (MOVES, X_PADS, WIDTH, ROWS, ELEMENTS, IDLE)  # defined in the manual


# ---------------------------------------------------------------------- rules


class At:
    """The field and expression values of one instruction, for messages: ``at["x_size"]``, ``at[ELEMENTS]``."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __getitem__(self, what: str | Expression) -> int:
        return int(self.reader.field(what) if isinstance(what, str) else what.evaluate(self.reader))


Said = Callable[[At], str]


@dataclass(frozen=True, eq=False)
class Rule:
    """An instruction of ``opcode`` (None: any) and one of ``memories`` (None: any) is illegal where ``broken`` holds.

    ``code`` is the machine's fault, ``check`` where it is detected. ``field``, ``contract`` and ``remedy`` are for
    messages: "<field> of <instruction> must <contract>. <remedy>". ``cell`` names the first scratchpad cell concerned,
    if any, and ``cells`` is their number. ``extension``: the extension that the machine lacks, if that is the reason.
    """

    code: FaultCode
    check: Check
    opcode: Opcode | None
    memories: tuple[MemoryType, ...] | None
    broken: Expression
    field: str
    contract: Said
    remedy: str
    cell: Said = lambda _: ""
    cells: Callable[[At], int] = lambda _: 1
    extension: str | None = None

    @property
    def condition(self) -> Expression:
        """Whether the rule applies to an instruction and is broken by it."""
        condition = self.broken
        if self.memories is not None:
            kinds = [MEMORY_TYPE.equals(memory.value) for memory in self.memories]
            kind = kinds[0]
            for other in kinds[1:]:
                kind = kind | other
            condition = kind & condition
        return condition if self.opcode is None else OPCODE.equals(self.opcode.value) & condition

    def breaks(self, config: HardwareConfig, instruction: Instruction) -> bool:
        """Whether an instruction breaks the rule."""
        if self.opcode is not None and instruction.opcode != self.opcode:
            return False
        return bool(self.condition.evaluate(InstructionReader(config, instruction)))

    def broken_in(self, config: HardwareConfig, columns: Columns) -> NDArray[np.bool_]:
        """Which instructions of a stream break the rule, (N,)."""
        broken: NDArray[np.bool_] = np.asarray(self.condition.evaluate(ColumnsReader(config, columns)), np.bool_)
        return broken

    def message(self, where: str, reader: Reader) -> str:
        """The machine's message for an instruction that breaks the rule; ``where`` names the instruction."""
        remedy = self.remedy.format(machine=reader.config.name)
        return f"{self.field} of {where} must {self.contract(At(reader))}. {remedy}"


def _choices(field: str, choices: type[IntEnum], opcode: Opcode | None) -> Rule:
    """The rule of a field that holds one of a few codes; other values are not an instruction."""
    allowed = ", ".join(f"{choice.value} {choice.name}" for choice in choices)
    return Rule(
        FaultCode[field.upper()],
        Check.WORD,
        opcode,
        None,
        FieldValue(field) > max(choices).value,
        field,
        lambda at: f"be one of {allowed}, not {at[field]}",
        "The bytes are not an instruction of machine {machine!r}.",
    )


def _missing_alu_operation(operation: AluOp) -> Rule:
    """An ALU operation of an extension, on a machine that lacks it."""
    extension, name = operation.extension, operation.name.lower()
    return Rule(
        FaultCode.ALU_OPCODE,
        Check.DECODE,
        Opcode.ALU,
        None,
        FieldValue("alu_opcode").equals(operation.value)
        & MachineNumber(f"without {extension}", lambda config: int(operation not in alu_operations(config))),
        "alu_opcode",
        lambda at: f"be one of {', '.join(each.name.lower() for each in alu_operations(at.reader.config))}, not {name}",
        f"Machine {{machine!r}} lacks the extension {extension!r}.",
        extension=extension,
    )


def _missing_instruction(row: Row) -> Rule:
    """An instruction of an extension, on a machine that lacks it."""
    return Rule(
        FaultCode.OPCODE,
        Check.DECODE,
        row.opcode,
        None,
        OPCODE.equals(row.opcode.value)
        & MachineNumber(f"without {row.extension}", lambda config: int(row.opcode not in instructions_of(config))),
        "opcode",
        lambda at: (
            f"be one of {', '.join(each.name for each in instructions_of(at.reader.config))}, not {row.opcode.name}"
        ),
        f"Machine {{machine!r}} lacks the extension {row.extension!r}.",
        extension=row.extension,
    )


def _missing_field(row: Row, field: Field) -> Rule:
    """A field of an extension, on a machine that lacks it."""
    extension = field.width.extension
    return Rule(
        FaultCode.OPCODE,
        Check.DECODE,
        row.opcode,
        None,
        FieldValue(field.name).differs(0)
        & MachineNumber(f"without {extension}", lambda config: int(extension not in config.extensions)),
        field.name,
        lambda at: f"be 0, not {at[field.name]}",
        f"Machine {{machine!r}} lacks the extension {extension!r}.",
        extension=extension,
    )


def _missing_memory(opcode: Opcode, memory: Memory) -> Rule:
    """A memory type of an extension, on a machine that lacks it."""
    name = memory.type.name.lower()
    return Rule(
        FaultCode.MEMORY_TYPE,
        Check.DECODE,
        opcode,
        None,
        MEMORY_TYPE.equals(memory.type.value)
        & MachineNumber(f"without {memory.extension}", lambda config: int(memory not in memories_of(config))),
        "memory_type",
        lambda at: f"be one of {', '.join(_named(memories_of(at.reader.config)))}, not {name}",
        f"Machine {{machine!r}} lacks the extension {memory.extension!r}.",
        extension=memory.extension,
    )


def _no_padding(opcode: Opcode, pad: str) -> Rule:
    return Rule(
        FaultCode.STORE_PADDING,
        Check.DECODE,
        opcode,
        None,
        MOVES & FieldValue(pad).differs(0),
        pad,
        lambda at: f"be 0, not {at[pad]}",
        f"{opcode.name} has no padding.",
    )


def _no_neighbour(opcode: Opcode, memories: tuple[MemoryType, ...] | None, unit: Unit, field: str) -> Rule:
    name, side = unit.name.lower(), field.partition("_")[2]
    return Rule(
        FaultCode.NO_NEIGHBOUR,
        Check.DECODE,
        opcode,
        memories,
        FieldValue(field).differs(0),
        field,
        lambda _: f"be 0, not 1: {name} has no {side} neighbour",
        "Tokens are exchanged between neighbours only.",
    )


def _block_range(opcode: Opcode, memory: MemoryType) -> Rule:
    depth, scratchpad = depth_of(memory), MEMORIES[memory].scratchpad

    def contract(at: At) -> str:
        if not at[ELEMENTS]:
            return f"be at most {at[depth]}, not {at['sram_base']}, even for an empty block"
        return f"place its block of {at[ELEMENTS]} vectors below {at[depth]}, not up to {at[BLOCK_END] - 1}"

    return Rule(
        FaultCode.SRAM_RANGE,
        Check.START,
        opcode,
        (memory,),
        MOVES & (depth < BLOCK_END),
        "sram_base",
        contract,
        "The scratchpad ends there.",
        lambda at: f"{scratchpad}[{max(at['sram_base'], at[depth])}]",
        lambda at: max(1, at[BLOCK_END] - max(at["sram_base"], at[depth])),
    )


def _uop_range(opcode: Opcode) -> Rule:
    depth = depth_of(MemoryType.UOP)
    return Rule(
        FaultCode.UOP_RANGE,
        Check.START,
        opcode,
        None,
        IDLE.equals(0) & (FieldValue("uop_end") > depth),
        "uop_end",
        lambda at: f"be at most {at[depth]}, not {at['uop_end']}",
        "The scratchpad ends there.",
        lambda at: f"uop[{max(at['uop_bgn'], at[depth])}]",
        lambda at: at["uop_end"] - max(at["uop_bgn"], at[depth]),
    )


_LOADED = tuple(memory for memory in MemoryType if memory is not MemoryType.OUT)


def _loaded_by(config: HardwareConfig) -> list[str]:
    """The memory types that a machine's LOADs support, as text."""
    return _named([memory for memory in memories_of(config) if memory.type in _LOADED])


def _named(memories: Sequence[Memory]) -> list[str]:
    return [memory.type.name.lower() for memory in memories]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _units_of(row: Row) -> Iterator[tuple[Unit, tuple[MemoryType, ...] | None]]:
    """The units that execute an instruction, each with the memory types for which it does so (None: all)."""
    if row.unit is not None:
        yield row.unit, None
        return
    for unit in Unit:
        if memories := tuple(memory.type for memory in MEMORIES.values() if memory.load_unit is unit):
            yield unit, memories


_TRANSFERS = tuple(row for row in TABLE.values() if row.kind is Kind.TRANSFER)

# A machine reports the first rule that an instruction breaks.
RULES: tuple[Rule, ...] = (
    _choices("opcode", Opcode, None),
    *(
        _choices(field, CODES[field], opcode)
        for opcode, row in TABLE.items()
        for field in FIELDS_OF[opcode]
        if field in CODES and max(row.format.values(field)) > max(CODES[field])
    ),
    *(_missing_instruction(row) for row in TABLE.values() if row.extension is not None),
    *(
        _missing_field(row, field)
        for row in TABLE.values()
        for field in row.format.fields
        if field.width.extension is not None and field.width.always is not None
    ),
    *(_missing_memory(row.opcode, each) for row in _TRANSFERS for each in MEMORIES.values() if each.extension),
    Rule(
        FaultCode.MEMORY_TYPE,
        Check.DECODE,
        Opcode.LOAD,
        (MemoryType.OUT,),
        MOVES,
        "memory_type",
        lambda at: f"be {_listed(_loaded_by(at.reader.config))}, not out",
        "No unit loads out.",
    ),
    Rule(
        FaultCode.MEMORY_TYPE,
        Check.DECODE,
        Opcode.STORE,
        None,
        MOVES & MEMORY_TYPE.differs(MemoryType.OUT),
        "memory_type",
        lambda at: f"be out, not {MemoryType(at['memory_type']).name.lower()}",
        "STORE supports no other memory type.",
    ),
    *(_missing_alu_operation(operation) for operation in AluOp if operation.extension is not None),
    *(_no_padding(row.opcode, pad) for row in _TRANSFERS if row.stores for pad in PADS),
    *(
        _no_neighbour(row.opcode, memories, unit, field)
        for row in TABLE.values()
        for unit, memories in _units_of(row)
        for field in TOKEN_FIELDS
        if (unit, field) not in QUEUE_OF
    ),
    *(
        _block_range(row.opcode, memory)
        for row in _TRANSFERS
        for memory in ((MemoryType.OUT,) if row.stores else _LOADED)
    ),
    *(_uop_range(row.opcode) for row in TABLE.values() if row.kind is Kind.ISSUE),
)


def rules_of(*checks: Check) -> tuple[Rule, ...]:
    """The rules of some of the checks, in order."""
    return tuple(rule for rule in RULES if rule.check in checks)


WORDS = rules_of(Check.WORD)
DECODING = rules_of(Check.DECODE)
STARTING = rules_of(Check.START)
EXTENSION_RULES = tuple(rule for rule in RULES if rule.extension is not None)
"""Rules that refuse what a machine lacks for want of an extension."""


def first_broken(config: HardwareConfig, columns: Columns, rules: Sequence[Rule]) -> tuple[int, Rule] | None:
    """The first instruction of a stream that breaks one of the rules, and the first of these that it breaks."""
    first: tuple[int, Rule] | None = None
    for rule in rules:
        broken = rule.broken_in(config, columns)
        if broken.any() and (first is None or int(np.argmax(broken)) < first[0]):
            first = int(np.argmax(broken)), rule
    return first


def require_legal(config: HardwareConfig, instruction: Instruction, where: str, rules: Sequence[Rule]) -> None:
    """Raise the :class:`MachineFault` of an instruction that breaks one of the rules."""
    for rule in rules:
        if rule.breaks(config, instruction):
            raise MachineFault(rule.message(where, InstructionReader(config, instruction)), rule.code)
