"""What a legal instruction is: one row for each thing that a machine does not carry out.

Everything that refuses instructions is made from these rows: the decoder of binary streams, the static verifier, the
executable meaning, the simulator's faults, the RTL's decoder and range checks, and the tables in the manual.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.expressions import Expression, FieldValue, Named
from lathe.configs.instructions.row import Row
from lathe.isa.columns import Columns
from lathe.isa.conditions import ColumnsReader, InstructionReader, MachineNumber, Reader, depth_of
from lathe.isa.errors import MachineFault
from lathe.isa.fault import FaultCode
from lathe.isa.instructions import CODES, FIELDS_OF, Instruction
from lathe.isa.table import (
    MEMORIES,
    MOST_TOKENS,
    QUEUE_OF,
    TABLE,
    TOKEN_FIELDS,
    AluOp,
    Kind,
    MemoryType,
    Opcode,
    TokenQueue,
    Unit,
    alu_operations,
    instructions_of,
)

PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


class Check(Enum):
    """When a rule is looked at, in the order in which an instruction comes by."""

    WORD = "are these bits an instruction"  # fetch
    DECODE = "is there a unit that carries it out"  # fetch, too
    START = "does it stay within its scratchpad"  # the unit, when it would start the instruction


# ---------------------------------------------------------------------- expressions that the rules are made of


OPCODE = FieldValue("opcode")
MEMORY_TYPE = FieldValue("memory_type")
X_PADS = Named("x_pads", FieldValue("x_pad_0") + FieldValue("x_pad_1"))
MOVES = Named("moves", FieldValue("x_size").differs(0))  # whatever the other fields hold, 0 moves nothing
READS_DRAM = Named("in_dram", MOVES & FieldValue("y_size").differs(0))
WIDTH = Named("width", X_PADS + FieldValue("x_size"))
ROWS = Named("rows", FieldValue("y_pad_0") + FieldValue("y_pad_1") + FieldValue("y_size"))
ELEMENTS = Named("elements", ROWS * WIDTH)  # of a LOAD's or STORE's block in the scratchpad
BLOCK_END = FieldValue("sram_base") + ELEMENTS
IDLE = Named(  # a GEMM or ALU that executes no micro-op
    "idle",
    FieldValue("iter_out").equals(0)
    | FieldValue("iter_in").equals(0)
    | (FieldValue("uop_bgn") >= FieldValue("uop_end")),
)
EXPLAINED = (MOVES, X_PADS, WIDTH, ROWS, ELEMENTS, IDLE)  # in the manual


# ---------------------------------------------------------------------- rules


class At:
    """The numbers of one instruction, for what messages say: ``at["x_size"]``, ``at[ELEMENTS]``."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __getitem__(self, what: str | Expression) -> int:
        return int(self.reader.field(what) if isinstance(what, str) else what.on(self.reader))


Said = Callable[[At], str]


@dataclass(frozen=True, eq=False)
class Rule:
    """An instruction of ``opcode`` (None: any) and one of ``memories`` (None: any) is refused where ``broken`` holds.

    ``code`` is the machine's fault, ``check`` who notices it. ``field``, ``contract`` and ``remedy`` are for messages:
    "<field> of <instruction> must <contract>. <remedy>". ``cell`` names what is concerned first, and ``cells`` counts.
    """

    code: FaultCode
    check: Check
    opcode: Opcode | None
    memories: tuple[MemoryType, ...] | None
    broken: Expression
    field: str
    contract: Said
    remedy: str
    cell: Said
    cells: Callable[[At], int] = lambda _: 1

    @property
    def condition(self) -> Expression:
        """Whether an instruction is one that the rule is about, and breaks it."""
        found = self.broken
        if self.memories is not None:
            kinds = [MEMORY_TYPE.equals(memory.value) for memory in self.memories]
            kind = kinds[0]
            for other in kinds[1:]:
                kind = kind | other
            found = kind & found
        return found if self.opcode is None else OPCODE.equals(self.opcode.value) & found

    def breaks(self, config: HardwareConfig, instruction: Instruction) -> bool:
        """Whether an instruction breaks the rule."""
        if self.opcode is not None and instruction.opcode != self.opcode:
            return False
        return bool(self.condition.on(InstructionReader(config, instruction)))

    def broken_in(self, config: HardwareConfig, columns: Columns) -> NDArray[np.bool_]:
        """Which instructions of a stream break the rule, (N,)."""
        found: NDArray[np.bool_] = np.asarray(self.condition.on(ColumnsReader(config, columns)), np.bool_)
        return found

    def message(self, where: str, reader: Reader) -> str:
        """What a machine says of an instruction that breaks the rule; ``where`` names the instruction."""
        remedy = self.remedy.format(machine=reader.config.name)
        return f"{self.field} of {where} must {self.contract(At(reader))}. {remedy}"


