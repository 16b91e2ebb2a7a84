"""Checks of instructions one by one, vectorised over a whole stream."""

import numpy as np
from numpy.typing import NDArray

from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa.columnar_stream import Ints
from lathe.isa.constraints import At, Check
from lathe.isa.diagnostics import FindingKind
from lathe.isa.dram_rows import Ranges
from lathe.isa.expression_readers import ColumnsReader
from lathe.isa.fault import FaultCode
from lathe.isa.reserved_bits import set_reserved_bits
from lathe.isa.table import AluOp, MemoryType, Opcode, placements
from lathe.isa.verification_context import VerificationContext

_MOST_SHIFT = 31


def check_fields(subject: VerificationContext) -> None:
    """Values that do not fit their fields; only instructions that were never encoded can have them."""
    columns = subject.columns
    for opcode in Opcode:
        rows = np.flatnonzero(columns.opcode == opcode)
        for name, field in placements(subject.config, opcode).items() if len(rows) else ():
            if name == "opcode":
                continue
            values = columns[name][rows]
            for item in _where((values < field.lowest) | (values > field.highest)):
                contract = f"be from {field.lowest} to {field.highest}, not {values[item]}"
                extension = field.field.width.extension
                if extension and extension not in subject.config.extensions:
                    machine = f"machine {subject.config.name!r}, where the extension {extension!r} is off"
                    contract = f"be 0 on {machine}, not {values[item]}"
                subject.report(FindingKind.FIELD, int(rows[item]), name, "", contract)


def check_reserved_bits(subject: VerificationContext, encoded: NDArray[np.uint8]) -> None:
    """Reserved bits that are set in the encoded stream: it was probably made for another machine."""
    for each in set_reserved_bits(subject.config, encoded):
        subject.report(FindingKind.RESERVED_BITS, each.instruction, each.field, "", each.contract)


def check_instructions(subject: VerificationContext) -> None:
    """What a machine refuses whatever the data, immediate shift amounts, and DRAM accesses out of range."""
    _check_rules(subject)
    _check_shift_amounts(subject)
    _check_dram(subject)


def _check_rules(subject: VerificationContext) -> None:
    config, columns = subject.config, subject.columns
    for rule, broken in subject.refused:
        kind = FindingKind.SRAM_RANGE if rule.check is Check.START else FindingKind.ILLEGAL
        for index in _where(broken):
            at = At(ColumnsReader(config, columns, index))
            contract = rule.contract(at)
            if rule.extension is not None:
                contract += f", on machine {config.name!r}, where the extension {rule.extension!r} is off"
            subject.report(kind, index, rule.field, rule.cell(at), contract, cells=rule.cells(at), code=rule.code)


def _check_shift_amounts(subject: VerificationContext) -> None:
    columns = subject.columns
    immediate = (columns.opcode == Opcode.ALU) & (columns["use_imm"] > 0) & (columns["alu_opcode"] == AluOp.SHR)
    for index in _where(immediate & (np.abs(columns["imm"]) > _MOST_SHIFT)):
        given = int(columns["imm"][index])
        contract = f"be from -{_MOST_SHIFT} to {_MOST_SHIFT}, not {given}"
        subject.report(FindingKind.SHIFT_AMOUNT, index, "imm", "", contract)


def _check_dram(subject: VerificationContext) -> None:
    rows = subject.rows
    is_store = subject.columns.stores[rows.instruction]
    for which, allowed, contract in (
        (~is_store, subject.dram.readable, "address bytes of a segment"),
        (is_store, subject.dram.writable, "address bytes of an output or temporary segment"),
    ):
        if allowed is not None:
            _report_outside(subject, which, allowed, FindingKind.DRAM_RANGE, contract)
    _check_stream(subject, is_store)
    is_uop = ~is_store & (subject.columns["memory_type"][rows.instruction] == MemoryType.UOP)
    _check_uop_sources(subject, np.flatnonzero(is_uop), np.flatnonzero(is_store))


def _report_outside(
    subject: VerificationContext,
    which: np.ndarray[tuple[int], np.dtype[np.bool_]],
    allowed: Ranges,
    kind: FindingKind,
    rule: str,
) -> None:
    rows = subject.rows.chosen(which)
    outside = allowed.first_outside(rows.start, rows.end)
    wrong = np.flatnonzero(outside < rows.end)
    instructions, firsts = np.unique(rows.instruction[wrong], return_index=True)
    for index, first in zip(instructions.tolist(), wrong[firsts].tolist(), strict=True):
        address = int(outside[first])
        contract = f"{rule}, not of {subject.dram.owner(address)}"
        subject.report(kind, index, "dram_base", f"DRAM {address:#x}", contract)


def _check_stream(subject: VerificationContext, is_store: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
    """The running stream must not be written, because fetch reads ahead."""
    if subject.insn_addr is None or not subject.instructions:
        return
    begin, end = subject.insn_addr, subject.insn_addr + INSTRUCTION_BYTES * len(subject.instructions)
    rows = subject.rows.chosen(is_store)
    wrong = np.flatnonzero((rows.start < end) & (rows.end > begin))
    instructions, firsts = np.unique(rows.instruction[wrong], return_index=True)
    for index, row in zip(instructions.tolist(), wrong[firsts].tolist(), strict=True):
        address = max(int(rows.start[row]), begin)
        contract = f"address bytes outside the running stream, which occupies {begin:#x} to {end - 1:#x}"
        cell = f"DRAM {address:#x}"
        subject.report(FindingKind.STREAM_WRITE, index, "dram_base", cell, contract, code=FaultCode.STREAM_WRITE)


def _check_uop_sources(subject: VerificationContext, loads: Ints, stores: Ints) -> None:
    """Micro-ops must be known before the run: from an image, and not from memory that the stream writes."""
    rows = subject.rows
    written = Ranges.union(rows.start[stores], rows.end[stores])
    changed = written.touched(rows.start[loads], rows.end[loads])
    reported: set[int] = set()
    for row, is_changed in zip(loads.tolist(), changed.tolist(), strict=True):
        index, address = int(rows.instruction[row]), int(rows.start[row])
        known = subject.dram.uop_words(address, int(rows.end[row] - address) // 4) is not None
        if index in reported or (known and not is_changed):
            continue
        reported.add(index)
        what = "memory that the stream stores to" if is_changed else subject.dram.owner(address)
        contract = f"address micro-ops that are known before the run, not {what}"
        subject.report(FindingKind.UOP_SOURCE, index, "dram_base", f"DRAM {address:#x}", contract)


def _where(condition: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    indices: list[int] = np.flatnonzero(condition).tolist()
    return indices
