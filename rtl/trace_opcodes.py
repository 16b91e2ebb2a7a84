"""The kinds of micro-ops in the trace, numbered from 1; 0 is none."""

from itertools import accumulate

from lathe.isa.table import TABLE, AluOp, Kind, Opcode

_ALU = {operation.value: operation.name.lower() for operation in AluOp}
_NAMES: dict[Opcode, tuple[str, ...]] = {
    opcode: (opcode.name.lower(),) for opcode, row in TABLE.items() if row.kind is Kind.ISSUE
} | {
    # GEMM by `reset`, ALU by `alu_opcode`.
    Opcode.GEMM: ("gemm", "reset"),
    Opcode.ALU: tuple(_ALU.get(code, "") for code in range(max(_ALU) + 1)),
}

OPERATIONS = ("", *(name for names in _NAMES.values() for name in names))
"""The name of each number; numbers without a name do not occur."""

FIRST = dict(zip(_NAMES, accumulate((len(names) for names in _NAMES.values()), initial=1), strict=False))
"""The number of the first kind of an instruction."""