def _choices(field: str, choices: type[IntEnum], opcode: Opcode | None) -> Rule:
    """A field that holds one of a few codes; other bits are no instruction."""
    allowed = ", ".join(f"{choice.value} {choice.name}" for choice in choices)
    return Rule(
        FaultCode[field.upper()],
        Check.WORD,
        opcode,
        None,
        FieldValue(field) > max(choices).value,
        field,
        lambda at: f"be one of {allowed}, not {at[field]}",
        "The bytes are no instruction of machine {machine!r}.",
        lambda at: str(at[field]),
    )


def _beyond_the_alu(operation: AluOp) -> Rule:
    """An operation of an extension, on a machine without it."""
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
        f"Machine {{machine!r}} is without the extension {extension!r}.",
        lambda _: name,
    )


def _beyond_the_machine(row: Row) -> Rule:
    """An instruction of an extension, on a machine without it."""
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
        f"Machine {{machine!r}} is without the extension {row.extension!r}.",
        lambda _: row.opcode.name,
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
        lambda _: "out",
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
        lambda _: f"be 0, not 1, for {name} has no {side} neighbour",
        "Tokens go between neighbours only.",
        lambda _: f"{name}.{side}",
    )


def _block_range(opcode: Opcode, memory: MemoryType) -> Rule:
    deep, scratchpad = depth_of(memory), MEMORIES[memory].scratchpad

    def contract(at: At) -> str:
        if not at[ELEMENTS]:
            return f"be at most {at[deep]}, not {at['sram_base']}, also for a block of no elements"
        return f"put its block of {at[ELEMENTS]} elements below {at[deep]}, not up to {at[BLOCK_END] - 1}"

    return Rule(
        FaultCode.SRAM_RANGE,
        Check.START,
        opcode,
        (memory,),
        MOVES & (deep < BLOCK_END),
        "sram_base",
        contract,
        "The scratchpad ends there.",
        lambda at: f"{scratchpad}[{max(at['sram_base'], at[deep])}]",
        lambda at: max(1, at[BLOCK_END] - max(at["sram_base"], at[deep])),
    )


def _uop_range(opcode: Opcode) -> Rule:
    deep = depth_of(MemoryType.UOP)
    return Rule(
        FaultCode.UOP_RANGE,
        Check.START,
        opcode,
        None,
        IDLE.equals(0) & (FieldValue("uop_end") > deep),
        "uop_end",
        lambda at: f"be at most {at[deep]}, not {at['uop_end']}",
        "The scratchpad ends there.",
        lambda at: f"uop[{max(at['uop_bgn'], at[deep])}]",
        lambda at: at["uop_end"] - max(at["uop_bgn"], at[deep]),
    )


_LOADED = tuple(memory for memory in MemoryType if memory is not MemoryType.OUT)


def _units_of(row: Row) -> Iterator[tuple[Unit, tuple[MemoryType, ...] | None]]:
    """The units that carry an instruction out, each with the memory types that it does so for; None: whatever it is."""
    if row.unit is not None:
        yield row.unit, None
        return
    for unit in Unit:
        if memories := tuple(memory.type for memory in MEMORIES.values() if memory.load_unit is unit):
            yield unit, memories


_TRANSFERS = tuple(row for row in TABLE.values() if row.kind is Kind.TRANSFER)

