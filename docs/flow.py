"""The picture of the front page and the README: the way of a program, and where the cycles of one went.

    python docs/flow.py

draws it anew, as ``docs/pictures/flow.svg``. A test compares it. It shows the first program of
``docs/getting-started.md``, as it is scheduled by hand there, on `vta`.
"""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

import lathe as lt

DOCS = Path(__file__).parent
PICTURE = DOCS / "pictures" / "flow.svg"
WIDTH, HEIGHT = 880, 372
LEFT, RIGHT = 76, 864
"""Where time begins and ends."""
LANES = {"load": (0, 222), "compute": (1, 256), "store": (2, 290)}
"""Units by their number in a trace, and how far down their lanes are."""
KINDS = {"Load": "load", "Gemm": "gemm", "Alu": "alu", "Store": "store"}
STYLE = """
.ground { fill: #ffffff; }
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 11.5px; fill: #59636e; }
.title { font-weight: 600; }
.box { fill: #f6f8fa; stroke: #59636e; }
.arrow { stroke: #59636e; stroke-width: 1.5; fill: none; marker-end: url(#head); }
.head { fill: #59636e; }
.lane { fill: #eff2f5; }
.line { stroke: #59636e; }
.load { fill: #2f81c8; } .gemm { fill: #d9822b; } .reset { fill: #e8c33c; }
.alu { fill: #8a56b5; } .store { fill: #3a9657; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; }
text { fill: #e6edf3; } .small { fill: #9aa4af; }
.box { fill: #1b2129; stroke: #9aa4af; } .arrow, .line { stroke: #9aa4af; } .head { fill: #9aa4af; }
.lane { fill: #1b2129; }
}
"""
BOXES = (
    (16, "Program", ("tensor expressions,", "or a model of ONNX")),
    (190, "Schedule", ("order and memories,", "each command checked")),
    (364, "Chunks", ("no conditions left:", "tails, padding apart")),
    (538, "Instructions", ("of a VTA-like NPU,", "and tokens")),
)


def shown_result() -> Any:
    """What the program of the page returns when its schedule by hand is simulated."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "getting-started.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            for block in blocks:
                exec(block, names)
        finally:
            os.chdir(before)
    assert np.array_equal(names["by_hand"].outputs["D"], lt.reference(names["D"], names["inputs"]))
    return names["by_hand"]


def counted(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}".replace(",", " ")


def text(parent: Element, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
    """Words at a place."""
    at = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": anchor} | ({"class": kind} if kind else {})
    SubElement(parent, "text", at).text = words


def box(parent: Element, x: float, y: float, title: str, lines: tuple[str, ...], height: float) -> None:
    """A box with a title and a few words."""
    at = {"x": f"{x:g}", "y": f"{y:g}", "width": "150", "height": f"{height:g}", "rx": "6", "class": "box"}
    SubElement(parent, "rect", at)
    text(parent, x + 75, y + 20, title, "title", "middle")
    for number, line in enumerate(lines):
        text(parent, x + 75, y + 38 + 15 * number, line, "small", "middle")


def arrow(parent: Element, path: str) -> None:
    """An arrow along a path."""
    SubElement(parent, "path", {"d": path, "class": "arrow"})


def draw_route(svg: Element) -> None:
    """The upper half: from a program to what runs it."""
    for x, title, lines in BOXES:
        box(svg, x, 62, title, lines, 62)
        if x > 16:
            arrow(svg, f"M{x - 24} 93H{x - 3}")
    box(svg, 714, 14, "Simulator", ("every cycle",), 46)
    box(svg, 714, 70, "RTL", ("Amaranth, Verilog",), 46)
    box(svg, 714, 126, "NumPy", ("what is meant",), 46)
    for y in (37, 93):
        arrow(svg, f"M688 93L711 {y}")
    arrow(svg, "M91 124V149H711")
    text(svg, 400, 168, "all three agree in every bit, simulator and RTL in every cycle", "small", "middle")


def draw_cycles(svg: Element, result: Any) -> None:
    """The lower half: when each unit was busy, and with what."""
    trace = result.trace
    scale = (RIGHT - LEFT) / result.cycles
    for name, (unit, y) in LANES.items():
        text(svg, LEFT - 8, y + 17, name, "", "end")
        SubElement(
            svg, "rect", {"x": str(LEFT), "y": str(y), "width": str(RIGHT - LEFT), "height": "26", "class": "lane"}
        )
        for entry in np.flatnonzero(trace.unit == unit):
            instruction = trace.stream[int(trace.instruction[entry])]
            kind = "reset" if getattr(instruction, "reset", False) else KINDS.get(type(instruction).__name__, "")
            start, end = int(trace.start[entry]), int(trace.end[entry])
            if not kind:
                continue
            at = {
                "x": f"{LEFT + start * scale:.1f}",
                "y": str(y),
                "width": f"{max(0.6, (end - start) * scale):.1f}",
                "height": "26",
            }
            SubElement(svg, "rect", at | {"class": kind})
    SubElement(svg, "path", {"d": f"M{LEFT} 322H{RIGHT}", "class": "line"})
    for cycle in range(0, result.cycles, 500):
        x = LEFT + cycle * scale
        SubElement(svg, "path", {"d": f"M{x:.1f} 322v5", "class": "line"})
        text(svg, x, 340, counted(cycle), "small", "middle")
    text(svg, RIGHT, 362, "cycles", "small", "end")
    x = LEFT
    for kind, words in {
        "load": "LOAD",
        "gemm": "GEMM",
        "reset": "GEMM that sets zeros",
        "alu": "ALU",
        "store": "STORE",
    }.items():
        SubElement(svg, "rect", {"x": str(x), "y": "352", "width": "12", "height": "12", "class": kind})
        text(svg, x + 17, 362, words, "small")
        x += 32 + 7 * len(words)


def picture() -> str:
    """The picture, as SVG that is readable on light and on dark ground."""
    result = shown_result()
    svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"})
    SubElement(svg, "title").text = (
        "A program becomes a schedule, chunks and instructions, which the simulator and the RTL run; below, when the "
        "units of the machine were busy with the first program"
    )
    SubElement(svg, "style").text = STYLE
    # A ground of its own: a page may be dark where the reader's system is not.
    SubElement(svg, "rect", {"width": str(WIDTH), "height": str(HEIGHT), "rx": "8", "class": "ground"})
    marker = {"id": "head", "markerWidth": "7", "markerHeight": "7", "refX": "6", "refY": "3.5", "orient": "auto"}
    SubElement(SubElement(SubElement(svg, "defs"), "marker", marker), "path", {"d": "M0 0L7 3.5L0 7z", "class": "head"})
    draw_route(svg)
    text(svg, 16, 206, f"The first program on vta: {counted(result.cycles)} cycles", "title")
    draw_cycles(svg, result)
    indent(svg)
    return tostring(svg, encoding="unicode") + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
