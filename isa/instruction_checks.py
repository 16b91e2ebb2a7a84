"""Mistakes that show in an instruction by itself, looked for in a whole stream at once."""

import numpy as np

from lathe.isa.columns import Ints
from lathe.isa.dram_rows import Ranges
from lathe.isa.findings import FindingKind
from lathe.isa.subject import Subject
from lathe.isa.table import MEMORIES, QUEUE_OF, TOKEN_FIELDS, AluOp, MemoryType, Opcode, Unit, placements

_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
_MOST_SHIFT = 31


def check_fields(subject: Subject) -> None:
    """Values that their fields do not hold; only instructions that were never encoded can have them."""
    columns = subject.columns
    for opcode in Opcode:
        rows = np.flatnonzero(columns.opcode == opcode)
        for name, field in placements(subject.config, opcode).items() if len(rows) else ():
            if name == "opcode":
                continue
            values = columns[name][rows]
            for place in _where((values < field.lowest) | (values > field.highest)):
                contract = f"be from {field.lowest} to {field.highest}, not {values[place]}"
                subject.report(FindingKind.FIELD, int(rows[place]), name, f"{field.width} bits", contract)


def check_instructions(subject: Subject) -> None:
    """Illegal forms, immediate shift amounts, blocks beyond a scratchpad's end, and DRAM out of range."""
    _check_forms(subject)
    _check_shift_amounts(subject)
    _check_blocks(subject)
    _check_dram(subject)


def _check_forms(subject: Subject) -> None:
    columns = subject.columns
    moving = columns["x_size"] > 0
    for index in _where((columns.opcode == Opcode.LOAD) & moving & (columns["memory_type"] == MemoryType.OUT)):
        subject.report(FindingKind.ILLEGAL, index, "memory_type", "out", "be uop, wgt, inp, acc or acc8, not out")
    stores = (columns.opcode == Opcode.STORE) & moving
    for index in _where(stores & (columns["memory_type"] != MemoryType.OUT)):
        given = MemoryType(int(columns["memory_type"][index])).name.lower()
        subject.report(FindingKind.ILLEGAL, index, "memory_type", given, f"be out, not {given}")
    for pad in _PADS:
        for index in _where(stores & (columns[pad] > 0)):
            subject.report(FindingKind.ILLEGAL, index, pad, "out", f"be 0, not {columns[pad][index]}")
    for name in TOKEN_FIELDS:
        for unit in Unit:
            if (unit, name) not in QUEUE_OF:
                side = name.partition("_")[2]
                for index in _where((columns.unit == unit) & (columns[name] > 0)):
                    contract = f"be 0, not 1, for {unit.name.lower()} has no {side} neighbour"
                    subject.report(FindingKind.ILLEGAL, index, name, f"{unit.name.lower()}.{side}", contract)


def _check_shift_amounts(subject: Subject) -> None:
    columns = subject.columns
    immediate = (columns.opcode == Opcode.ALU) & (columns["use_imm"] > 0) & (columns["alu_opcode"] == AluOp.SHR)
    for index in _where(immediate & (np.abs(columns["imm"]) > _MOST_SHIFT)):
        given = int(columns["imm"][index])
        contract = f"be from -{_MOST_SHIFT} to {_MOST_SHIFT}, not {given}"
        subject.report(FindingKind.SHIFT_AMOUNT, index, "imm", f"imm {given}", contract)


def _check_blocks(subject: Subject) -> None:
    columns = subject.columns
    moves = ((columns.opcode == Opcode.LOAD) | (columns.opcode == Opcode.STORE)) & (columns["x_size"] > 0)
    height = columns["y_pad_0"] + columns["y_size"] + columns["y_pad_1"]
    width = columns["x_pad_0"] + columns["x_size"] + columns["x_pad_1"]
    end = columns["sram_base"] + height * width
    for memory in MEMORIES.values():
        depth = memory.depth(subject.config)
        for index in _where(moves & (columns["memory_type"] == memory.type) & (end > depth) & (height > 0)):
            base, beyond = int(columns["sram_base"][index]), int(end[index])
            first = max(base, depth)
            contract = f"put its block of {beyond - base} elements below {depth}, not up to {beyond - 1}"
            cell = f"{memory.scratchpad}[{first}]"
            subject.report(FindingKind.SRAM_RANGE, index, "sram_base", cell, contract, cells=beyond - first)


def _check_dram(subject: Subject) -> None:
    rows = subject.rows
    is_store = subject.columns.opcode[rows.instruction] == Opcode.STORE
    for which, allowed, contract in (
        (~is_store, subject.dram.readable, "lead to bytes of a segment"),
        (is_store, subject.dram.writable, "lead to bytes of an output or temporary segment"),
    ):
        if allowed is not None:
            _report_outside(subject, which, allowed, FindingKind.DRAM_RANGE, contract)
    is_uop = ~is_store & (subject.columns["memory_type"][rows.instruction] == MemoryType.UOP)
    _check_uop_sources(subject, np.flatnonzero(is_uop), np.flatnonzero(is_store))


def _report_outside(
    subject: Subject, which: np.ndarray[tuple[int], np.dtype[np.bool_]], allowed: Ranges, kind: FindingKind, rule: str
) -> None:
    rows = subject.rows.chosen(which)
    outside = allowed.first_outside(rows.start, rows.end)
    wrong = np.flatnonzero(outside < rows.end)
    instructions, firsts = np.unique(rows.instruction[wrong], return_index=True)
    for index, first in zip(instructions.tolist(), wrong[firsts].tolist(), strict=True):
        address = int(outside[first])
        contract = f"{rule}, not of {subject.dram.owner(address)}"
        subject.report(kind, index, "dram_base", f"DRAM {address:#x}", contract)


def _check_uop_sources(subject: Subject, loads: Ints, stores: Ints) -> None:
    """Micro-ops must be known before the run: from an image, and not from memory that the stream writes."""
    rows = subject.rows
    written = Ranges.union(rows.start[stores], rows.end[stores])
    changed = written.touched(rows.start[loads], rows.end[loads])
    told: set[int] = set()
    for row, is_changed in zip(loads.tolist(), changed.tolist(), strict=True):
        index, address = int(rows.instruction[row]), int(rows.start[row])
        known = subject.dram.uop_words(address, int(rows.end[row] - address) // 4) is not None
        if index in told or (known and not is_changed):
            continue
        told.add(index)
        what = "memory that the stream stores to" if is_changed else subject.dram.owner(address)
        contract = f"lead to micro-ops that are known before the run, not to {what}"
        subject.report(FindingKind.UOP_SOURCE, index, "dram_base", f"DRAM {address:#x}", contract)


def _where(condition: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[int]:
    found: list[int] = np.flatnonzero(condition).tolist()
    return found
