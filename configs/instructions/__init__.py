"""The instruction table: one file per instruction, with its row and the dataclass of its fields.

It is in this package because the configuration depends on it: a machine is valid only if its fields fit the formats,
and its extensions select instructions. :mod:`lathe.isa` defines the semantics of instructions.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from lathe.configs.encoding import UOP_FORMAT, Format
from lathe.configs.instructions.alu import ALU, Alu
from lathe.configs.instructions.codes import Opcode
from lathe.configs.instructions.finish import FINISH, Finish
from lathe.configs.instructions.gemm import GEMM, Gemm
from lathe.configs.instructions.load import LOAD, Load
from lathe.configs.instructions.rescale import RESCALE, Rescale
from lathe.configs.instructions.row import Row
from lathe.configs.instructions.store import STORE, Store

Instruction = Load | Store | Gemm | Finish | Alu | Rescale

TABLE: Mapping[Opcode, Row] = MappingProxyType({row.opcode: row for row in (LOAD, STORE, GEMM, FINISH, ALU, RESCALE)})

FORMATS = (*(row.format for row in TABLE.values()), UOP_FORMAT)
"""The formats of instructions and micro-ops."""


def formats_of(extensions: Collection[str]) -> tuple[Format, ...]:
    """The formats of micro-ops and of the instructions of a machine with these extensions."""
    rows = (row for row in TABLE.values() if row.extension is None or row.extension in extensions)
    return (*(row.format for row in rows), UOP_FORMAT)
