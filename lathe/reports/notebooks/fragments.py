"""Fragments of HTML for notebooks: tables, collapsible sections and text, with inline styles.

Colours are inherited or translucent grey, so that they are visible on light and dark backgrounds.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from lathe.reports.markup import Markup, element

MOST_ROWS = 40
"""Rows of a table in a cell, at most; a note below has the number of other rows."""

_LINE = "1px solid rgba(127,127,127,.35)"
_CELL = f"padding:.15em .7em;border:0;border-bottom:{_LINE};vertical-align:top;max-width:40em"
_PLAIN = "background:transparent;color:inherit"
_FAINT = "opacity:.75"


def panel(title: str, *parts: Markup) -> str:
    """A complete representation: a heading and its content, as a string."""
    heading = element("div", title, style="font-weight:600;margin:.2em 0 .4em")
    return str(element("div", heading, *parts, style="overflow-x:auto;max-width:100%;line-height:1.4"))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, left: int = 1, most: int = MOST_ROWS, note: str = ""
) -> Markup:
    """A table; the first ``left`` columns and all text columns are left-aligned, numeric ones right-aligned."""
    every = [list(row) for row in rows]
    right = [at >= left and bool(every) and all(_is_number(row[at]) for row in every) for at in range(len(columns))]

    def cell(name: str, at: int, value: Any, more: str) -> Markup:
        return element(name, text_of(value), style=f"{_CELL};text-align:{'right' if right[at] else 'left'};{more}")

    lines = [
        element("tr", *(cell("td", at, value, _PLAIN) for at, value in enumerate(row)), style=_PLAIN)
        for row in every[:most]
    ]
    names = element("tr", *(cell("th", at, name, "font-weight:600") for at, name in enumerate(columns)))
    head = element("thead", names) if any(columns) else None
    made = element("table", head, element("tbody", *lines), style=f"border-collapse:collapse;margin:.3em 0;{_PLAIN}")
    rest = len(every) - most
    notes = [*([f"{grouped(rest)} more rows"] if rest > 0 else []), *([note] if note else [])]
    return element("div", made, *(element("div", each, style=f"{_FAINT};max-width:60em") for each in notes))


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """A table of names and values; None is left out."""
    return table(("", ""), [(name, text_of(value)) for name, value in pairs if value is not None], left=2)


def folded(summary: str, *parts: Markup) -> Markup:
    """A collapsible section, which needs no script."""
    head = element("summary", summary, style="cursor:pointer")
    return element("details", head, *parts, style="margin:.3em 0")


def text_block(text: str, most: int = 400) -> Markup:
    """Preformatted text, at most ``most`` lines of it."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > most:
        lines = [*lines[:most], f"... {grouped(len(lines) - most)} more lines"]
    style = f"margin:.2em 0;padding:0;white-space:pre;overflow-x:auto;max-height:30em;{_PLAIN}"
    return element("pre", "\n".join(lines), style=style)


def hbox(*parts: Markup) -> Markup:
    """Fragments side by side, wrapped on narrow pages."""
    return element("div", *parts, style="display:flex;flex-wrap:wrap;gap:0 2.5em;align-items:flex-start")


def text_of(value: Any) -> str:
    """A value as text: grouped thousands, four significant digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return grouped(value)
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else grouped(round(value))
    return "" if value is None else str(value)


def grouped(number: int) -> str:
    """An integer with spaces between thousands: 12 345 678."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def percent(share: float) -> str:
    """A fraction in percent with one decimal."""
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def size(count: int) -> str:
    """Bytes, in KiB if divisible."""
    return f"{grouped(count // 1024)} KiB" if count and count % 1024 == 0 else f"{grouped(count)} B"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and value[:1].isdigit() and value.endswith(("%", "iB", " B"))
    )  # fmt: skip
