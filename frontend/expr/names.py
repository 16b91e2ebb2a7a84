"""Validation of the names of tensors, computations and axes."""

import re

from lathe.frontend.expr.errors import TensorError, shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")


def checked_name(name: object, where: str) -> str:
    """``name`` if it is valid in every text form: letters, digits and _, with inner dots.

    Raises TensorError otherwise; ``where`` completes "name of …" in the message.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TensorError(
            f"name of {where} must start with a letter or _ and consist of letters, digits, _ and inner dots, "
            f"not {shown(name)}."
        )
    return name
