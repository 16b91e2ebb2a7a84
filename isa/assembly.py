"""Assembler of instructions and micro-ops; :mod:`lathe.isa.disassembly` describes the language."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BITS, INSTRUCTION_BYTES, UOP_BITS, Placement
from lathe.configs.errors import shown
from lathe.configs.hardware_config import check_machine
from lathe.isa.disassembly import CHOICE_OF, REQUIRED
from lathe.isa.encoding import decode, encode
from lathe.isa.errors import AssemblyError
from lathe.isa.expression_readers import InstructionReader
from lathe.isa.instruction_diagnostics import missing_extension
from lathe.isa.instructions import CLASS_OF, CODES, FLAGS, Instruction
from lathe.isa.table import Opcode, placements, uop_placements

_DIRECTIVES = (".code", ".uops", ".insn", ".word")


@dataclass(frozen=True, eq=False)
class Assembly:
    """The result of assembling: the stream, (N, 16) uint8, and tables of micro-op words by name, each (M,) uint32."""

    config: HardwareConfig
    encoded: NDArray[np.uint8]
    uops: Mapping[str, NDArray[np.uint32]] = field(default_factory=dict)

    @property
    def instructions(self) -> list[Instruction]:
        """The stream as instructions; raises :class:`EncodingError` if ``.insn`` gave bytes that are not one."""
        return decode(self.config, self.encoded)


def assemble(config: HardwareConfig, text: str, source: str = "the text") -> Assembly:
    """The instructions and micro-ops of a text. ``source`` is its name in messages, for example a file's name.

    Raises :class:`AssemblyError` naming the line, the field and its contract, and ConfigError for an invalid
    ``config``.
    """
    check_machine(config, "assemble")
    if not isinstance(text, str):
        raise AssemblyError(f"text of assemble must be a string, not {shown(text)}.", line=0)
    return _Assembler(config, source).run(text)


class _Assembler:
    def __init__(self, config: HardwareConfig, source: str) -> None:
        self.config = config
        self.source = source
        self.line = 0
        self.instructions: list[Instruction] = []
        self.positions: list[int] = []  # of self.instructions in the stream; the others come from .insn
        self.raw: dict[int, bytes] = {}
        self.uops: dict[str, list[int]] = {}
        self.table: list[int] | None = None  # the current table of micro-ops; None inside .code

    def run(self, text: str) -> Assembly:
        for self.line, full in enumerate(text.splitlines(), start=1):
            words = full.split(";", 1)[0].split()
            if not words:
                continue
            if words[0].startswith("."):
                self.directive(words)
            elif self.table is not None:
                self.table.append(self.uop(words))
            else:
                self.positions.append(len(self.positions) + len(self.raw))
                self.instructions.append(self.instruction(words))
        encoded = np.zeros((len(self.positions) + len(self.raw), INSTRUCTION_BYTES), np.uint8)
        encoded[self.positions] = encode(self.config, self.instructions)
        for position, content in self.raw.items():
            encoded[position] = np.frombuffer(content, np.uint8)
        tables = {name: np.array(words, np.uint32) for name, words in self.uops.items()}
        return Assembly(self.config, encoded, tables)

    def directive(self, words: list[str]) -> None:
        name, arguments = words[0], words[1:]
        if name not in _DIRECTIVES:
            raise self.error(
                "The directive", f"one of {', '.join(_DIRECTIVES)}, not {name!r}", _guess(name, _DIRECTIVES)
            )
        if name == ".uops":
            arguments = [" ".join(arguments)] if arguments else []  # Names of segments may have spaces.
        expected = 0 if name == ".code" else 1
        if len(arguments) != expected:
            contract = f"followed by {expected} word{'s' * (expected != 1)}, not {len(arguments)}"
            raise self.error(f"Directive {name}", contract, "Correct the line.")
        if name == ".code":
            self.table = None
        elif name == ".uops":
            if arguments[0] in self.uops:
                raise self.error("The name of .uops", f"new, not {arguments[0]!r} again", "Rename it.")
            self.table = self.uops[arguments[0]] = []
        elif name == ".insn":
            if self.table is not None:
                raise self.error("Directive .insn", "in .code, not in .uops", "Write .code before it.")
            value = self.number("Directive .insn", arguments[0], 0, (1 << INSTRUCTION_BITS) - 1)
            self.raw[len(self.positions) + len(self.raw)] = value.to_bytes(INSTRUCTION_BYTES, "little")
        else:
            if self.table is None:
                raise self.error("Directive .word", "in .uops, not in .code", "Write .uops and a name before it.")
            self.table.append(self.number("Directive .word", arguments[0], 0, (1 << UOP_BITS) - 1))

    def instruction(self, words: list[str]) -> Instruction:
        mnemonics = [opcode.name.lower() for opcode in Opcode]
        if words[0] not in mnemonics:
            raise self.error(
                "The instruction", f"one of {', '.join(mnemonics)}, not {words[0]!r}", _guess(words[0], mnemonics)
            )
        opcode = Opcode[words[0].upper()]
        values: dict[str, Any] = {}
        operands = words[1:]
        choice = CHOICE_OF.get(opcode)
        if choice is not None:
            members = [member.name.lower() for member in CODES[choice]]
            given = operands[0] if operands else "nothing"
            if given not in members:
                thing = f"{choice} of {opcode.name}"
                raise self.error(thing, f"one of {', '.join(members)}, not {given!r}", _guess(given, members))
            values[choice] = CODES[choice][given.upper()]
            operands = operands[1:]
        plain: dict[str, Any] = {**dict.fromkeys(REQUIRED[opcode], 0), **values}
        self.refuse_beyond(CLASS_OF[opcode](**plain))  # before its fields, which have no bits without the extension
        fields = {
            name: bits for name, bits in placements(self.config, opcode).items() if name not in ("opcode", choice)
        }
        off = {name: bits.field.width.extension for name, bits in fields.items() if not bits.width}
        for name, extension in off.items():
            if name in REQUIRED[opcode] or extension in self.config.extensions:
                continue
            if any(word.partition("=")[0] == name for word in operands):
                contract = f"used on a machine with the extension {extension!r}, not on {self.config.name!r}"
                raise self.error(f"{name} of {opcode.name}", contract, "Remove it or use another machine.")
            del fields[name]
        values |= self.operands(operands, opcode.name, fields)
        for name in REQUIRED[opcode]:
            if name not in values:
                raise self.error(f"{opcode.name}", f"given {name}, not left without it", f"Add {name}=0 or its value.")
        instruction: Instruction = CLASS_OF[opcode](**values)
        self.refuse_beyond(instruction)
        return instruction

    def refuse_beyond(self, instruction: Instruction) -> None:
        """Raise AssemblyError for an instruction that requires an extension which the machine lacks."""
        rule = missing_extension(self.config, instruction)
        if rule is not None:
            where = f"{instruction.opcode.name} of {self.source}, line {self.line},"
            raise AssemblyError(rule.message(where, InstructionReader(self.config, instruction)), line=self.line)

    def uop(self, words: list[str]) -> int:
        fields = uop_placements(self.config)
        values = self.operands(words, "the micro-op", fields)
        return sum(value << fields[name].lsb for name, value in values.items())

    def operands(self, words: list[str], what: str, fields: Mapping[str, Placement]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for word in words:
            name, equals, text = word.partition("=")
            if name not in fields:
                allowed = ", ".join(fields)
                raise self.error(f"A field of {what}", f"one of {allowed}, not {name!r}", _guess(name, list(fields)))
            thing = f"{name} of {what}"
            if name in values:
                raise self.error(thing, "given once, not twice", "Remove one of the two.")
            if name in FLAGS:
                if equals and text not in ("0", "1"):
                    raise self.error(thing, f"0 or 1, not {text!r}", "The bare name of a flag sets it.")
                values[name] = text != "0"
            elif not equals:
                raise self.error(thing, "followed by = and a number, not alone", f"Write {name}=0 or its value.")
            else:
                values[name] = self.number(thing, text, fields[name].lowest, fields[name].highest)
        return values

    def number(self, thing: str, text: str, lowest: int, highest: int) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            value = highest + 1
        if not lowest <= value <= highest:
            bound = f"{highest:#x}" if highest > 1 << 40 else str(highest)
            raise self.error(
                thing, f"an integer from {lowest} to {bound}, not {text!r}", "Correct the number or the machine."
            )
        return value

    def error(self, thing: str, contract: str, remedy: str) -> AssemblyError:
        return AssemblyError(
            f"{thing} of {self.source}, line {self.line}, must be {contract}. {remedy}", line=self.line
        )


def _guess(word: str, known: tuple[str, ...] | list[str]) -> str:
    alike = get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f"Did you mean {alike[0]!r}?" if alike else "Correct the word."
