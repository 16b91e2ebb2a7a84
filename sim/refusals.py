"""Instructions that no unit carries out whatever the data, by the part of the machine that refuses them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Columns, FaultCode, Instruction, MemoryType, Opcode, Unit, unit_of
from lathe.isa.columns import ALL_FIELDS
from lathe.isa.table import MEMORIES, QUEUE_OF, TOKEN_FIELDS
from lathe.sim.commands import micro_ops


class Refusal(NamedTuple):
    """An instruction of the stream that is refused, and why."""

    instruction: int
    code: FaultCode
    message: str


@dataclass(frozen=True)
class Refusals:
    """The first refusal of fetch, which decodes, and of each unit, which looks at ranges when it would start.

    ``beyond``: all instructions whose ranges are refused.
    """

    decoding: Refusal | None = None
    starting: Mapping[Unit, Refusal] = field(default_factory=dict)
    beyond: Sequence[int] = ()


def place(index: int, instruction: Instruction) -> str:
    """How messages name an instruction."""
    return f"instruction {index} ({instruction.opcode.name} in {unit_of(instruction).name.lower()})"


def refusals_of(
    cfg: HardwareConfig, columns: Columns, stream: Sequence[Instruction], undecodable: Refusal | None
) -> Refusals:
    """What the machine refuses of a stream. `undecodable`: the first whose bytes are no instruction, if any."""
    decoding = min(_decoding(columns, stream), key=lambda each: each.instruction, default=None)
    if undecodable is not None and (decoding is None or undecodable.instruction < decoding.instruction):
        decoding = undecodable
    starting: dict[Unit, Refusal] = {}
    beyond: list[int] = []
    units = columns.unit
    for refused, refusal_of in ((_overruns(cfg, columns), _overrun), (_uop_overruns(cfg, columns), _uop_overrun)):
        places = np.flatnonzero(refused)
        beyond += places.tolist()
        for unit in Unit if len(places) else ():
            for index in places[units[places] == unit][:1].tolist():
                if unit not in starting or index < starting[unit].instruction:
                    starting[unit] = refusal_of(cfg, columns, stream, index)
    return Refusals(decoding, starting, beyond)


def _decoding(columns: Columns, stream: Sequence[Instruction]) -> Iterator[Refusal]:
    """For each rule, the first instruction that breaks it; of one instruction the first is told."""
    units = columns.unit

    def first(broken: NDArray[np.bool_]) -> Iterator[tuple[int, str]]:
        if broken.any():
            index = int(np.argmax(broken))
            yield index, place(index, stream[index])

    memory = columns["memory_type"]
    moves = columns["x_size"] > 0
    loads, stores = moves & (columns.opcode == Opcode.LOAD), moves & (columns.opcode == Opcode.STORE)
    for index, where in first(loads & (memory == MemoryType.OUT)):
        message = f"memory_type of {where} must be uop, wgt, inp, acc or acc8, not out. No unit loads out."
        yield Refusal(index, FaultCode.MEMORY_TYPE, message)
    for index, where in first(stores & (memory != MemoryType.OUT)):
        name = MemoryType(int(memory[index])).name.lower()
        message = f"memory_type of {where} must be out, not {name}. STORE takes no other."
        yield Refusal(index, FaultCode.MEMORY_TYPE, message)
    for pad in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
        for index, where in first(stores & (columns[pad] != 0)):
            message = f"{pad} of {where} must be 0, not {int(columns[pad][index])}. STORE has no padding."
            yield Refusal(index, FaultCode.STORE_PADDING, message)
    for unit in Unit:
        for name in TOKEN_FIELDS:
            if (unit, name) not in QUEUE_OF:
                for index, where in first((units == unit) & (columns[name] != 0)):
                    message = f"{name} of {where} must be 0, not 1. The unit has no neighbour on that side."
                    yield Refusal(index, FaultCode.NO_NEIGHBOUR, message)


def _ends(columns: Columns) -> NDArray[np.int64]:
    """One past the last scratchpad element of each LOAD and STORE."""
    rows = columns["y_pad_0"] + columns["y_size"] + columns["y_pad_1"]
    width = columns["x_pad_0"] + columns["x_size"] + columns["x_pad_1"]
    ends: NDArray[np.int64] = columns["sram_base"] + rows * width
    return ends


def _overruns(cfg: HardwareConfig, columns: Columns) -> NDArray[np.bool_]:
    transfers = (columns.opcode == Opcode.LOAD) | (columns.opcode == Opcode.STORE)
    depths = np.array([MEMORIES[each].depth(cfg) for each in MemoryType])[columns["memory_type"]]
    refused: NDArray[np.bool_] = transfers & (columns["x_size"] > 0) & (_ends(columns) > depths)
    return refused


def _overrun(cfg: HardwareConfig, columns: Columns, stream: Sequence[Instruction], index: int) -> Refusal:
    memory = MEMORIES[MemoryType(int(columns["memory_type"][index]))]
    message = (
        f"last {memory.scratchpad} element of {place(index, stream[index])} must be below {memory.depth(cfg)}, "
        f"not {int(_ends(columns)[index]) - 1}. The scratchpad ends there."
    )
    return Refusal(index, FaultCode.SRAM_RANGE, message)


def _uop_overruns(cfg: HardwareConfig, columns: Columns) -> NDArray[np.bool_]:
    refused: NDArray[np.bool_] = (micro_ops(columns) > 0) & (columns["uop_end"] > cfg.uop_depth)
    return refused


def _uop_overrun(cfg: HardwareConfig, columns: Columns, stream: Sequence[Instruction], index: int) -> Refusal:
    message = (
        f"micro-op of {place(index, stream[index])} must be below {cfg.uop_depth}, "
        f"not {int(columns['uop_end'][index]) - 1}. The scratchpad ends there."
    )
    return Refusal(index, FaultCode.UOP_RANGE, message)


def blanked(columns: Columns, first: int) -> Columns:
    """The columns with instructions that do nothing from place `first` on, where no unit will see them."""
    kept = np.arange(len(columns)) < first
    return Columns(np.where(kept, columns.opcode, 0), {name: np.where(kept, columns[name], 0) for name in ALL_FIELDS})
