"""The page that compares two runs: totals, timelines, cycles and rooflines on the same axes, and layer differences."""

from collections.abc import Mapping, Sequence

from lathe.configs.parameter_listing import given_values
from lathe.reports.markup import Markup, element, joined
from lathe.reports.match_layers import LayerPair, paired_layers
from lathe.reports.page import Page, figure, section
from lathe.reports.run_data import run_data
from lathe.reports.run_model import Run
from lathe.reports.run_summary import Total, percent, totals
from lathe.reports.sections import cycles_by_cause, layer_table, roofline, selected, zoom_buttons

SCRIPTS = ("table.js", "run.js", "lod.js", "timeline.js", "roofline.js", "pair.js", "pair_layers.js")
NO_NUMBER = "–"


def pair_page(first: Run, second: Run) -> Page:
    """The page that compares two runs, A and B, on equal or different machines; all results must have traces.

    Layers are matched by name. Raises ReportError if the runs have no layer in common.
    """
    pairs = paired_layers(first, second)
    subtitle = f"A on {first.config.name}, B on {second.config.name}"
    ran = bool(first.streams and second.streams)
    sections = [_summary(first, second), _machines(first, second)]
    if ran:
        sections += [
            _timelines(first, second),
            selected("Click an instruction or a layer to see its details in both runs here."),
            _cycles(),
            _roofline(),
        ]
    sections += [_layers()]
    data = {"a": run_data(first), "b": run_data(second), "pair": _plain(first, second, pairs)}
    return Page(f"{first.name} and {second.name}", subtitle, sections, data, SCRIPTS)


def _plain(first: Run, second: Run, pairs: Sequence[LayerPair]) -> dict[str, object]:
    return {"names": [first.name, second.name], "layers": [[each.name, each.first, each.second] for each in pairs]}


def _summary(first: Run, second: Run) -> Markup:
    rows = [["", f"A: {first.name}", f"B: {second.name}", "B − A", "B / A"]]
    rows.append(["machine", first.config.name, second.config.name, "", ""])
    known = {each.name: each for each in totals(second)}
    for own in totals(first):
        if own.name in known:
            rows.append([own.name, *_compared(own, known[own.name])])
    layers = [sum(each.where == "npu" for each in run.layers) for run in (first, second)]
    rows.append(["layers", *_compared(Total("layers", layers[0]), Total("layers", layers[1]))])
    hosts = [len(run.layers) - own for run, own in zip((first, second), layers, strict=True)]
    if any(hosts):
        rows.append(["nodes on the host CPU", *_compared(Total("hosts", hosts[0]), Total("hosts", hosts[1]))])
    return section("Summary", _table("Summary", rows), id_="summary")


def _compared(first: Total, second: Total) -> list[str]:
    """Two numbers, their difference, and the ratio of the second to the first."""
    difference = second.value - first.value
    written = f"{100 * difference:+.1f}\u202fpoints" if first.written is percent else f"{difference:+,}"
    ratio = f"{second.value / first.value:.3f}" if first.value else NO_NUMBER
    if not difference:
        written = "0"
    return [first.text, second.text, written.replace(",", "\u202f").replace("-", "−"), ratio]


def _machines(first: Run, second: Run) -> Markup:
    values = [_parameters(run) for run in (first, second)]
    names = dict.fromkeys([*values[0], *values[1]])
    differing = [name for name in names if values[0].get(name) != values[1].get(name)]
    if not differing:
        return section("Machines", element("p", "Both ran on the same machine."), id_="machines-part")
    rows = [["parameter", "A", "B"], *([name, *(each.get(name, NO_NUMBER) for each in values)] for name in differing)]
    note = "Parameters that differ between the machines; cycles are clock cycles of the respective machine."
    return section("Machines", _table("Machines", rows), id_="machines-part", note=note)


def _parameters(run: Run) -> Mapping[str, str]:
    given = given_values(run.config)
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name, value in given.items()
        if name != "name"
    }


def _table(name: str, rows: Sequence[Sequence[str]]) -> Markup:
    """A table with a header row and a column of names. Lists wrap, numbers do not."""
    head = element("tr", *(element("th", cell, class_="number" if at else None) for at, cell in enumerate(rows[0])))
    body = [
        element("tr", element("th", name, scope="row"), *(element("td", cell, class_=_kind(cell)) for cell in cells))
        for name, *cells in rows[1:]
    ]
    table = element("table", element("thead", head), element("tbody", *body), class_="pairs", aria_label=name)
    return element("div", table, class_="scroll")


def _kind(cell: str) -> str:
    return "number wrap" if ", " in cell else "number"


def _timelines(first: Run, second: Run) -> Markup:
    zoom = zoom_buttons("Whole runs")
    note = (
        "Both timelines have the same axes, and zoom together. Each row is a unit; below are tokens in queues, the "
        "share of each scratchpad that is in use, and bytes that units read from DRAM and write to it. Zoomed in, "
        "each box is an instruction: click one."
    )
    drawn = [
        figure(name, height=460, controls=joined(element("strong", f"{mark}: {run.name}"), *zoom))
        for name, mark, run in (("timeline-a", "A", first), ("timeline-b", "B", second))
    ]
    return section("Timelines", *drawn, id_="timeline-part", note=note)


def _cycles() -> Markup:
    note = (
        "For each layer two bars, A above B: the cycles in which the unit was busy with its instructions, and those "
        "for which it stalled before or in them, by cause."
    )
    return cycles_by_cause(note)


def _roofline() -> Markup:
    note = (
        "Filled marks: MACs per cycle that each layer achieved, over MACs per byte of DRAM traffic of its "
        "instructions. Open marks: the maximum by its lower bound on cycles. Dotted lines join a layer of A with the "
        "same layer of B."
    )
    return roofline("Rooflines", note)


def _layers() -> Markup:
    note = (
        "Layers by name; the cycles of all layers add up to the run's. B − A is negative if B takes less. bound: a "
        "lower bound on the cycles of the layer alone. Click a row, or a column's header to sort by it."
    )
    return layer_table(note)
