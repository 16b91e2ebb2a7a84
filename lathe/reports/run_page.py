"""The page of a run: totals, the timeline of units, the attribution of cycles, and a roofline of layers."""

from collections.abc import Sequence

from lathe.reports.explorer import explorer_section, levels_data
from lathe.reports.markup import Markup, element, joined
from lathe.reports.page import Page, facts, figure, section
from lathe.reports.run_data import run_data
from lathe.reports.run_model import Run
from lathe.reports.run_summary import grouped, totals
from lathe.reports.sections import cycles_by_cause, layer_table, roofline, selected, zoom_buttons

SCRIPTS = (
    "table.js", "run.js", "lod.js", "timeline.js", "picture.js", "roofline.js", "layers.js", "explorer.js",
    "instructions.js",
)  # fmt: skip


def run_page(run: Run) -> Page:
    """The page of a run; all of its results must have traces."""
    many = len(run.streams)
    subtitle = f"on {run.config.name}" + (f", {many} consecutive launches" if many > 1 else "")
    sections = [_summary(run)]
    if run.streams:
        sections += [
            *explorer_section(run),
            _timeline(),
            selected("Click an instruction, a layer or a statement to see its details here."),
            _cycles(),
            _roofline(),
        ]
    sections += [_layers()]
    if run.streams:
        sections += [_segments(run), _instructions()]
    return Page(run.name, subtitle, sections, {"run": run_data(run), **levels_data(run)}, SCRIPTS)


def _summary(run: Run) -> Markup:
    rows: list[tuple[str, object]] = [("machine", run.config.name)]
    rows += [(each.name, each.text) for each in totals(run)]
    hosts = sum(each.where == "host" for each in run.layers)
    own = grouped(len(run.layers) - hosts)
    rows.append(("layers", f"{own}, and {hosts} nodes on the host CPU" if hosts else own))
    return section("Summary", facts(rows), id_="summary")


def _timeline() -> Markup:
    zoom = zoom_buttons("Whole run")
    layers = element("select", element("option", "Go to layer …", value=""), id="go-to-layer", aria_label="Go to layer")
    note = (
        "The activity of each unit in each cycle, and why it stalls. Zoomed out, each column shows shares of its "
        "cycles; zoomed in, each box is an instruction: click one to see its tokens as dotted lines. Zoom by "
        "dragging, with the wheel, or with the buttons. Below: tokens in each queue, the share of each scratchpad "
        "that is live, and bytes that units read from DRAM and write to it (through FIFOs, so bursts may exceed the "
        "bandwidth of the bus)."
    )
    drawn = figure("timeline", height=540, controls=joined(*zoom, layers))
    return section("Timeline", drawn, id_="timeline-part", note=note)


def _cycles() -> Markup:
    note = (
        "For each layer the cycles in which the unit was busy with its instructions, and those for which it stalled "
        "before or in them, by cause: an instruction (empty), a token, the memory, or the end of running instructions "
        "(drain)."
    )
    return cycles_by_cause(note)


def _roofline() -> Markup:
    note = (
        "Filled marks: MACs per cycle that each layer achieved, over MACs per byte of DRAM traffic of its "
        "instructions. Open marks: the maximum for the layer alone, by its lower bound on cycles. The roof is the bus "
        "on the left, the multipliers on the right. Layers without MACs or bytes are in the table only. A layer whose "
        "loads overlap with another layer may exceed its maximum."
    )
    return roofline("Roofline", note)


def _layers() -> Markup:
    note = (
        "The cycles of all layers add up to the run's. bound: a lower bound on the cycles of the layer alone; compute: "
        "issue cycles of its instructions in the compute unit; memory: cycles of its bytes on the bus. Click a row."
    )
    return layer_table(note)


def _segments(run: Run) -> Markup:
    rows = []
    for number, stream in enumerate(run.streams):
        for each in stream.result.program.segments:
            cells = [f"{number}"] if len(run.streams) > 1 else []
            rows.append([*cells, each.name, each.role, f"{each.address:#x}", grouped(each.nbytes)])
    names = (["launch"] if len(run.streams) > 1 else []) + ["segment", "role", "address", "bytes"]
    return section("DRAM", plain_table(names, rows), id_="dram-part", note="The segments of the program in DRAM.")


def plain_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table of texts whose last column is numeric."""
    kinds = [None] * (len(names) - 1) + ["number"]
    head = element("tr", *(element("th", name, class_=kind) for name, kind in zip(names, kinds, strict=True)))

    def told(row: Sequence[str]) -> Markup:
        return element("tr", *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))

    body = map(told, rows)
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="scroll")


def _instructions() -> Markup:
    words = "Find in the assembly text"
    find = element("input", type="search", id="find-instruction", placeholder=words, aria_label=words)
    pages = [element("button", text, type="button", data_page=how) for how, text in (("-1", "Earlier"), ("1", "Later"))]
    clear = element("button", "Show all", type="button", id="all-instructions")
    told = element("span", id="instructions-told", class_="told")
    bar = element("div", find, clear, *pages, told, class_="bar")
    note = "All instructions in order, or those of the selected layer or statement. Click a row."
    listed = element("div", id="instructions", class_="scroll")
    return section("Instructions", bar, listed, id_="instructions-part", note=note)
