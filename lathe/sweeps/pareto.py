"""Pareto fronts: the rows of a table that no other row dominates."""

from collections.abc import Mapping, Sequence
from typing import Any

from lathe.configs.validate_config import unknown
from lathe.sweeps.errors import SweepError
from lathe.sweeps.tables import workload_of


def metrics_of(text: str, rows: Sequence[Mapping[str, Any]], option: str, *, signed: bool = False) -> tuple[str, ...]:
    """The metrics in a text like "cycles,-efficiency"; ``signed``: a minus means that larger is better.

    Raises SweepError, which names ``option``, for a name that is no numeric column.
    """
    metrics = tuple(word.strip() for word in text.split(","))
    known = [key for key in (rows[0] if rows else ()) if _numeric(rows, key)]
    for word in metrics:
        name = word.removeprefix("-") if signed else word
        if name not in known:
            raise SweepError.at(option, unknown(name, known, "A metric"))
    return metrics


def _numeric(rows: Sequence[Mapping[str, Any]], key: str) -> bool:
    values = [row[key] for row in rows if row[key] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def pareto_front(rows: Sequence[Mapping[str, Any]], objectives: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows of the fronts of all workloads (:func:`fronts_of`)."""
    return [row for front in fronts_of(rows, objectives) for row in front]


def fronts_of(rows: Sequence[Mapping[str, Any]], objectives: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """The Pareto front of each workload: the rows of status ok that no other row of the workload dominates, best first.

    Of rows that are equal in all objectives all are included; a row without one of the metrics is not.
    """
    signs = [(name.removeprefix("-"), -1 if name.startswith("-") else 1) for name in objectives]
    by_workload: dict[tuple[tuple[str, Any], ...], list[tuple[tuple[float, ...], Mapping[str, Any]]]] = {}
    for row in rows:
        if row.get("status") == "ok" and all(row.get(name) is not None for name, _ in signs):
            values = tuple(sign * row[name] for name, sign in signs)
            by_workload.setdefault(workload_of(row), []).append((values, row))
    return [_undominated(each) for each in by_workload.values()]


def _undominated(valued: list[tuple[tuple[float, ...], Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """The rows whose values, to be minimised, no other row's dominate."""
    front: list[tuple[tuple[float, ...], Mapping[str, Any]]] = []
    for values, row in sorted(valued, key=lambda each: each[0]):  # a dominating row comes before those it dominates
        if not any(all(a <= b for a, b in zip(other, values, strict=True)) and other != values for other, _ in front):
            front.append((values, row))
    return [row for _, row in front]
