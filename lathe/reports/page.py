"""A page put together: one file of HTML with its looks, its data and the plotting library in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from os import PathLike

from lathe.configs.atomic import write_text
from lathe.reports.extra import plotting_library
from lathe.reports.markup import Markup, element, json_in_script

POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser lets a page do: nothing goes out. The library makes functions of text for its figures on the GPU."""
LOOKS = "page.css"
FIRST = "page.js"
"""The script that every page has: it reads the data, draws figures in light and dark, saves them, and sorts tables."""


@dataclass(frozen=True)
class Page:
    """A page: its title, a line below it, its sections, its data by name, and the scripts that fill it.

    ``data`` are plain values and NumPy arrays, which scripts get from ``lathe.data(name)``; ``scripts`` are names of
    files in ``assets``, run in their order when all of the page is there.
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
        """Write the page, whole or not at all. Raises ReportError, and FileError."""
        write_text(path, self.html())


def section(title: str, *children: object, id_: str, note: str = "") -> Markup:
    """A part of a page with a heading, which `#id` leads to, and a sentence that says what is seen."""
    told = element("p", note, class_="note") if note else None
    return element("section", element("h2", title), told, *children, id=id_)


def figure(name: str, *, height: int, controls: Markup | None = None, caption: str = "") -> Markup:
    """The place of a figure, which a script draws with ``lathe.draw(name, ...)``; ``height`` in pixels.

    Above it are ``controls`` and the buttons that save it as SVG and as PNG.
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
    """Names and values beside each other."""
    pairs = (element("div", element("dt", name), element("dd", value), class_="fact") for name, value in rows)
    return element("dl", *pairs, class_="facts")


def asset(name: str) -> str:
    """The text of a file of this package."""
    return (files("lathe.reports") / "assets" / name).read_text(encoding="utf-8")
