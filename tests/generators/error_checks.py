"""Checks of a user's error: its type, its kind, and the names and values in its message, whatever its wording."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from lathe.configs.errors import LatheError

Refused = TypeVar("Refused", bound=Exception)


def raises(
    error: type[Refused],
    call: Callable[..., Any],
    *arguments: Any,
    kind: str | None = None,
    mentions: tuple[object, ...] = (),
    **named: Any,
) -> Refused:
    """The error that a call raises; fails unless its type is ``error`` and its message contains all mentions."""
    with pytest.raises(error) as caught:
        call(*arguments, **named)
    assert type(caught.value) is error
    if kind is not None:
        assert isinstance(caught.value, LatheError)
        assert caught.value.kind == kind
    check_mentions(caught.value, *mentions)
    return caught.value


def check_mentions(message: object, *mentions: object) -> None:
    """Fail unless each name or value is in a message, as a word of its own: 1 is not in "16", nor "C" in "ACC"."""
    text = str(message)
    missing = [each for each in mentions if not re.search(rf"(?<![\w]){re.escape(str(each))}(?![\w])", text)]
    assert not missing, f"{text!r} does not mention {missing}"
