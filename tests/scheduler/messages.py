"""Messages of refused calls."""

from collections.abc import Callable
from typing import Any

import pytest


def refusal(error: type[Exception], command: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """The message of the error that a call raises; fails unless it is of type ``error``."""
    with pytest.raises(error) as caught:
        command(*arguments, **named)
    return str(caught.value)
