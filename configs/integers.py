"""What counts as an integer where a user gives one."""

import dataclasses
import operator
from typing import Any, cast


def integer(value: object) -> int | None:
    """``value`` as a Python integer when it is one (or one of NumPy's), else None; truth values are not numbers."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(cast(int, value))
    except TypeError:
        return None


def hold_plain_integers(instance: Any) -> None:
    """Let the fields of a frozen dataclass hold Python's integers in place of NumPy's, which JSON does not know."""
    for field in dataclasses.fields(instance):
        number = integer(getattr(instance, field.name))
        if number is not None:
            object.__setattr__(instance, field.name, number)
