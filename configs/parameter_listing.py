"""All numbers of a machine by name: independent parameters, and values derived from them."""

import inspect
from typing import Any

from lathe.configs.hardware_config import HardwareConfig


def given_values(machine: HardwareConfig) -> dict[str, Any]:
    """Every independent parameter of a machine, by its dotted key."""
    values: dict[str, Any] = {}
    for key, value in machine.to_dict().items():
        if isinstance(value, dict):
            values.update({f"{key}.{inner}": inner_value for inner, inner_value in value.items()})
        else:
            values[key] = value
    return values


def derived_values(machine: HardwareConfig) -> dict[str, int]:
    """Every derived number of a machine, by name."""
    return {name: getattr(machine, name) for name in derived_names()}


def derived_names() -> dict[str, str]:
    """The names of the derived numbers with their descriptions."""
    members = inspect.getmembers_static(HardwareConfig, lambda member: isinstance(member, property))
    in_source_order = sorted(members, key=lambda member: member[1].fget.__code__.co_firstlineno)
    return {name: inspect.getdoc(member) or "" for name, member in in_source_order}
