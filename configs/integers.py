"""Recognition of integers in user arguments, Python's and NumPy's."""

import dataclasses
import operator
from typing import Any, cast


def integer(value: object) -> int | None:
    """``value`` as a Python int if it is an integer of Python or NumPy, else None; booleans are not integers."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(cast(int, value))
    except TypeError:
        return None


def normalise_integers(instance: Any) -> None:
    """Replace NumPy integers in the fields of a frozen dataclass by Python's, which JSON can write."""
    for field in dataclasses.fields(instance):
        number = integer(getattr(instance, field.name))
        if number is not None:
            object.__setattr__(instance, field.name, number)
