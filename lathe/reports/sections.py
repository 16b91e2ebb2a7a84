"""Sections that the pages of one run and of two have in common; each page says in its own words what is drawn there."""

from lathe.reports.markup import Markup, element
from lathe.reports.page import figure, section


def zoom_buttons(whole: str) -> list[Markup]:
    """Buttons to zoom a timeline; ``whole`` names the one that shows all of it."""
    named = (("all", whole), ("in", "Zoom in"), ("out", "Zoom out"))
    return [element("button", text, type="button", data_zoom=how) for how, text in named]


def selected(hint: str) -> Markup:
    """Where what is known of something clicked stands; before, the hint."""
    told = element("div", element("p", hint, class_="note"), id="selected")
    return element("section", element("h2", "Selected"), told, id="selected-part")


def cycles_by_cause(note: str) -> Markup:
    """Where cycles of a unit went, which a reader chooses."""
    names = (element("option", name, value=name) for name in ("compute", "load", "store"))
    unit = element("select", *names, id="cycles-unit", aria_label="Unit")
    drawn = figure("cycles", height=180, controls=element("label", "Unit ", unit))
    return section("Where cycles went", drawn, id_="cycles-part", note=note)


def roofline(title: str, note: str) -> Markup:
    """A mark for each layer under its roof."""
    return section(title, figure("roofline", height=440), id_="roofline-part", note=note)


def layer_table(note: str) -> Markup:
    """The table of layers."""
    return section("Layers", element("div", id="layers"), id_="layers-part", note=note)