# Of several rules that an instruction breaks, the machine tells the first.
RULES: tuple[Rule, ...] = (
    _choices("opcode", Opcode, None),
    *(_choices(field, CODES[field], opcode) for opcode in TABLE for field in FIELDS_OF[opcode] if field in CODES),
    *(_beyond_the_machine(row) for row in TABLE.values() if row.extension is not None),
    Rule(
        FaultCode.MEMORY_TYPE,
        Check.DECODE,
        Opcode.LOAD,
        (MemoryType.OUT,),
        MOVES,
        "memory_type",
        lambda _: "be uop, wgt, inp, acc or acc8, not out",
        "No unit loads out.",
        lambda _: "out",
    ),
    Rule(
        FaultCode.MEMORY_TYPE,
        Check.DECODE,
        Opcode.STORE,
        None,
        MOVES & MEMORY_TYPE.differs(MemoryType.OUT),
        "memory_type",
        lambda at: f"be out, not {MemoryType(at['memory_type']).name.lower()}",
        "STORE takes no other.",
        lambda at: MemoryType(at["memory_type"]).name.lower(),
    ),
    *(_beyond_the_alu(operation) for operation in AluOp if operation.extension is not None),
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
    """The rules that are looked at in some of the checks, in order."""
    return tuple(rule for rule in RULES if rule.check in checks)


WORDS = rules_of(Check.WORD)
DECODING = rules_of(Check.DECODE)
STARTING = rules_of(Check.START)


def first_broken(config: HardwareConfig, columns: Columns, rules: Sequence[Rule]) -> tuple[int, Rule] | None:
    """The first instruction of a stream that breaks one of the rules, and the first of these that it breaks."""
    found: tuple[int, Rule] | None = None
    for rule in rules:
        broken = rule.broken_in(config, columns)
        if broken.any() and (found is None or int(np.argmax(broken)) < found[0]):
            found = int(np.argmax(broken)), rule
    return found


def require_legal(config: HardwareConfig, instruction: Instruction, where: str, rules: Sequence[Rule]) -> None:
    """Raise the :class:`MachineFault` of an instruction that breaks one of the rules."""
    for rule in rules:
        if rule.breaks(config, instruction):
            raise MachineFault(rule.message(where, InstructionReader(config, instruction)), rule.code)


# ---------------------------------------------------------------------- launches


@dataclass(frozen=True)
class LaunchRule:
    """What must hold of a launch as a whole, and the machine's fault where it does not."""

    code: FaultCode
    what: str


LAUNCH_RULES: tuple[LaunchRule, ...] = (
    LaunchRule(FaultCode.TOKEN_OVERFLOW, f"a queue holds at most {MOST_TOKENS:,} tokens"),
    LaunchRule(FaultCode.DEADLOCK, "every pop finds a token, and every instruction room in its queue"),
    LaunchRule(FaultCode.STREAM_WRITE, "no STORE changes a byte of the stream itself"),
    LaunchRule(FaultCode.NO_FINISH, "the stream has a FINISH"),
)

NO_FINISH_MESSAGE = "The stream must have a FINISH, and has none: the launch never ends. Add a FINISH."


def unreachable_message(config: HardwareConfig, insn_addr: int, count: int) -> str | None:
    """What is wrong with a stream of ``count`` instructions from a byte address on, if fetch cannot reach all of it."""
    end = 1 << config.address_bits
    if insn_addr + count * INSTRUCTION_BYTES <= end:
        return None
    return (
        f"The instructions of the stream must end below byte {end:#x}, where the addresses of machine {config.name!r} "
        f"end, not be {count} from byte {insn_addr:#x} on. Correct insn_addr."
    )


def stream_write_message(where: str, address: int) -> str:
    """What a machine says of a STORE to the stream itself: ``where`` names it, ``address`` is its first byte there."""
    return (
        f"The DRAM range of {where} must keep out of the stream that is running, not touch byte {address:#x} of it. "
        "Fetch reads ahead; move the stream or what is stored."
    )


def overflow_message(queue: TokenQueue, where: str) -> str:
    """What a machine says of a token too many; ``where`` names the instruction that pushes it."""
    return (
        f"The tokens of {queue.arrow} must be at most {MOST_TOKENS}, not more, as with that of {where}. "
        "Let the receiving unit pop them earlier."
    )
