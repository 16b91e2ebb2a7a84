"""HTML made of elements: all text is escaped, and so are the JSON values that stand in a page."""

import html
import json
from typing import Any

import numpy as np

from lathe.reports.columns import column


class Markup(str):
    """Text that is HTML already, and stands in a page as it is."""

    __slots__ = ()


VOID = frozenset({"br", "hr", "input", "meta"})
"""Elements that have no end."""


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. Children that are no Markup are text, and escaped; None is left out.

    Attributes are escaped, too; ``class_`` is written ``class``, ``data_row`` is written ``data-row``. One that is
    True stands without a value, one that is None or False is left out.

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
    """Elements one after the other."""
    return Markup("".join(parts))


def json_in_script(value: object) -> Markup:
    """A value as JSON that may stand in a <script>: whatever its texts hold, it cannot end the element.

    NumPy arrays become columns (``columns.py``).
    """
    text = json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False)
    # Within JSON these characters stand in strings only, where an escape means the same.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return column(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a page cannot hold {type(value).__name__}")
