"""Construction of HTML: all text, attributes and embedded JSON are escaped."""

import html
import json
from typing import Any

import numpy as np

from lathe.reports.columns import column


class Markup(str):
    """A string of HTML, which is not escaped again."""

    __slots__ = ()


VOID = frozenset({"br", "hr", "input", "meta"})
"""Elements without an end tag."""


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """An HTML element. Children that are not Markup are escaped as text; None is omitted.

    Attributes are escaped, too; ``class_`` is written ``class``, ``data_row`` is written ``data-row``. True is written
    as an attribute without value; None and False are omitted.

    >>> element("b", "a < b", class_="x")
    '<b class="x">a &lt; b</b>'
    """
    words = [name]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(written)
        elif value is not None and value is not False:
            words.append(f'{written}="{html.escape(str(value))}"')
    known = (child for child in children if child is not None)
    inside = "".join(child if isinstance(child, Markup) else html.escape(str(child)) for child in known)
    return Markup(f"<{' '.join(words)}>" + ("" if name in VOID else f"{inside}</{name}>"))


def joined(*parts: Markup) -> Markup:
    """The concatenation of elements."""
    return Markup("".join(parts))


def json_in_script(value: object) -> Markup:
    """A value as JSON inside a <script>, escaped so that no string in it can end the element.

    NumPy arrays become columns (``columns.py``).
    """
    text = json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)
    # In JSON these characters occur in strings only, where an escape is equivalent.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return column(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Cannot serialise {type(value).__name__} for a page.")
