"""The page of a sweep in a browser: fronts, ranges, sorting and filtering, points with their layers, side by side."""

import re
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from lathe.command_line import main
from lathe.reports.sweep_page import sweep_page
from lathe.sweeps.store import StoredRow, writing_store

pytestmark = pytest.mark.slow  # a browser starts

HOSTILE = "</script><img src=x onerror=alert(1)>"


def stored(place, latency, batch, cycles, energy, workload="onnx", **more):
    shape = {"path": "net.onnx"} if workload == "onnx" else {"m": 16}
    layers = {
        "layer": ["first", HOSTILE], "cycles": [cycles - 10, 10], "bytes": [64, 32], "bound": [5, 3], "macs": [40, 20],
    }  # fmt: skip
    columns = {
        "workload": workload, **shape, "base": "vta", "memory.latency": latency, "batch": batch, "status": "ok",
        "cycles": cycles, "efficiency": round(30 / cycles, 6), "energy_pj": energy, "reason": "", **more,
    }  # fmt: skip
    return StoredRow(f"p{place}", place, "sources", columns["status"], 0.5, columns, layers)


ROWS = [
    stored(0, 0, 1, 100, 9.5),
    stored(1, 0, 2, 90, 12.5),
    stored(2, 32, 1, 120, 9.0),
    stored(3, 32, 2, 130, 20.0),  # dominated
    stored(4, 0, 1, 40, 3.0, workload="matmul"),
    stored(5, 64, 1, 60, 3.5, workload="matmul"),  # dominated by the previous one
]
LOST = StoredRow(
    "p6", 6, "sources", "unmappable", 0.1,
    {"workload": HOSTILE, "base": "vta", "memory.latency": 64, "batch": 4, "status": "unmappable", "reason": HOSTILE},
)  # fmt: skip


def write(path, rows=(*ROWS, LOST)):
    with writing_store(path) as store:
        for row in rows:
            store.write(row)


