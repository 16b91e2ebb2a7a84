"""Pages of `lathe report`: the time to write them, their size, and the time until a browser shows them.

The store has 10,000 synthetic points with 21 layers each (`benchmarks/sweep_stores.py`). A separate process writes a
page, as from the command line. The browser is headless Chromium with software rendering.

    python benchmarks/reports.py [--json]
"""

import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_most, report, seconds
from playwright.sync_api import sync_playwright
from sweep_stores import write_store

POINTS = 10_000
COMMAND = "from lathe.command_line import main; main()"
WRITING = 10.0
"""The target for writing the page of a store, in seconds."""
FIRST = """
window.firstFigure = new Promise((done) => new MutationObserver((_, watcher) => {
  if (!document.querySelector("#front .main-svg")) return;
  watcher.disconnect();
  requestAnimationFrame(() => done(performance.now()));
}).observe(document, { subtree: true, childList: true }));
"""
TOLD = "(all) => document.getElementById('filter-told').textContent.startsWith('10') === all"
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def written(subject: Path, page: Path) -> tuple[float, float]:
    """Seconds from the command to the written page, and CPU-seconds, which are independent of other load."""
    command = [sys.executable, "-c", COMMAND, "report", str(subject), "-o", str(page)]
    runs = 3
    before = _used()
    took = seconds(lambda: subprocess.run(command, check=True, capture_output=True), runs)
    return took, (_used() - before) / (runs + 1)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def looked_at(page: Path) -> tuple[float, float, float]:
    """Seconds until the first figure is drawn, until a filter is applied, and until a clicked point is shown."""
    own = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=own, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.add_init_script(FIRST)
        tab.goto(page.as_uri())
        first = tab.evaluate("firstFigure") / 1000
        tab.wait_for_selector("#parallel .axis-brush")

        def filtered() -> None:
            for text in ("efficiency>0.5", ""):
                tab.fill("#filter", text)
                tab.wait_for_function(TOLD, arg=not text)
                tab.evaluate(FRAMES)

        def picked() -> None:
            for row in (0, 1):
                tab.click(f"#points-table tbody tr >> nth={row}")
                tab.evaluate(FRAMES)

        taken = seconds(filtered, runs=3) / 2, seconds(picked, runs=3) / 2
        browser.close()
    return first, *taken


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, page = Path(folder) / "results.db", Path(folder) / "page.html"
        write_store(store, POINTS)
        took, used = written(store, page)
        first, filtering, picking = looked_at(page)
        report(
            [
                at_most(f"page of a store with {POINTS:,} points", took, "s", WRITING),
                Figure("CPU-seconds of it", round(used, 3), "s"),
                Figure("its size", round(page.stat().st_size / 1e6, 3), "MB"),
                Figure("its first figure", round(first, 3), "s"),
                Figure("a filter, with front and table", round(filtering, 3), "s"),
                Figure("a click, with the point's layers", round(picking, 3), "s"),
            ],
            __doc__.splitlines()[0],
        )


if __name__ == "__main__":
    main()
