"""Diagnosis of a single instruction that a machine refuses, independent of any stream."""

from typing import Any

import numpy as np

from lathe.configs import HardwareConfig
from lathe.configs.encoding import Placement
from lathe.configs.errors import shown
from lathe.isa.constraints import EXTENSION_RULES, RULES, Rule
from lathe.isa.expression_readers import InstructionReader
from lathe.isa.instructions import FIELDS_OF, Instruction
from lathe.isa.table import placements


def missing_extension(config: HardwareConfig, instruction: Instruction) -> Rule | None:
    """The first rule that an instruction breaks because the machine lacks an extension, or None."""
    return next((rule for rule in EXTENSION_RULES if rule.breaks(config, instruction)), None)


def refusal_of(config: HardwareConfig, instruction: Instruction, where: str) -> str | None:
    """The message for an instruction that a machine does not execute, or None; ``where`` names the instruction.

    Checked in order: fields hold integers, the machine has the required extensions, values fit their fields, and the
    other rules of ``isa/constraints.py``.
    """
    for name in FIELDS_OF[instruction.opcode]:
        value = getattr(instruction, name)
        if not isinstance(value, int | np.integer | np.bool_):
            return f"{name} of {where} must be an integer, not {shown(value)}."
    rule = missing_extension(config, instruction)
    if rule is None:
        for name, placement in placements(config, instruction.opcode).items():
            value = getattr(instruction, name)
            if not placement.lowest <= value <= placement.highest:
                return misfit_message(config, placement, where, value)
        rule = next((each for each in RULES if each.breaks(config, instruction)), None)
    return None if rule is None else rule.message(where, InstructionReader(config, instruction))


def misfit_message(config: HardwareConfig, placement: Placement, where: str, value: Any) -> str:
    """The message for a value that does not fit its field on a machine; ``where`` names the instruction."""
    contract, reason = f"from {placement.lowest} to {placement.highest}", f"Its field has {placement.width} bits on"
    extension = placement.field.width.extension
    if extension and extension not in config.extensions:
        contract, reason = "0", f"The extension {extension!r} is off on"
    return f"{placement.field.name} of {where} must be {contract}, not {int(value)}. {reason} machine {config.name!r}."
