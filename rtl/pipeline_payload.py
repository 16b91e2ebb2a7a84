"""The payload of a pipeline step: the flags and fields that travel with it."""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth.hdl import Shape, Value
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.isa.operands import operands_of
from lathe.isa.table import Opcode, placements
from lathe.rtl.instruction import issued

# Fields that determine the steps of an instruction; only the sequencer needs them.
_SEQUENCED = frozenset({"uop_bgn", "uop_end", "iter_out", "iter_in"})


def travelling(config: HardwareConfig, opcode: Opcode) -> dict[str, Shape]:
    """The fields of an instruction that its steps need besides their indices, by name."""
    head = placements(config, Opcode.FINISH)
    factors = {name for each in operands_of(opcode) for name in each.factor_fields}
    return {
        name: Shape(placement.width, placement.field.signed and placement.width > 0)
        for name, placement in placements(config, opcode).items()
        if placement.width and name not in _SEQUENCED | factors | set(head)
    }


def step_of(config: HardwareConfig) -> data.StructLayout:
    """The payload of a step.

    "valid": it belongs to a micro-op; "ends": it is its instruction's last step, which "pushes" tokens. "first": it
    reads an accumulator other than the one that is written; "writes": it is the last step of its micro-op. The flag
    named after its instruction is set, and "of" has the instruction's fields.
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
    """Reads the instruction fields of a step and the indices of its micro-op, to turn isa expressions into logic."""

    def __init__(self, config: HardwareConfig, fields: Any, indices: Mapping[str, Value]) -> None:
        self.config, self.fields, self.indices = config, fields, indices

    def field(self, name: str) -> Any:
        """The field's bits, or the index."""
        return self.indices[name] if name in self.indices else self.fields[name]

    def named(self, name: str, value: Callable[[], Value]) -> Value:  # noqa: ARG002 - needs no named signal
        """The value."""
        return value()
