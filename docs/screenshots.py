"""Draws the pictures of docs/reports.md anew: ``python docs/screenshots.py`` (extra ``test``, Pillow, Chromium).

Whoever changes how pages look runs this, and looks at the pictures before they are kept.
"""

import shutil
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import sync_playwright

from lathe.command_line import main as lathe
from lathe.networks.digits import network

PICTURES = Path(__file__).parent / "pictures"
MODEL = Path(network.__file__).parent / "digits.onnx"
LAPTOP, TALL, PHONE = (1366, 768), (1366, 1290), (390, 844)
COLOURS = 128
"""Of a picture, which is enough for pages and keeps files small."""
SCRIPT = Path(__file__).parents[1] / "examples" / "tail.py"
SWEEP = f"""
machine:
  memory.latency: [0, 32, 128]
  batch: [1, 2]
  memory.bus_bits: [64, 128]
workloads:
  - matmul: {{m: [16, 64], n: 64, k: 64}}
  - onnx: {{path: {MODEL}}}
"""


def pages(folder: Path) -> dict[str, Path]:
    """The pages that are shown, by name."""

    def ran(*words: object) -> None:
        done = CliRunner().invoke(lathe, [str(word) for word in words], catch_exceptions=False)
        assert done.exit_code == 0, done.output

    shutil.copy(SCRIPT, folder / "first.py")
    (folder / "sweep.yaml").write_text(SWEEP)
    for config in ("vta", "wide"):
        ran("compile", "-c", config, "-o", folder / f"{config}.npz")
    ran("sweep", folder / "sweep.yaml", "-o", folder / "results.db")
    made = {
        "script": ["first.py"],
        "run": ["vta.npz"],
        "pair": ["vta.npz", "wide.npz"],
        "sweep": ["results.db"],
    }
    for name, subjects in made.items():
        ran("report", *(folder / each for each in subjects), "-o", folder / f"{name}.html")
    ran("report", MODEL, "-c", "lathe16", "-o", folder / "network.html")
    return {name: folder / f"{name}.html" for name in (*made, "network")}


def picked_statement(page: Any) -> None:
    page.wait_for_selector(".level[data-level=instructions] .line")
    page.click(".level[data-level=algorithm] .line:has-text('compute C')")


def picked_layer(page: Any) -> None:
    page.evaluate("lathe.paired")
    page.click("#layers tbody tr:nth-child(2)")


def picked_point(page: Any) -> None:
    page.check("#front-x-log")
    page.check("#front-y-log")
    page.locator("#points-table tbody tr").first.click()


def nothing(page: Any) -> None:
    page.wait_for_selector(".main-svg")


SHOWN: dict[str, tuple[str, tuple[int, int], str, str, Callable[[Any], None]]] = {
    "explorer-light": ("script", LAPTOP, "light", "schedule-part", picked_statement),
    "timeline-light": ("run", LAPTOP, "light", "timeline-part", nothing),
    "network-phone-dark": ("network", PHONE, "dark", "timeline", nothing),
    "pair-light": ("pair", TALL, "light", "timeline-part", picked_layer),
    "pair-phone-dark": ("pair", PHONE, "dark", "selected-part", picked_layer),
    "roofline-dark": ("network", LAPTOP, "dark", "roofline-part", nothing),
    "report-sweep-laptop": ("sweep", TALL, "light", "front-part", picked_point),
    "report-sweep-phone": ("sweep", PHONE, "dark", "front-part", picked_point),
}
"""By the name of a picture: its page, the size of the screen, its scheme, the place at its top, and what is done."""


def main() -> None:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as started:
        found = pages(Path(name))
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture, (kind, (width, height), scheme, place, prepare) in SHOWN.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(found[kind].as_uri())
            prepare(page)
            page.mouse.move(0, 0)
            page.wait_for_timeout(2000)  # until all figures are drawn, and nothing moves any more
            page.evaluate("(id) => document.getElementById(id).scrollIntoView()", place)
            page.wait_for_timeout(500)
            taken = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS)
            taken.save(PICTURES / f"{picture}.png", optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
