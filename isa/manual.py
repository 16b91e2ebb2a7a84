"""Generator of the instruction set manual, ``docs/isa.md``: ``python -m lathe.isa.manual``."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill, indent

from lathe.configs import HardwareConfig, load_config, shipped_configs
from lathe.configs.atomic import write_text
from lathe.configs.encoding import UOP_FORMAT, Format, Placement
from lathe.configs.extensions import EXTENSIONS
from lathe.isa.constraints import EXPLAINED, RULES, Rule
from lathe.isa.fault import FaultCode
from lathe.isa.launch_checks import LAUNCH_RULES
from lathe.isa.operands import EXTRA_LATENCIES, OPERANDS
from lathe.isa.table import (
    MEMORIES,
    QUEUE_OF,
    TABLE,
    TOKEN_FIELDS,
    AluOp,
    Kind,
    MemoryType,
    Opcode,
    Row,
    TokenQueue,
    Unit,
    placements,
    uop_placements,
)

_INTRODUCTION = """\
# The instruction set

Written by `python -m lathe.isa.manual` from the table in `configs/instructions/` and from `isa/`;
a test compares this page with them. Edit those, not this page.

A machine fetches a stream of 128-bit instructions and dispatches each to one of three units, load, compute and store,
which run concurrently and are synchronised only by dependence tokens. Everything is little-endian. A scratchpad holds
one vector per address (VTA calls it an element). DRAM addresses in instructions count vectors of the instruction's
memory type, from byte address 0.
"""

_PACKING = """\
## Packing

Fields are packed in the order of the tables below, lowest bit first, into 64-bit words (micro-ops: one 32-bit word). A
field that does not fit into the rest of a word starts the next word, as C bit-fields do. Widths named `uop`, `inp`,
`wgt`, `acc` and `par` are the bits that index the scratchpad, log2 of its depth; they are 0 for a scratchpad of one
vector. A machine whose fields do not fit is refused when its configuration is read. Reserved bits are ignored.
"""

_SHIFTS = """\
Right shifts by 32 or more give 0 or −1 by sign, such left shifts give 0. The verifier refuses immediate shift amounts
outside [−31, 31]. `imm` has 16 bits and is sign-extended; larger immediates must be loaded into acc.
"""

_RULES = """\
## Rules

- Micro-ops have sequential semantics: each sees the accumulators that the previous one wrote.
- A LOAD or STORE with `x_size` 0 does nothing, whatever its other fields hold. A LOAD with `y_size` 0 and pads still
  writes padding. The start of a block must be in range even if the block is empty.
- LOAD padding exists in the scratchpad only, and `x_stride` applies to DRAM only. Padding holds zeros, unless the
  machine has the extension `pad_value`: see below.
- out is always the low bits of acc, without saturation, even directly after a LOAD of acc.
- A launch ends when FINISH has been executed and every unit has drained; a launch that cannot end is a deadlock.
"""

_REFUSALS = """\
## Faults

A machine stops with a fault at an instruction for which a condition below holds. In the conditions,

{names}

If several conditions hold for an instruction, the first is reported. Fetch checks bits, memory types, ALU operations,
pads and tokens before it dispatches an instruction; a unit checks the block of a LOAD or STORE, and the range of
micro-ops, before it starts the instruction.

{rules}
Compute checks the indices of each micro-op when it executes it, in the order of the lines: one index in each issue
cycle of the micro-op, and all remaining ones in the last:

{operands}
For a launch as a whole:

{launches}
"""

_EXTENSIONS = """\
## Extensions

A configuration enables extensions by name, in `extensions`. A field whose width is "none" on a machine does not exist
there: the bits are reserved, and an instruction with another value than 0 for it is refused when it is encoded.

{rows}
"""

_ASSEMBLY = """\
## Assembly text

