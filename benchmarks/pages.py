"""The page of a program of 100,000 instructions: size, time to the first figure, and frame times while zooming.

    python benchmarks/pages.py [--json]

Requires the extra `reports`, playwright and Chromium. The browser renders without a GPU, as in the tests.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, at_most, report
from playwright.sync_api import sync_playwright

import lathe as lt
from lathe.builder import capture_builds
from lathe.networks.digits.network import digits_network
from lathe.reports.comparison_page import pair_page
from lathe.reports.run_model import run_of_results
from lathe.reports.run_page import run_page

IMAGES = 7740  # of one launch of the digits network: a little more than 100,000 instructions
INSTRUCTIONS = 100_000
MEGABYTE = 1e6
TURNS, PAUSE = 40, 16  # wheel events, and milliseconds between two
FRAME = 1000 / 60
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
RECORD = """() => {
    window.frames_ = [];
    let last = performance.now();
    const step = () => {
        const now = performance.now();
        frames_.push(now - last);
        last = now;
        window.next_ = requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
}"""
STOP = "() => { cancelAnimationFrame(next_); return frames_.slice(1); }"


class Clock:
    """The CPU time of a page's main thread, which is independent of other load."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        found = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))


def first_picture(browser: Any, path: Path) -> tuple[float, float]:
    """Seconds from navigation start until the timeline is drawn, and the CPU time."""
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    clock = Clock(page)
    page.goto(path.as_uri())
    page.wait_for_function("performance.getEntriesByName('first picture').length")
    taken = clock.seconds()
    milliseconds = page.evaluate("performance.getEntriesByName('first picture')[0].startTime")
    page.close()
    return float(milliseconds) / 1000, taken


def frames_of_zooming(browser: Any, path: Path) -> tuple[list[float], float]:
    """Milliseconds of each frame while zooming in and out with the wheel, and the CPU time of a redraw."""
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.goto(path.as_uri())
    page.wait_for_function("performance.getEntriesByName('first picture').length")
    page.wait_for_timeout(1500)
    page.eval_on_selector("#timeline", "place => place.scrollIntoView()")
    box = page.locator("#timeline .nsewdrag").nth(2).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.evaluate(RECORD)
    for turns, delta in ((3 * TURNS, -80), (3 * TURNS, 80)):
        for _ in range(turns):
            page.mouse.wheel(0, delta)
            page.wait_for_timeout(PAUSE)
    frames = page.evaluate(STOP)
    clock = Clock(page)
    page.wait_for_timeout(500)
    before = clock.seconds()
    page.evaluate("async () => { for (let k = 0; k < 10; k++) await lathe.timeline.show(1e6 * k, 1e6 * (k + 4)); }")
    redraw = (clock.seconds() - before) / 10 * 1000
    page.close()
    return [float(each) for each in frames], redraw


def main() -> None:
    network = digits_network(IMAGES)
    made = []
    with capture_builds(made.append):
        program = lt.build(network.logits, network.tensors, lt.load_config("vta"), constants=network.constants)
    result = lt.simulate(program, timing_only=True)
    alone, with_schedule = (run_of_results("digits", [result], known) for known in ({}, {id(program): made[-1]}))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path, levels, pair = (Path(folder) / name for name in ("page.html", "levels.html", "pair.html"))
        run_page(alone).write(path)
        run_page(with_schedule).write(levels)
        pair_page(alone, alone).write(pair)
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        first, first_taken = sorted(first_picture(browser, path) for _ in range(3))[1]
        frames, redraw = frames_of_zooming(browser, path)
        other = [sorted(first_picture(browser, each) for _ in range(3))[1] for each in (levels, pair)]
        browser.close()
        size, size_levels, size_pair = (each.stat().st_size / MEGABYTE for each in (path, levels, pair))
    frames.sort()
    report(
        [
            at_least("instructions", len(program.instructions), "", INSTRUCTIONS),
            at_most("size of the page", size, "MB", 10),
            at_most("first picture", first, "s", 2),
            Figure("processor time until it", round(first_taken, 2), "s"),
            Figure("frames while zooming", len(frames), "frames"),
            at_most("median frame", frames[len(frames) // 2], "ms", 1.2 * FRAME),
            at_most("95 % of the frames", frames[int(0.95 * len(frames))], "ms", 3 * FRAME),
            Figure("longest frame", round(frames[-1], 1), "ms"),
            Figure("processor time of a redraw", round(redraw, 1), "ms"),
            at_most("size of the page with its schedule", size_levels, "MB", 10),
            at_most("first picture of that", other[0][0], "s", 2),
            Figure("processor time until it", round(other[0][1], 2), "s"),
            at_most("size of the page of two of them", size_pair, "MB", 10),
            Figure("first picture of two", round(other[1][0], 2), "s"),
            Figure("processor time until it", round(other[1][1], 2), "s"),
        ],
        "The page of a program of 100,000 instructions.",
    )


if __name__ == "__main__":
    main()
