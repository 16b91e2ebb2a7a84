"""The instruction set: one table, and everything derived from it."""

from lathe.isa.assembly import Assembly, assemble
from lathe.isa.columnar_stream import Columns
from lathe.isa.diagnostics import Finding, FindingKind, VerificationError
from lathe.isa.disassembly import disassemble, disassemble_program, instruction_text
from lathe.isa.encoding import decode, encode
from lathe.isa.errors import AssemblyError, EncodingError, LayoutError, MachineFault, ProgramError
from lathe.isa.fault import BusError, FaultCode
from lathe.isa.host_io import HostCopy, host_copies
from lathe.isa.instructions import Alu, Finish, Gemm, Instruction, Load, Rescale, Store, unit_of
from lathe.isa.layout import Layout, PhysicalAxis
from lathe.isa.layout_steps import Diagonal, Filling, Reordering, Repeating, Reversing, Widening
from lathe.isa.microops import decode_uops, encode_uops
from lathe.isa.program import Program, Segment
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.stall import StallCause
from lathe.isa.table import AluOp, MemoryType, Opcode, TokenQueue, Unit
from lathe.isa.verifier import check, verify, verify_stream

__all__ = [
    "Alu",
    "AluOp",
    "Assembly",
    "AssemblyError",
    "BusError",
    "Columns",
    "Diagonal",
    "EncodingError",
    "FaultCode",
    "Filling",
    "Finding",
    "FindingKind",
    "Finish",
    "Gemm",
    "HostCopy",
    "Instruction",
    "Layout",
    "LayoutError",
    "Load",
    "MachineFault",
    "MemoryType",
    "Opcode",
    "PagedMemory",
    "PhysicalAxis",
    "Program",
    "ProgramError",
    "Reordering",
    "Repeating",
    "Rescale",
    "Reversing",
    "Segment",
    "StallCause",
    "Store",
    "TokenQueue",
    "Unit",
    "VerificationError",
    "Widening",
    "assemble",
    "check",
    "decode",
    "decode_uops",
    "disassemble",
    "disassemble_program",
    "encode",
    "encode_uops",
    "host_copies",
    "instruction_text",
    "unit_of",
    "verify",
    "verify_stream",
]
