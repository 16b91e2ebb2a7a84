"""Instructions that no unit carries out whatever the data, by the part of the machine that refuses them."""

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
    """The first refusal of fetch, which decodes, and of each unit, which looks at ranges when it would start.

    ``beyond``: all instructions whose ranges are refused.
    """

    decoding: Refusal | None = None
    starting: Mapping[Unit, Refusal] = field(default_factory=dict)
    beyond: Sequence[int] = ()


def refusals_of(cfg: HardwareConfig, columns: Columns, undecodable: Refusal | None) -> Refusals:
    """What the machine refuses of a stream. `undecodable`: the first whose bytes are no instruction, if any."""
    decoding = _refusal(cfg, columns, first_broken(cfg, columns, DECODING))
    if undecodable is not None and (decoding is None or undecodable.instruction < decoding.instruction):
        decoding = undecodable
    starting: dict[Unit, Refusal] = {}
    beyond: list[int] = []
    units = columns.unit
    for rule in STARTING:
        places = np.flatnonzero(rule.broken_in(cfg, columns))
        beyond += places.tolist()
        for unit in Unit if len(places) else ():
            for index in places[units[places] == unit][:1].tolist():
                if unit not in starting or index < starting[unit].instruction:
                    refusal = _refusal(cfg, columns, (index, rule))
                    assert refusal is not None
                    starting[unit] = refusal
    return Refusals(decoding, starting, beyond)


def _refusal(cfg: HardwareConfig, columns: Columns, found: tuple[int, Rule] | None) -> Refusal | None:
    """The refusal of an instruction that breaks a rule."""
    if found is None:
        return None
    index, rule = found
    opcode, unit = Opcode(int(columns.opcode[index])), Unit(int(columns.unit[index]))
    where = f"instruction {index} ({opcode.name} in {unit.name.lower()})"
    return Refusal(index, rule.code, rule.message(where, ColumnsReader(cfg, columns, index)))


def blanked(columns: Columns, first: int) -> Columns:
    """The columns with instructions that do nothing from place `first` on, where no unit will see them."""
    kept = np.arange(len(columns)) < first
    return Columns(np.where(kept, columns.opcode, 0), {name: np.where(kept, columns[name], 0) for name in ALL_FIELDS})