Each line has one instruction: the mnemonic, the memory type or ALU operation if there is one, fields as `name=value`
(decimal or `0x…`), and flags that are set as bare names. Optional fields that are 0 may be omitted. A semicolon starts
a comment. `.uops NAME` starts a table of micro-ops (`dst=… src=… wgt=…`), `.code` returns to instructions; `.insn` and
`.word` give the bits of an instruction or micro-op that has no text.

```text
.uops main
dst=0 src=0 wgt=0
.code
load inp sram_base=0 dram_base=0x100 y_size=8 x_size=9 x_stride=14 y_pad_0=1 x_pad_0=1 push_next
gemm uop_bgn=0 uop_end=1 iter_out=8 iter_in=8 dst_factor_out=8 dst_factor_in=1 src_factor_out=10 src_factor_in=1 \
wgt_factor_out=0 wgt_factor_in=0 pop_prev
alu shr uop_bgn=0 uop_end=1 iter_out=1 iter_in=64 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 \
src_factor_in=0 use_imm imm=8 push_next
store out sram_base=0 dram_base=0x400 y_size=8 x_size=8 x_stride=14 pop_prev
finish
```
"""


def manual() -> str:
    """The text of ``docs/isa.md``."""
    machines = [load_config(name) for name in shipped_configs()]
    parts = [
        _INTRODUCTION,
        _instructions(),
        _memories(machines),
        _tokens(),
        _PACKING,
        *(_instruction(opcode, machines) for opcode in Opcode),
        _micro_ops(machines),
        _alu_operations(),
        _RULES,
        _refusals(),
        _EXTENSIONS.format(rows="\n".join(map(_extension, EXTENSIONS))),
        _ASSEMBLY,
    ]
    return "\n".join(parts)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _instructions() -> str:
    rows = [[row.opcode.name, str(row.opcode.value), _units(row), row.what] for row in TABLE.values()]
    free = ", ".join(str(code) for code in range(8) if code not in list(Opcode))
    return (
        "## Instructions\n\n" + _table(["instruction", "opcode", "unit", "what it does"], rows) + f"\nFree: {free}.\n"
    )


def _memories(machines: list[HardwareConfig]) -> str:
    names = [f"{machine.name}: bytes × depth" for machine in machines]
    rows = [
        [
            memory.type.name.lower(),
            str(memory.type.value),
            memory.scratchpad,
            memory.what,
            *(f"{memory.element_bytes(machine)} × {memory.depth(machine)}" for machine in machines),
        ]
        for memory in MEMORIES.values()
    ]
    free = ", ".join(str(code) for code in range(8) if code not in list(MemoryType))
    header = ["memory type", "code", "scratchpad", "vector", *names]
    return "## Memory types\n\n" + _table(header, rows) + (f"\nFree: {free}.\n" if free else "")


def _tokens() -> str:
    rows = []
    for unit in Unit:
        queues = (QUEUE_OF.get((unit, name)) for name in TOKEN_FIELDS)
        rows.append([unit.name.lower(), *(queue.arrow if queue is not None else "fault" for queue in queues)])
    order = ", ".join(queue.arrow for queue in TokenQueue)
    return (
        "## Dependence tokens\n\n"
        + _table(["unit", *TOKEN_FIELDS], rows)
        + "\nPops happen before an instruction, pushes after it. A launch takes and returns the queues' counts, "
        + f"in the order {order}.\n"
    )


def _fields(form: Format, placed: list[dict[str, Placement]], names: list[str]) -> str:
    rows = []
    for field in form.fields:
        rows.append(
            [
                field.name,
                field.width.text + (", signed" if field.signed else ""),
                *(_span(fields[field.name]) for fields in placed),
                field.what,
            ]
        )
    return _table(["field", "width", *(f"bits on {name}" for name in names), "meaning"], rows)


def _span(placement: Placement) -> str:
    if placement.width == 0:
        return "none"
    last = placement.lsb + placement.width - 1
    return f"{placement.lsb}" if placement.width == 1 else f"{placement.lsb}–{last}"


def _instruction(opcode: Opcode, machines: list[HardwareConfig]) -> str:
    row = TABLE[opcode]
    needs = f" Extension: `{row.extension}`." if row.extension else ""
    meaning = f"```text\n{_program(row).rstrip()}\n```"
    placed = [dict(placements(machine, opcode)) for machine in machines]
    fields = _fields(row.format, placed, [machine.name for machine in machines])
    return f"## {opcode.name}\n\n{row.what} Unit: {_units(row)}.{needs}\n\n{meaning}\n\n{fields}"


def _units(row: Row) -> str:
    """The units that execute an instruction."""
    if row.unit is not None:
        return row.unit.name.lower()
    loaded = [memory for memory in MEMORIES.values() if memory.type is not MemoryType.OUT]
    names = {unit: [each.type.name.lower() for each in loaded if each.load_unit is unit] for unit in Unit}
    return ", ".join(f"{unit.name.lower()} for {_listed(of)}" for unit, of in names.items() if of)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _program(row: Row) -> str:
    """The semantics of an instruction: its row's program, within the loops over micro-ops if it has any."""
    if row.kind is not Kind.ISSUE:
        return row.meaning
    names = [field.name for field in UOP_FORMAT.fields if any(index.name == field.name for index in row.indices)]
    moved_by = {index.name: index.strides_of or index.name for index in row.indices}
    body = [f"{n} = uop[u].{n} + o * {moved_by[n]}_factor_out + i * {moved_by[n]}_factor_in" for n in names]
    return _LOOPS + indent("\n".join((*body, row.meaning)), " " * 12)


