"""The page of a sweep's store: Pareto fronts, parallel coordinates, a table, and a comparison of points."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lathe.reports.markup import Markup, element, joined
from lathe.reports.page import Page, facts, figure, section
from lathe.reports.run_summary import grouped
from lathe.reports.sweep_data import sweep_data
from lathe.sweeps.current_rows import current_rows, outdated_text
from lathe.sweeps.measurement import OK
from lathe.sweeps.store import StoredRow, reading_store

SCRIPTS = ("table.js", "sweep.js", "points.js", "front.js", "parallel.js")


def sweep_page(path: Path) -> Page:
    """The page of a store of `lathe sweep -o`, which may still be running. Raises SweepError for any other file.

    The store is opened read-only.
    """
    with reading_store(path) as store:
        stored = store.rows()
    rows = current_rows(stored)
    measured = sum(row.status == OK for row in rows)
    told = f"{grouped(len(rows))} points of a sweep, of which {grouped(measured)} have metrics"
    sections = [_summary(rows, outdated_text(stored, rows))]
    if rows:
        sections += [_filter()]
        sections += [_front(), _parallel()] if measured else []
        sections += [_table(), _points()]
    return Page(path.name, told, sections, {"sweep": sweep_data(rows)}, SCRIPTS if rows else ())


def _summary(rows: Sequence[StoredRow], without: str) -> Markup:
    statuses = Counter(row.status for row in rows)
    workloads = dict.fromkeys(str(row.columns.get("workload")) for row in rows)
    bases = dict.fromkeys(str(row.columns.get("base")) for row in rows)
    told: list[tuple[str, object]] = [("points", grouped(len(rows)))]
    told += [(status, grouped(count)) for status, count in statuses.most_common()]
    told += [("workloads", _listed(workloads)), ("base machines", _listed(bases))] if rows else []
    told += [("measuring time", f"{grouped(round(sum(row.seconds for row in rows)))} s")]
    told += [("left out", without)] if without else []
    return section("Summary", facts(told), id_="summary")


def _listed(names: Sequence[str] | dict[str, None], most: int = 4) -> str:
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def _filter() -> Markup:
    words = "Words, and comparisons such as cycles<5000 or status=ok"
    find = element("input", type="search", id="filter", placeholder=words, aria_label="Filter points", class_="wide")
    told = element("span", id="filter-told", class_="told", role="status")
    clear = element("button", "Show all", type="button", id="filter-clear")
    note = (
        "Applies to all figures and the table. A word must occur in a point's texts; a comparison is a column's name, "
        "one of < <= > >= = !=, and a value. Ranges marked on the axes of the parallel coordinates apply, too."
    )
    return section("Filter", element("div", find, clear, told, class_="bar"), id_="filter-part", note=note)


def _choice(name: str, label: str) -> Markup:
    return element("label", f"{label} ", element("select", id=name))


def _switch(name: str, label: str) -> Markup:
    return element("label", element("input", type="checkbox", id=name), f" {label}")


def _front() -> Markup:
    controls = joined(
        _choice("front-x", "Across"), _choice("front-x-best", "best is"), _choice("front-y", "Up"),
        _choice("front-y-best", "best is"), _switch("front-x-log", "log across"), _switch("front-y-log", "log up"),
    )  # fmt: skip
    note = (
        "Each point is a machine with a workload. The line is the Pareto front of a workload in both metrics. Click a "
        "point to see its configuration and its layers below."
    )
    drawn = figure("front", height=460, controls=controls)
    return section("Pareto front", drawn, element("p", id="front-told", class_="told"), id_="front-part", note=note)


def _parallel() -> Markup:
    names = element("div", id="parallel-axes", class_="checks")
    axes = element("details", element("summary", "Choose axes"), names)
    controls = joined(_choice("parallel-colour", "Colour by"))
    note = (
        "Each line is a point. Drag along an axis to mark a range, which filters the table and the front; click the "
        "axis to remove it; drag a name to move its axis."
    )
    return section(
        "Parallel coordinates", axes, figure("parallel", height=440, controls=controls), id_="parallel-part", note=note
    )


def _table() -> Markup:
    shown = element(
        "details", element("summary", "Choose columns"), element("div", id="table-columns", class_="checks")
    )
    note = "Click a column's header to sort by it, a row to see its configuration and its layers below."
    return section("Points", shown, element("div", id="points-table"), id_="table-part", note=note)


def _points() -> Markup:
    buttons = joined(
        element("button", "Compare with another point", type="button", id="compare", aria_pressed="false"),
        element("button", "Swap", type="button", id="swap"),
        element("button", "Only the first", type="button", id="alone"),
    )
    hint = "Click a point of the front or a row of the table."
    note = (
        "One point, or two side by side: press the button, then click the other point. The cycles of all layers add up "
        "to the point's. bound: a lower bound on the cycles of the layer alone."
    )
    bar = element("div", buttons, class_="bar", id="points-bar", hidden=True)
    shown = element("div", element("p", hint, class_="note"), id="points")
    drawn = element("div", figure("layers", height=320), id="layers-figure", hidden=True)
    layers = element("div", id="layers-table")
    return section("Selected points", bar, shown, drawn, layers, id_="points-part", note=note)
