"""A step of the compute pipeline: what travels with it."""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth.hdl import Shape, Value
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.isa.operands import operands_of
from lathe.isa.table import Opcode, placements
from lathe.rtl.instruction import issued

# Fields that say which steps there are, and whose: the sequencer has done with them.
_SEQUENCED = frozenset({"uop_bgn", "uop_end", "iter_out", "iter_in"})


def travelling(config: HardwareConfig, opcode: Opcode) -> dict[str, Shape]:
    """The fields of an instruction that its steps need besides their indices, by name."""
    head = placements(config, Opcode.FINISH)
    factors = {name for each in operands_of(opcode) for name in each.factor_fields}
    return {
        name: Shape(place.width, place.field.signed and place.width > 0)
        for name, place in placements(config, opcode).items()
        if place.width and name not in _SEQUENCED | factors | set(head)
    }


def step_of(config: HardwareConfig) -> data.StructLayout:
    """What travels with a step of a micro-op.

    "valid": it does something; "ends": it is its instruction's last step, which "pushes" tokens. "first": it reads an
    accumulator besides the one that is written; "writes": it is the last one of a micro-op. Of the names of
    instructions the one that runs is set, and "of" has its fields.
    """
    opcodes = issued(config)
    fields = {opcode.name.lower(): data.StructLayout(travelling(config, opcode)) for opcode in opcodes}
    return data.StructLayout(
        {
            "valid": 1,
            "ends": 1,
            "pushes": 2,
            "first": 1,
            "writes": 1,
            **dict.fromkeys(fields, 1),
            "of": data.UnionLayout(fields),
        }
    )


class StepReader:
    """Reads the fields of the instruction that a step is of, and the indices of its micro-op, which are signals."""

    def __init__(self, config: HardwareConfig, fields: Any, indices: Mapping[str, Value]) -> None:
        self.config, self.fields, self.indices = config, fields, indices

    def field(self, name: str) -> Any:
        """The field's bits, or the index."""
        return self.indices[name] if name in self.indices else self.fields[name]

    def named(self, name: str, value: Callable[[], Value]) -> Value:  # noqa: ARG002 - needs no signal of its own
        """The value."""
        return value()
