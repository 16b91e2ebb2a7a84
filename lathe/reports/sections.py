"""Sections shared by the pages of one run and of two runs; each page passes its explanatory notes."""

from lathe.reports.markup import Markup, element
from lathe.reports.page import figure, section


def zoom_buttons(whole: str) -> list[Markup]:
    """Buttons to zoom a timeline; ``whole`` is the label of the one that resets the zoom."""
    named = (("all", whole), ("in", "Zoom in"), ("out", "Zoom out"))
    return [element("button", text, type="button", data_zoom=how) for how, text in named]


def selected(hint: str) -> Markup:
    """The section for details of the selected item, with a hint until one is selected."""
    told = element("div", element("p", hint, class_="note"), id="selected")
    return element("section", element("h2", "Selected"), told, id="selected-part")


def cycles_by_cause(note: str) -> Markup:
    """The figure of cycles by layer and cause, for a unit that the reader chooses."""
    names = (element("option", name, value=name) for name in ("compute", "load", "store"))
    unit = element("select", *names, id="cycles-unit", aria_label="Unit")
    drawn = figure("cycles", height=180, controls=element("label", "Unit ", unit))
    return section("Where cycles went", drawn, id_="cycles-part", note=note)


def roofline(title: str, note: str) -> Markup:
    """The roofline figure."""
    return section(title, figure("roofline", height=440), id_="roofline-part", note=note)


def layer_table(note: str) -> Markup:
    """The table of layers."""
    return section("Layers", element("div", id="layers"), id_="layers-part", note=note)
