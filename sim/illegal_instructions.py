"""Instructions that are illegal whatever the data, by the unit that refuses them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lathe.configs import HardwareConfig
from lathe.isa import Columns, FaultCode, Opcode, Unit
from lathe.isa.columnar_stream import ALL_FIELDS
from lathe.isa.constraints import DECODING, STARTING, Rule, first_broken
from lathe.isa.expression_readers import ColumnsReader


class Refusal(NamedTuple):
    """An instruction of the stream that is refused, and why."""

    instruction: int
    code: FaultCode
    message: str


@dataclass(frozen=True)
class Refusals:
    """The first refusal of fetch, which decodes, and of each unit, which checks ranges before it starts an instruction.

    ``beyond``: all instructions whose ranges are refused.
    """

    decoding: Refusal | None = None
    starting: Mapping[Unit, Refusal] = field(default_factory=dict)
    beyond: Sequence[int] = ()


def refusals_of(cfg: HardwareConfig, columns: Columns, undecodable: Refusal | None) -> Refusals:
    """The illegal instructions of a stream. `undecodable`: the first one with invalid bytes, if any."""
    decoding = _refusal(cfg, columns, first_broken(cfg, columns, DECODING))
    if undecodable is not None and (decoding is None or undecodable.instruction < decoding.instruction):
        decoding = undecodable
    starting: dict[Unit, Refusal] = {}
    beyond: list[int] = []
    units = columns.unit
    for rule in STARTING:
        illegal = np.flatnonzero(rule.broken_in(cfg, columns))
        beyond += illegal.tolist()
        for unit in Unit if len(illegal) else ():
            for index in illegal[units[illegal] == unit][:1].tolist():
                if unit not in starting or index < starting[unit].instruction:
                    refusal = _refusal(cfg, columns, (index, rule))
                    assert refusal is not None
                    starting[unit] = refusal
    return Refusals(decoding, starting, beyond)


def _refusal(cfg: HardwareConfig, columns: Columns, broken: tuple[int, Rule] | None) -> Refusal | None:
    """The refusal of an instruction that breaks a rule."""
    if broken is None:
        return None
    index, rule = broken
    opcode, unit = Opcode(int(columns.opcode[index])), Unit(int(columns.unit[index]))
    where = f"instruction {index} ({opcode.name} in {unit.name.lower()})"
    return Refusal(index, rule.code, rule.message(where, ColumnsReader(cfg, columns, index)))


def blanked(columns: Columns, first: int) -> Columns:
    """The columns with no-ops from instruction `first` on, which no unit will receive."""
    legal = np.arange(len(columns)) < first
    return Columns(np.where(legal, columns.opcode, 0), {name: np.where(legal, columns[name], 0) for name in ALL_FIELDS})
