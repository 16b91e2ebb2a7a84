"""A self-contained HTML page, with its style sheet, data, scripts and the plotting library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from os import PathLike

from lathe.configs.atomic import write_text
from lathe.reports.extra import plotting_library
from lathe.reports.markup import Markup, element, json_in_script

POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
"""The security policy: no network access. plotly.js needs eval for its WebGL figures."""
LOOKS = "page.css"
FIRST = "page.js"
"""The script of every page, which decodes data, draws figures in light and dark themes, and sorts tables."""


@dataclass(frozen=True)
class Page:
    """A page: its title and subtitle, its sections, its data by name, and its scripts.

    ``data`` are plain values and NumPy arrays, which scripts get from ``lathe.data(name)``; ``scripts`` are names of
    files in ``assets``, which run in order after the page is parsed.
    """

    title: str
    subtitle: str
    sections: Sequence[Markup]
    data: Mapping[str, object] = field(default_factory=dict)
    scripts: Sequence[str] = ()

    def html(self) -> str:
        """The text of the page. Raises ReportError without the plotting library."""
        head = [
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="color-scheme", content="light dark"),
            element("title", self.title),
            element("style", Markup(asset(LOOKS))),
        ]
        data = [
            element("script", json_in_script(value), type="application/json", id=f"data-{name}")
            for name, value in self.data.items()
        ]
        top = element("header", element("h1", self.title), element("p", self.subtitle), class_="top")
        library = element("script", Markup(plotting_library()))
        scripts = [element("script", Markup(asset(name))) for name in (FIRST, *self.scripts)]
        body = element("body", top, element("main", *self.sections), *data, library, *scripts)
        return f"<!DOCTYPE html>\n{element('html', element('head', *head), body, lang='en')}\n"

    def write(self, path: str | PathLike[str]) -> None:
        """Write the page atomically. Raises ReportError, and FileError."""
        write_text(path, self.html())


def section(title: str, *children: object, id_: str, note: str = "") -> Markup:
    """A section of a page with a heading, the anchor `#id_`, and an explanatory note."""
    told = element("p", note, class_="note") if note else None
    return element("section", element("h2", title), told, *children, id=id_)


def figure(name: str, *, height: int, controls: Markup | None = None, caption: str = "") -> Markup:
    """The container of a figure, which a script draws with ``lathe.draw(name, ...)``; ``height`` in pixels.

    Above it are ``controls``, and buttons that save the figure as SVG and PNG.
    """
    save = [
        element("button", kind.upper(), type="button", class_="save", data_figure=name, data_format=kind,
                title=f"Save this figure as {kind.upper()}")
        for kind in ("svg", "png")
    ]  # fmt: skip
    bar = element("div", controls, element("span", *save, class_="saves"), class_="bar")
    drawn = element("div", id=name, class_="plot", style=f"height:{height}px")
    return element("figure", bar, drawn, element("figcaption", caption) if caption else None)


def facts(rows: Sequence[tuple[str, object]]) -> Markup:
    """A list of names with values."""
    pairs = (element("div", element("dt", name), element("dd", value), class_="fact") for name, value in rows)
    return element("dl", *pairs, class_="facts")


def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files("lathe.reports") / "assets" / name).read_text(encoding="utf-8")
