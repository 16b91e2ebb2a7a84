"""The page of a run: what it took, when each unit did what, where cycles went, and what bounds each layer."""

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
    """The page of a run, all of whose results have traces."""
    many = len(run.streams)
    told = f"on {run.config.name}" + (f", {many} launches one after the other" if many > 1 else "")
    sections = [_summary(run)]
    if run.streams:
        sections += [
            *explorer_section(run),
            _timeline(),
            selected("Click an instruction, a layer or a statement; what is known of it is shown here."),
            _cycles(),
            _roofline(),
        ]
    sections += [_layers()]
    if run.streams:
        sections += [_segments(run), _instructions()]
    return Page(run.name, told, sections, {"run": run_data(run), **levels_data(run)}, SCRIPTS)


def _summary(run: Run) -> Markup:
    rows: list[tuple[str, object]] = [("machine", run.config.name)]
    rows += [(each.name, each.text) for each in totals(run)]
    hosts = sum(each.where == "host" for each in run.layers)
    own = grouped(len(run.layers) - hosts)
    rows.append(("layers", f"{own}, and {hosts} nodes on the host" if hosts else own))
    return section("Summary", facts(rows), id_="summary")


def _timeline() -> Markup:
    zoom = zoom_buttons("Whole run")
    layers = element("select", element("option", "Go to layer …", value=""), id="go-to-layer", aria_label="Go to layer")
    note = (
        "What each unit does in each cycle, and why it waits. From afar each column shows shares of its cycles; near, "
        "each box is an instruction: click one, and dotted lines are its tokens. Drag to zoom, turn the wheel over the "
        "figure, or use buttons. Below: tokens that wait in each queue, the share of each scratchpad that holds values "
        "still to be read, and bytes that units take from DRAM and give to it (through FIFOs, so for a while more than "
        "the bus carries)."
    )
    drawn = figure("timeline", height=540, controls=joined(*zoom, layers))
    return section("Timeline", drawn, id_="timeline-part", note=note)


def _cycles() -> Markup:
    note = (
        "For each layer the cycles in which the unit was busy with its instructions, and those in which it waited on "
        "their behalf, by cause: for an instruction (empty), a token, the memory, or the end of what runs (drain)."
    )
    return cycles_by_cause(note)


def _roofline() -> Markup:
    note = (
        "Full marks: multiply-accumulates in a cycle that each layer reached, against those for each byte of DRAM that "
        "its instructions move. Open marks: the most that it could reach alone, by its bound. The roof is the bus on "
        "the left, the multipliers on the right. Layers without products or bytes are in the table only; loads that "
        "come while another layer runs let a layer do better than alone."
    )
    return roofline("Roofline", note)


def _layers() -> Markup:
    note = (
        "Cycles of all layers add up to the run's. bound: what a layer takes at least, alone; compute: steps of its "
        "instructions in the compute unit; memory: the cycles of its bytes on the bus. Click a row."
    )
    return layer_table(note)


def _segments(run: Run) -> Markup:
    rows = []
    for number, stream in enumerate(run.streams):
        for each in stream.result.program.segments:
            cells = [f"{number}"] if len(run.streams) > 1 else []
            rows.append([*cells, each.name, each.role, f"{each.address:#x}", grouped(each.nbytes)])
    names = (["launch"] if len(run.streams) > 1 else []) + ["segment", "role", "address", "bytes"]
    return section("DRAM", plain_table(names, rows), id_="dram-part", note="What lies where in the memory outside.")


def plain_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table of texts; the last column are numbers."""
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
    note = "All instructions in their order; those of a layer or a statement when one is selected. Click a row."
    listed = element("div", id="instructions", class_="scroll")
    return section("Instructions", bar, listed, id_="instructions-part", note=note)
