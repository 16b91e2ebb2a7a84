"""Binary encoder and decoder of instructions: bit-exact, and vectorised over the stream."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES, WORD_BITS
from lathe.isa.columnar_stream import Columns
from lathe.isa.constraints import WORDS, first_broken
from lathe.isa.errors import EncodingError, InvalidInstructionError
from lathe.isa.expression_readers import ColumnsReader
from lathe.isa.instruction_diagnostics import misfit_message
from lathe.isa.instructions import Instruction
from lathe.isa.table import Opcode, placements


def encode(config: HardwareConfig, instructions: Sequence[Instruction]) -> NDArray[np.uint8]:
    """The binary form, (N, 16) uint8.

    Raises :class:`EncodingError` naming the first instruction and field whose value does not fit.
    """
    return encode_columns(config, Columns.of(instructions))


def decode(config: HardwareConfig, encoded: ArrayLike) -> list[Instruction]:
    """The instructions of a binary stream, (N, 16) uint8. Reserved bits are ignored.

    Raises :class:`EncodingError` for arrays of another shape or dtype, and naming the first instruction whose opcode,
    memory type or ALU operation is not in the tables.
    """
    return decode_columns(config, encoded).instructions()


def encode_columns(config: HardwareConfig, columns: Columns) -> NDArray[np.uint8]:
    """Like :func:`encode`, from columns."""
    words = np.zeros((len(columns), INSTRUCTION_BYTES * 8 // WORD_BITS), "<u8")
    for opcode in Opcode:
        rows = np.flatnonzero(columns.opcode == opcode)
        if not len(rows):
            continue
        for name, placement in placements(config, opcode).items():
            values = columns.opcode[rows] if name == "opcode" else columns[name][rows]
            wrong = (values < placement.lowest) | (values > placement.highest)
            if wrong.any():
                first = int(np.flatnonzero(wrong)[0])
                where = f"instruction {int(rows[first])} ({opcode.name})"
                raise EncodingError(misfit_message(config, placement, where, values[first]))
            if placement.width:
                word, shift = divmod(placement.lsb, WORD_BITS)
                mask = np.uint64((1 << placement.width) - 1)
                words[rows, word] |= (values.astype(np.uint64) & mask) << np.uint64(shift)
    return words.view(np.uint8).reshape(len(columns), INSTRUCTION_BYTES)


def decode_columns(config: HardwareConfig, encoded: ArrayLike) -> Columns:
    """Like :func:`decode`, to columns."""
    columns = extract_columns(config, encoded)
    broken = first_broken(config, columns, WORDS)
    if broken is not None:
        index, rule = broken
        message = rule.message(f"instruction {index}", ColumnsReader(config, columns, index))
        raise InvalidInstructionError(message, instruction=index, code=rule.code)
    return columns


def extract_columns(config: HardwareConfig, encoded: ArrayLike) -> Columns:
    """The raw fields of a binary stream, also of words that are not an instruction."""
    array = np.asarray(encoded)
    if array.ndim != 2 or array.shape[1] != INSTRUCTION_BYTES or array.dtype != np.uint8:
        raise EncodingError(
            f"The instruction stream must be an array of shape (N, {INSTRUCTION_BYTES}) and dtype uint8, "
            f"not {array.shape} and {array.dtype}. Each instruction has {INSTRUCTION_BYTES} bytes."
        )
    words = np.ascontiguousarray(array).view("<u8")
    columns = Columns.empty(len(words))
    columns.opcode[:] = (words[:, 0] & np.uint64(7)).astype(np.int64)
    for opcode in Opcode:
        rows = np.flatnonzero(columns.opcode == opcode)
        if not len(rows):
            continue
        halves = words[rows]
        for name, placement in placements(config, opcode).items():
            if name == "opcode" or not placement.width:
                continue
            word, shift = divmod(placement.lsb, WORD_BITS)
            values = (halves[:, word] >> np.uint64(shift)) & np.uint64((1 << placement.width) - 1)
            column = values.astype(np.int64)
            if placement.field.signed:
                sign = 1 << (placement.width - 1)
                column = (column ^ sign) - sign
            columns.fields[name][rows] = column
    return columns
