"""Reserved bits of a binary stream: bits that belong to no field of the machine.

Hardware and simulator ignore them. Where they are set, the stream was made for another machine, most likely one with
more extensions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BITS, INSTRUCTION_BYTES, WORD_BITS, Placement, pack_fields
from lathe.configs.extensions import EXTENSIONS
from lathe.isa.table import TABLE, Opcode, instructions_of, placements

_WIDTHS = (
    "uop_index_bits", "inp_index_bits", "wgt_index_bits", "acc_index_bits", "par_index_bits", "lut_index_bits",
    "table_bits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SetReservedBits:
    """Reserved bits of an instruction that are set: ``field`` of it must ``contract``.

    Either the bits of a field of a disabled extension, or all remaining ones together.
    """

    instruction: int
    field: str
    contract: str


def set_reserved_bits(config: HardwareConfig, encoded: NDArray[np.uint8]) -> Iterator[SetReservedBits]:
    """The reserved bits that are set in a binary stream, (N, 16) uint8, in its order.

    Instructions with opcodes that the machine lacks are skipped.
    """
    words = np.ascontiguousarray(encoded).reshape(-1, INSTRUCTION_BYTES).view("<u8")
    masks = np.full((1 << 3, INSTRUCTION_BITS // WORD_BITS), ~np.uint64(0))
    for opcode in instructions_of(config):
        masks[opcode] = _halves(_used(config, opcode))
    opcodes = (words[:, 0] & np.uint64(7)).astype(np.int64)
    for index in np.flatnonzero(np.any(words & ~masks[opcodes], axis=1)).tolist():
        opcode, bits = Opcode(int(opcodes[index])), int.from_bytes(encoded[index].tobytes(), "little")
        yield from _of_instruction(config, opcode, index, bits)


def _of_instruction(config: HardwareConfig, opcode: Opcode, index: int, bits: int) -> Iterator[SetReservedBits]:
    unused = bits & ~_used(config, opcode)
    for extension, field in _missing(config, opcode):
        if unused & _mask(field):
            unused &= ~_mask(field)
            machine = f"machine {config.name!r}, where the extension {extension!r} is off"
            yield SetReservedBits(index, field.field.name, f"be 0 on {machine}, not {_value(field, bits)}")
    if unused:
        first = (unused & -unused).bit_length() - 1
        contract = f"be 0 where machine {config.name!r} has no field, not {unused >> first:#x} from bit {first} on"
        yield SetReservedBits(index, "bits", contract)


@lru_cache(maxsize=256)
def _used(config: HardwareConfig, opcode: Opcode) -> int:
    """The bits that belong to some field of an instruction."""
    return sum(_mask(each) for each in placements(config, opcode).values())


@lru_cache(maxsize=256)
def _missing(config: HardwareConfig, opcode: Opcode) -> Sequence[tuple[str, Placement]]:
    """The fields that an instruction would have with one more extension, with its name and their placement."""
    fields = []
    for extension in EXTENSIONS:
        if extension in config.extensions:
            continue
        widths = {name: getattr(config, name) for name in _WIDTHS}
        machine = SimpleNamespace(extensions=(*config.extensions, extension), **widths)
        for each in pack_fields(TABLE[opcode].format.fields, WORD_BITS, machine):
            if each.field.width.extension == extension and not placements(config, opcode)[each.field.name].width:
                fields.append((extension, each))
    return tuple(fields)


def _mask(field: Placement) -> int:
    return ((1 << field.width) - 1) << field.lsb


def _value(field: Placement, bits: int) -> int:
    value = (bits & _mask(field)) >> field.lsb
    return value - (1 << field.width) if value > field.highest else value


def _halves(bits: int) -> NDArray[np.uint64]:
    return np.frombuffer(bits.to_bytes(INSTRUCTION_BYTES, "little"), "<u8")
