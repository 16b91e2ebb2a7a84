"""Small SVG figures for notebooks: cycles of units by cause, a timeline of busy units, and points of a sweep."""

from collections.abc import Mapping, Sequence

import numpy as np

from lathe.reports.markup import Markup, element
from lathe.reports.notebooks.fragments import grouped, percent
from lathe.sim import Counters, Trace

BUSY = "#2a9d8f"
# Colours of stall causes, visible on light and dark pages; other causes are grey.
WAITS = {
    "memory": "#e76f51",
    "load->compute": "#e9a23b",
    "compute->load": "#9d6bce",
    "compute->store": "#5b8def",
    "store->compute": "#d1609f",
    "drain": "#a08670",
}
GREY = "#8a8f98"
_WIDTH, _LEFT, _ROW = 560, 70, 22
_BINS = 240


def units_picture(counters: Counters) -> Markup:
    """A bar for each unit: the share of cycles in which it was busy, and stalled, by cause."""
    rows = list(counters.units.items())
    parts, causes = [], dict.fromkeys(["busy"])
    for number, (name, unit) in enumerate(rows):
        parts.append(_text(0, number * _ROW + 14, name))
        shares = {"busy": unit.busy, **unit.stalls}
        causes.update(dict.fromkeys(cause for cause, cycles in shares.items() if cycles))
        at = float(_LEFT)
        for cause, cycles in shares.items():
            width = (_WIDTH - _LEFT) * cycles / max(1, counters.cycles)
            if cycles:
                label = f"{name}, {cause}: {grouped(cycles)} cycles, {percent(cycles / counters.cycles)}"
                parts.append(_bar(at, number * _ROW + 3, width, 15, colour_of(cause), label))
            at += width
    at, top = float(_LEFT), len(rows) * _ROW + 7
    for cause in causes:
        width = 26 + 6.8 * len(cause)
        if at + width > _WIDTH:
            at, top = float(_LEFT), top + 18
        parts += [_bar(at, top, 10, 10, colour_of(cause), cause), _text(at + 14, top + 9, cause)]
        at += width
    return _picture(top + 16, "Busy cycles and stalls of each unit, by cause", parts)


def timeline_picture(trace: Trace, cycles: int) -> Markup:
    """The timeline of load, compute and store: the opacity is the busy share of each interval of cycles."""
    parts = []
    width = (_WIDTH - _LEFT) / _BINS
    edges = np.linspace(0, cycles, _BINS + 1)
    for number, unit in enumerate(("load", "compute", "store")):
        part = trace.of_unit(unit)
        parts.append(_text(0, number * _ROW + 14, unit))
        if not len(part):
            continue
        # The load unit starts an instruction before the preceding one has ended.
        begin = np.maximum(part.start, np.concatenate(([0], np.maximum.accumulate(part.end)[:-1])))
        busy = np.maximum(part.end - begin, 0)
        points = np.stack([begin, begin + busy], 1).ravel()
        done = np.stack([np.cumsum(busy) - busy, np.cumsum(busy)], 1).ravel()
        shares = np.diff(np.interp(edges, points, done)) * _BINS / max(1, cycles)
        for position in np.flatnonzero(shares > 0.01).tolist():
            at, opacity = _LEFT + position * width, min(1.0, 0.15 + 0.85 * shares[position])
            parts.append(_bar(at, number * _ROW + 3, width + 0.2, 15, BUSY, opacity=f"{opacity:.2f}"))
    top = 3 * _ROW
    parts += [_text(_LEFT, top + 14, "0"), _text(_WIDTH, top + 14, f"{grouped(cycles)} cycles", "end")]
    return _picture(top + 20, "When units were busy", parts)


def points_picture(
    points: Sequence[tuple[float, float]], fronts: Sequence[Sequence[tuple[float, float]]], names: tuple[str, str]
) -> Markup:
    """Points of a sweep by two metrics, with each Pareto front as a line."""
    height = 240
    every = np.array(points, float)
    low, high = every.min(axis=0), every.max(axis=0)
    span = np.where(high > low, high - low, 1.0)

    def position(point: tuple[float, float]) -> tuple[float, float]:
        x, y = (np.array(point) - low) / span
        return _LEFT + 8 + x * (_WIDTH - _LEFT - 20), height - 40 - y * (height - 60)

    parts = [_line([(_LEFT, 10), (_LEFT, height - 30), (_WIDTH, height - 30)], "currentColor", 0.5)]
    for point in points:
        parts.append(_dot(position(point), GREY, 2.5, _point_text(point, names)))
    for front in fronts:
        parts.append(_line([position(each) for each in front], BUSY, 1.5))
        parts += [_dot(position(point), BUSY, 4, _point_text(point, names)) for point in front]
    parts += [
        _text(_WIDTH, height - 14, f"{names[0]}: {_short(low[0])} to {_short(high[0])}", "end"),
        _text(0, 10, f"{names[1]}"),
        _text(_LEFT - 4, 26, _short(high[1]), "end"),
        _text(_LEFT - 4, height - 32, _short(low[1]), "end"),
    ]
    return _picture(height, f"{names[1]} by {names[0]}; the line is the Pareto front", parts)


def colour_of(cause: str) -> str:
    """The colour of a unit's cycles: busy ones, and stalls by cause."""
    return BUSY if cause == "busy" else WAITS.get(cause, GREY)


def shares_of(values: Mapping[str, int], total: int) -> str:
    """Shares of a total as text, the largest first."""
    parts = sorted(values.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {percent(value / total)}" for name, value in parts if value and total)


def _point_text(point: tuple[float, float], names: tuple[str, str]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in zip(names, point, strict=True))


def _short(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\N{NO-BREAK SPACE}") if abs(value) >= 1e4 else f"{value:.4g}"


def _picture(height: float, title: str, parts: Sequence[Markup]) -> Markup:
    style = "max-width:100%;height:auto;display:block;margin:.3em 0"
    box = f"0 0 {_WIDTH} {height:g}"
    return element(
        "svg", element("title", title), *parts, style=style, viewBox=box, width=str(_WIDTH), role="img",
        xmlns="http://www.w3.org/2000/svg", font_size="12", font_family="sans-serif",
    )  # fmt: skip


def _bar(
    x: float, y: float, width: float, height: float, colour: str, label: str = "", opacity: str | None = None
) -> Markup:
    tooltip = element("title", label) if label else None
    given = {name: f"{value:.2f}" for name, value in (("x", x), ("y", y), ("width", width), ("height", height))}
    return element("rect", tooltip, fill=colour, fill_opacity=opacity, **given)


def _dot(at: tuple[float, float], colour: str, radius: float, label: str) -> Markup:
    return element(
        "circle", element("title", label), cx=f"{at[0]:.1f}", cy=f"{at[1]:.1f}", r=f"{radius:g}", fill=colour
    )


def _line(points: Sequence[tuple[float, float]], colour: str, width: float) -> Markup:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=path, fill="none", stroke=colour, stroke_width=f"{width:g}")


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, fill="currentColor")
