"""The rows of a sweep in notebooks: a table of varying parameters and main metrics, and a scatter plot."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lathe.configs.html_repr import html_of
from lathe.reports.markup import Markup, element
from lathe.reports.notebooks.fragments import facts, panel, table, text_of
from lathe.reports.notebooks.pictures import points_picture
from lathe.sweeps.measurement import METRICS
from lathe.sweeps.pareto import fronts_of
from lathe.sweeps.rows import SweepRows
from lathe.sweeps.tables import SECONDS

SHOWN = ("cycles", "efficiency", "time_us", "energy_pj")
PICTURED = (("time_us", "energy_pj"), ("cycles", "energy_pj"), ("cycles", "bytes_read"))
"""Pairs of metrics; the scatter plot shows the first pair that all rows have."""


@html_of.register
def rows(value: SweepRows) -> str:
    """A table of varying parameters and main metrics, the fastest first, and a scatter plot of two metrics."""
    counts = Counter(row["status"] for row in value)
    title = f"Sweep of {len(value)} points: {', '.join(f'{count} {status}' for status, count in counts.items())}"
    names = list(dict.fromkeys(key for row in value for key in row if key not in (*METRICS, "status", SECONDS)))
    varying = [name for name in names if len({str(row.get(name)) for row in value}) > 1]
    fixed = [(name, value[0][name]) for name in names if name not in varying and value[0].get(name)]
    numbers = [name for name in SHOWN if any(row.get(name) is not None for row in value)]
    ordered = sorted(value, key=lambda row: row.get("cycles", float("inf")))
    cells = [[*(text_of(row.get(name)) for name in varying), *(row.get(name) for name in numbers)] for row in ordered]
    parts = [facts(fixed), *_picture(value), table((*varying, *numbers), cells, left=len(varying), most=20)]
    return panel(title, *parts)


def _picture(value: Sequence[Mapping[str, Any]]) -> list[Markup]:
    measured = [row for row in value if row["status"] == "ok"]
    for pair in PICTURED:
        if len(measured) > 2 and all(row.get(name) is not None for row in measured for name in pair):
            placed, *fronts = (
                [(row[pair[0]], row[pair[1]]) for row in each] for each in (measured, *fronts_of(measured, pair))
            )
            return [points_picture(placed, fronts, pair)]
    return [element("div")]
