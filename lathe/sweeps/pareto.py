"""Which rows of a table no other row beats."""

from collections.abc import Mapping, Sequence
from typing import Any

from lathe.configs.validation import unknown
from lathe.sweeps.errors import SweepError


def objectives_of(text: str, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The metrics in a text like "cycles,-efficiency", of which a minus makes great better than small.

    Raises SweepError for what is no column of numbers.
    """
    found = tuple(word.strip() for word in text.split(","))
    known = [key for key, value in (rows[0].items() if rows else ()) if _numeric(rows, key, value)]
    for word in found:
        if word.removeprefix("-") not in known:
            fault = unknown(word.removeprefix("-"), known, "A metric")
            raise SweepError.at("--pareto", fault)
    return found


def _numeric(rows: Sequence[Mapping[str, Any]], key: str, _value: Any) -> bool:
    values = [row[key] for row in rows if row[key] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def pareto_front(rows: Sequence[Mapping[str, Any]], objectives: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows of status ok that no other is at least as good as in all objectives and better in one, the best first.

    Of rows that are equal in all objectives each is there. A row without one of the numbers is not.
    """
    signs = [(name.removeprefix("-"), -1 if name.startswith("-") else 1) for name in objectives]
    placed = [
        (tuple(sign * row[name] for name, sign in signs), row)
        for row in rows
        if row.get("status") == "ok" and all(row.get(name) is not None for name, _ in signs)
    ]
    front: list[tuple[tuple[float, ...], Mapping[str, Any]]] = []
    for values, row in sorted(placed, key=lambda each: each[0]):  # whoever beats a row comes before it
        if not any(all(a <= b for a, b in zip(other, values, strict=True)) and other != values for other, _ in front):
            front.append((values, row))
    return [row for _, row in front]