_LOOPS = """\
for o in range(iter_out):
    for i in range(iter_in):
        for u in range(uop_bgn, uop_end):
"""


def _micro_ops(machines: list[HardwareConfig]) -> str:
    placed = [dict(uop_placements(machine)) for machine in machines]
    return "## Micro-ops\n\n" + _fields(UOP_FORMAT, placed, [machine.name for machine in machines])


def _alu_operations() -> str:
    rows = [[each.name.lower(), str(each.value), each.extension or "", each.result] for each in AluOp]
    free = ", ".join(str(code) for code in range(8) if code not in list(AluOp))
    return (
        "## ALU operations\n\n"
        + _table(["operation", "code", "extension", "result"], rows)
        + f"\nFree: {free}. {_SHIFTS.strip()}\n"
    )


def _extension(name: str) -> str:
    return fill(f"- `{name}`: {EXTENSIONS[name]}", 120, subsequent_indent="  ")


def _refusals() -> str:
    names = ";\n".join(f"- `{each.name}` is `{each.meaning.text()}`" for each in EXPLAINED) + "."
    rules = [[rule.code.name, _kind(rule), f"`{rule.broken.text()}`"] for rule in RULES]
    operands = [
        [
            each.code.name,
            each.opcode.name,
            f"`{each.out_of_range.text()}`" + (f", where `{each.used.text()}`" if each.used is not None else ""),
        ]
        for each in OPERANDS
    ]
    operands += [
        [
            FaultCode.ACC_REUSE.name,
            opcode.name,
            f"a micro-op reads an accumulator that one of the `{stages}` preceding issue cycles writes",
        ]
        for opcode, stages in EXTRA_LATENCIES.items()
    ]
    launches = [[rule.code.name, rule.what] for rule in LAUNCH_RULES]
    return _REFUSALS.format(
        names=names,
        rules=_table(["fault", "instruction", "where"], rules),
        operands=_table(["fault", "instruction", "where"], operands),
        launches=_table(["fault", "violated condition"], launches).rstrip(),
    )


def _kind(rule: Rule) -> str:
    kinds = "" if rule.memories is None else " of " + " or ".join(memory.name.lower() for memory in rule.memories)
    return ("any" if rule.opcode is None else rule.opcode.name) + kinds


if __name__ == "__main__":
    write_text(Path(__file__).resolve().parents[1] / "docs" / "isa.md", manual())
