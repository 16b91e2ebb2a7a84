"""What a request is refused for, word for word."""

from collections.abc import Callable
from typing import Any

import pytest


def refusal(error: type[Exception], command: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """The message of the refusal of a call; fails unless it raises such an error."""
    with pytest.raises(error) as caught:
        command(*arguments, **named)
    return str(caught.value)