@pytest.fixture
def page(tmp_path, open_page):
    write(tmp_path / "r.db")
    done = CliRunner().invoke(main, ["report", str(tmp_path / "r.db"), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    opened = open_page(tmp_path / "page.html")
    opened.wait_for_selector("#front .main-svg")
    return opened


def best_of(page):
    """The indices of the points on the fronts in the figure."""
    return page.evaluate("lathe.sweep.then((sweep) => [...sweep.front].sort())")


def shown(page):
    return page.locator("#points-table tbody tr").all_inner_texts()


def filtered(page, text, told):
    page.fill("#filter", text)
    page.wait_for_function("(told) => document.getElementById('filter-told').textContent === told", arg=told)


def test_the_front_is_of_each_workload_and_of_the_chosen_metrics(page):
    assert page.input_value("#front-x") == "cycles"
    assert page.input_value("#front-y") == "energy_pj"
    assert best_of(page) == [0, 1, 2, 4]
    assert page.inner_text("#front-told") == "4 of 6 points are on the Pareto front of their workload."
    page.select_option("#front-y", "efficiency")
    assert page.input_value("#front-y-best") == "great"
    assert best_of(page) == [1, 4]
    page.select_option("#front-y-best", "small")
    assert best_of(page) == [0, 1, 2, 3, 4, 5]


def test_axes_say_what_and_in_which_unit_and_the_legend_names_workloads(page):
    titles = page.locator("#front .xtitle, #front .ytitle").all_text_contents()
    assert titles == ["cycles", "energy_pj [pJ]"]
    legend = page.locator("#front-part .legend button").all_inner_texts()
    assert legend == ["onnx, path net.onnx", "matmul, m 16"]
    names = page.locator("#parallel .axis-title").all_text_contents()
    assert names == ["workload", "path", "m", "memory.latency", "batch", "cycles", "efficiency", "energy_pj"]


def test_logarithmic_axes_have_ticks_within_a_decade_also_for_great_numbers(tmp_path, open_page):
    write(tmp_path / "r.db", [stored(at, at, 1, 1000 * at + 500, 0.9e6 + 1.6e6 * at) for at in range(8)])
    assert (
        CliRunner().invoke(main, ["report", str(tmp_path / "r.db"), "-o", str(tmp_path / "page.html")]).exit_code == 0
    )
    page = open_page(tmp_path / "page.html")
    page.wait_for_selector("#front .main-svg")
    page.check("#front-x-log")
    page.check("#front-y-log")
    ticks = "[...document.querySelectorAll('#front .{}tick text')].map((each) => each.dataset.unformatted)"
    up = ["10<sup>6</sup>", "2×10<sup>6</sup>", "5×10<sup>6</sup>", "10<sup>7</sup>"]
    page.wait_for_function(f"({ticks.format('y')}).includes('{up[-1]}')")
    assert [each for each in page.evaluate(ticks.format("y")) if each] == up
    assert {"500", "1\u202f000", "2\u202f000"} <= {*page.evaluate(ticks.format("x"))}


def test_no_figure_offers_to_be_sent_anywhere(page):
    buttons = page.locator(".modebar-btn")
    found = buttons.evaluate_all("(all) => all.map((each) => each.dataset.title)")
    assert found == ["Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]


def test_a_click_on_a_point_shows_its_configuration_and_its_layers(page):
    box = page.locator("#front .scatterlayer .trace path.point").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#layers-table tbody tr")
    first = page.evaluate("lathe.sweep.then((sweep) => sweep.selection.first)")
    assert first == 3  # of the first workload the only point that is not on the front
    config = page.locator("#points table").nth(1).inner_text()
    assert re.search(r"batch\s*swept\s+2\n", config)
    assert re.search(r"memory\.latency\s*swept\s+32\n", config)
    assert re.search(r"wgt_buffer_bytes\s+262.144\n", config)
    layers = page.locator("#layers-table tbody tr").all_inner_texts()
    assert [line.split("\t") for line in layers] == [
        ["first", "120", "5", "40", "64", "92.3\u202f%"],
        [HOSTILE, "10", "3", "20", "32", "7.7\u202f%"],
    ]


def test_controls_for_selected_points_require_a_selection(page):
    assert [page.is_visible(f"#{name}") for name in ("compare", "swap", "alone")] == [False] * 3
    page.locator("#points-table tbody tr").first.click()
    assert [page.is_visible(f"#{name}") for name in ("compare", "swap", "alone")] == [True, False, False]


def light_of(colour):
    """The relative luminance of a colour such as "#1f8f80", as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_lines_of_all_colours_can_be_seen_in_light_and_dark(page):
    scale = "document.getElementById('parallel').data?.[0].line.colorscale.map(([, colour]) => colour)"
    for scheme, back in (("light", "#ffffff"), ("dark", "#14181d")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"getComputedStyle(document.documentElement).getPropertyValue('--back') === '{back}'")
        page.wait_for_function(f"({scale})?.[0] === '{'#440154' if scheme == 'light' else '#fde725'}'")
        for colour in page.evaluate(scale):
            low, high = sorted((light_of(colour), light_of(back)))
            assert (high + 0.05) / (low + 0.05) >= 3


def test_two_points_stand_side_by_side(page):
    page.click("#points-table tbody tr >> nth=0")
    page.click("#compare")
    page.click("#points-table tbody tr >> nth=1")
    numbers = page.locator("#points table").nth(2).inner_text().split("\n")
    assert [line.split("\t") for line in numbers[:2]] == [
        ["Number", "A", "B", "B / A"],
        ["cycles", "100", "90", "0.900"],
    ]
    assert page.locator("#layers-table tbody tr").first.inner_text().split("\t") == [
        "first", "90", "5", "40", "64", "90.0\u202f%", "80", "5", "40", "64", "88.9\u202f%", "0.889",
    ]  # fmt: skip
    assert page.locator("#points tr.differs th[scope=row]").all_inner_texts()[:2] == ["batch swept", "cycles"]
    page.click("#swap")
    assert page.locator("#points table").nth(2).inner_text().split("\n")[1] == "cycles\t90\t100\t1.111"
    page.click("#alone")
    assert page.locator("#points h3").count() == 1


def test_the_table_is_sorted_by_a_click(page):
    head = page.locator("#points-table th button", has_text="cycles").nth(1)  # after memory.latency [cycles]
    head.click()
    assert [line.split("\t")[6] for line in shown(page)] == ["130", "120", "100", "90", "60", "40", ""]
    head.click()
    assert "40" in shown(page)[0] or "40" in shown(page)[1]


def test_words_and_comparisons_filter_figures_and_table(page):
    filtered(page, "cycles<=100 workload=onnx", "2 of 7 points")
    assert len(shown(page)) == 2
    assert best_of(page) == [0, 1]
    filtered(page, 'status="unmappable"', "1 of 7 points")
    assert "unmappable" in shown(page)[0]
    filtered(page, "matmul", "2 of 7 points")
    filtered(page, "energy_pj>=9.5 batch!=1", "2 of 7 points")
    for wrong, told in (
        ("cycle<3", "there is no column cycle"),
        ("cycles<x", "x is not a number"),
        ("cycles<", "cycles< lacks a value"),
    ):
        filtered(page, wrong, told)
    page.click("#filter-clear")
    assert page.inner_text("#filter-told") == "7 of 7 points"


def test_a_range_on_an_axis_filters_too(page):
    page.wait_for_selector("#parallel .axis-brush")
    page.evaluate("Plotly.restyle('parallel', {'dimensions[5].constraintrange': [[85, 105]]})")  # cycles
    page.wait_for_function("document.getElementById('filter-told').textContent === '2 of 7 points'")
    assert best_of(page) == [0, 1]
    page.click("#filter-clear")
    assert best_of(page) == [0, 1, 2, 4]


@pytest.mark.parametrize("name", ["front", "parallel", "layers"])
def test_figures_are_saved_as_svg_and_png(page, name):
    page.locator("#points-table tbody tr").first.click()
    page.wait_for_selector("#parallel .axis-brush")
    for form, begins in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with page.expect_download() as found:
            page.click(f"button.save[data-figure={name}][data-format={form}]")
        assert found.value.suggested_filename == f"{name}.{form}"
        assert Path(found.value.path()).read_bytes().startswith(begins)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_nothing_is_wider_than_the_screen(tmp_path, open_page, width, scheme):
    write(tmp_path / "r.db")
    sweep_page(tmp_path / "r.db").write(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html", width=width, scheme=scheme)
    page.wait_for_selector("#parallel .axis-brush")
    page.click("#points-table tbody tr >> nth=0")
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_hostile_texts_are_texts(page):
    assert page.locator("img").count() == 0
    page.click("#points-table tbody tr >> nth=6")
    assert HOSTILE in page.inner_text("#points")
    assert page.inner_text("#layers-table") == (
        "The layers of this point are not stored: it has no metrics, or was measured by an earlier version of Lathe."
    )


def test_pages_of_stores_without_metrics_or_rows(tmp_path, open_page):
    write(tmp_path / "lost.db", [LOST])
    write(tmp_path / "empty.db", [])
    for name, told in (("lost", "1 points of a sweep, of which 0 have metrics"), ("empty", "0 points of a sweep")):
        sweep_page(tmp_path / f"{name}.db").write(tmp_path / f"{name}.html")
        page = open_page(tmp_path / f"{name}.html")
        assert page.inner_text(".top p").startswith(told)
        assert page.locator("#front").count() == 0
    page = open_page(tmp_path / "lost.html")
    page.click("#points-table tbody tr")
    assert "unmappable" in page.inner_text("#points")


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table rows (a)")
    connection.close()


def newer(path):
    write(path)
    with sqlite3.connect(path) as connection:
        connection.execute("pragma journal_mode = delete")
        connection.execute("pragma user_version = 99")
    connection.close()


def damaged(path):
    write(path, [stored(place, place, 1, 100, 1.0, reason="x" * 300) for place in range(200)])
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xa5" * 4096 * 3
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (foreign, "database of another application (0x0)"),
        (newer, "version is 99"),
        (damaged, "it is damaged"),
    ],
)
def test_other_files_are_refused_and_nothing_is_written(make, told, tmp_path):
    make(tmp_path / "r.db")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = CliRunner().invoke(main, ["report", str(tmp_path / "r.db"), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
