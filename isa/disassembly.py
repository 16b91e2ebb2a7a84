"""Disassembler of instructions and micro-ops, to text that :mod:`lathe.isa.assembly` parses back to the same bytes.

A line is a mnemonic, the memory type or ALU operation if the instruction has one, fields as ``name=value``, and flags
that are set as bare names. Optional fields that are 0 are omitted. A semicolon starts a comment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.errors import shown
from lathe.configs.hardware_config import check_machine
from lathe.isa.columnar_stream import Columns
from lathe.isa.constraints import EXTENSION_RULES, WORDS
from lathe.isa.encoding import encode_columns, extract_columns
from lathe.isa.errors import EncodingError
from lathe.isa.instructions import CLASS_OF, CODES, FIELDS_OF, FLAGS, Instruction, unit_of
from lathe.isa.microops import decode_uops, encode_uops
from lathe.isa.program import UOPS, Program
from lathe.isa.table import Opcode

# The field that follows the mnemonic without its name.
CHOICE_OF: dict[Opcode, str] = {opcode: name for opcode, names in FIELDS_OF.items() for name in names if name in CODES}

# Fields that must be written even when they are 0.
REQUIRED: dict[Opcode, tuple[str, ...]] = {
    opcode: tuple(
        field.name for field in fields(kind) if field.default is MISSING and field.name != CHOICE_OF.get(opcode)
    )
    for opcode, kind in CLASS_OF.items()
}

_OPTIONAL = {
    opcode: tuple(
        field.name for field in fields(kind) if field.default is not MISSING and field.name != CHOICE_OF.get(opcode)
    )
    for opcode, kind in CLASS_OF.items()
}


def instruction_text(instruction: Instruction) -> str:
    """One instruction as a line of assembly text."""
    opcode = instruction.opcode
    words = [opcode.name.lower()]
    if opcode in CHOICE_OF:
        field = CHOICE_OF[opcode]
        choice = CODES[field](getattr(instruction, field))  # a plain number is as valid as the enum member
        words.append(choice.name.lower())
    words.extend(_value_text(name, getattr(instruction, name)) for name in REQUIRED[opcode])
    for name in _OPTIONAL[opcode]:
        value = getattr(instruction, name)
        if value:
            words.append(name if name in FLAGS else _value_text(name, value))
    return " ".join(words)


def disassemble(
    config: HardwareConfig,
    instructions: Sequence[Instruction] | NDArray[np.uint8],
    uops: Mapping[str, ArrayLike] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The text of a stream, given as instructions or as (N, 16) uint8, and of tables of micro-op words by name.

    Bytes that are not an instruction, that have reserved bits set, or that require an extension which the machine lacks
    are written as ``.insn`` with their 128 bits. ``notes`` are comments, one per instruction. Raises ConfigError unless
    ``config`` is a machine, and EncodingError for invalid instructions.
    """
    check_machine(config, "disassemble")
    if not isinstance(instructions, np.ndarray) and not (
        isinstance(instructions, Sequence) and all(isinstance(each, Instruction) for each in instructions)
    ):
        raise EncodingError(
            "instructions of disassemble must be a list of instructions or an array of their bytes, (N, 16) uint8, not "
            f"{shown(instructions)}."
        )
    if isinstance(instructions, np.ndarray):
        lines = _lines_of_bytes(config, instructions)
    else:
        # Refuses fields with invalid values.
        lines = _lines_of_bytes(config, encode_columns(config, Columns.of(instructions)))
    text = [f"; lathe assembly for machine {config.name!r}"]
    for name, words in (uops or {}).items():
        text += ["", f".uops {name}", *_uop_lines(config, np.asarray(words, np.uint32))]
    text += ["", ".code"]
    for index, (line, comment) in enumerate(lines):
        note = " " + " ".join(notes[index].split()) if index < len(notes) else ""
        text.append(f"{line}  ; {comment}{note}")
    return "\n".join(text) + "\n"


def disassemble_program(program: Program) -> str:
    """The text of a program: its segments and labels as comments, its micro-op tables and its instructions."""
    uops = {
        segment.name: program.images[segment.name].view("<u4") for segment in program.segments if segment.role == UOPS
    }
    notes = [program.labels[label] for label in program.label_of.tolist()]
    text = disassemble(program.config, program.instructions, uops, notes)
    segments = "".join(
        f"; {segment.address:#010x} {segment.nbytes:>9} bytes  {segment.role:<12} {segment.name}\n"
        for segment in sorted(program.segments, key=lambda segment: segment.address)
    )
    first, rest = text.split("\n", 1)
    return f"{first}\n{segments}{rest}"


def _value_text(name: str, value: int) -> str:
    return f"{name}={value:#x}" if name == "dram_base" else f"{name}={int(value)}"


def _lines_of_bytes(config: HardwareConfig, encoded: NDArray[np.uint8]) -> list[tuple[str, str]]:
    columns = extract_columns(config, encoded)
    legal = np.flatnonzero(~np.any([rule.broken_in(config, columns) for rule in WORDS], axis=0))
    chosen = Columns(columns.opcode[legal], {name: column[legal] for name, column in columns.fields.items()})
    plain = (encode_columns(config, chosen) == encoded[legal]).all(axis=1)
    beyond = np.any([rule.broken_in(config, chosen) for rule in EXTENSION_RULES], axis=0)
    lines = [(_raw_text(row), f"{index} not an instruction") for index, row in enumerate(encoded)]
    decoded = zip(legal.tolist(), chosen.instructions(), plain.tolist(), beyond.tolist(), strict=True)
    for index, instruction, complete, refused in decoded:
        comment = f"{index} {unit_of(instruction).name.lower()}"
        if complete and not refused:
            lines[index] = (instruction_text(instruction), comment)
        else:
            why = "requires an extension that the machine lacks" if refused else "with reserved bits set"
            lines[index] = (lines[index][0], f"{comment}, {why}: {instruction_text(instruction)}")
    return lines


def _raw_text(row: NDArray[np.uint8]) -> str:
    return f".insn {int.from_bytes(row.tobytes(), 'little'):#0{2 + 2 * INSTRUCTION_BYTES}x}"


def _uop_lines(config: HardwareConfig, words: NDArray[np.uint32]) -> list[str]:
    dst, src, wgt = decode_uops(config, words)
    plain = encode_uops(config, dst, src, wgt) == words
    return [
        f"dst={d} src={s} wgt={w}  ; {index}" if complete else f".word {word:#010x}  ; {index}, with reserved bits set"
        for index, (word, d, s, w, complete) in enumerate(
            zip(words.tolist(), dst.tolist(), src.tolist(), wgt.tolist(), plain.tolist(), strict=True)
        )
    ]
