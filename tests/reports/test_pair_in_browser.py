"""The page of two runs in a browser: the same axes, differences in a table, and layers and instructions of both."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from drawn_runs import LAPTOP, PHONE, program_of_script

import lathe as lt
from lathe.command_line import main
from lathe.isa import instruction_text
from lathe.networks.digits.network import digits_network
from lathe.reports.comparison_page import pair_page
from lathe.reports.run_model import Layer, Run, run_of_results

pytestmark = pytest.mark.slow  # a browser starts

HOSTILE = "</script><img src=x onerror=alert(1)>"


def digits_on(config):
    network = digits_network(60)
    program = lt.build(network.logits, network.tensors, lt.load_config(config), constants=network.constants)
    return lt.simulate(program, timing_only=True)


@pytest.fixture(scope="module")
def digits():
    return [digits_on(config) for config in ("vta", "lathe16")]


@pytest.fixture(scope="module")
def digits_page(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs") / "digits.html"
    pair_page(*(run_of_results(name, [each]) for name, each in zip("xy", digits, strict=True))).write(path)
    return path


def drawn(page):
    assert page.evaluate("lathe.paired.then(() => true)")
    return page


def texts(page, selector):
    return [each.strip() for each in page.locator(selector).all_text_contents()]


def number(text):
    return int(text.replace("\u202f", "").replace("−", "-"))


def test_differences_by_layer_are_those_of_the_two_results(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    head = texts(page, "#layers thead th")
    rows = [dict(zip(head, texts(row, "td"), strict=True)) for row in page.locator("#layers tbody tr").all()]
    layers = [{each.name: each for each in run_of_results("r", [result]).layers} for result in digits]
    assert [row["layer"] for row in rows] == list(layers[0])
    for row in rows:
        a, b = (each[row["layer"]] for each in layers)
        assert [number(row[f"cycles {name}"]) for name in ("A", "B", "B − A")] == [
            a.cycles,
            b.cycles,
            b.cycles - a.cycles,
        ]
        assert row["cycles B / A"] == f"{b.cycles / a.cycles:.3f}"
        assert [number(row[f"bytes {name}"]) for name in ("A", "B", "B − A")] == [a.bytes, b.bytes, b.bytes - a.bytes]
    summary = dict(zip(texts(page, "#summary tbody th"), page.locator("#summary tbody tr").all(), strict=True))
    told = texts(summary["cycles"], "td")
    assert [number(each) for each in told[:3]] == [
        digits[0].cycles,
        digits[1].cycles,
        digits[1].cycles - digits[0].cycles,
    ]
    page.click("#layers th:has-text('cycles B − A') button")
    ordered = texts(page, "#layers tbody tr td:first-child")
    assert ordered == sorted(layers[0], key=lambda name: layers[0][name].cycles - layers[1][name].cycles)


def test_details_of_a_layer_in_both_runs_by_unit_and_cause(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    page.click("#layers tr:has-text('conv2.relu')")
    assert texts(page, "#selected h3") == ["conv2.relu"]
    costs = [next(each for each in lt.cycles_by_label(result) if each.label == "conv2.relu") for result in digits]
    found = {
        (texts(row, "th")[0], texts(row, "td")[0]): texts(row, "td")[1:]
        for row in page.locator("[aria-label='Cycles by unit'] tbody tr").all()
    }
    gemm = [each.busy["gemm"] for each in costs]
    assert [number(each) for each in found["compute", "gemm"]] == [*gemm, gemm[1] - gemm[0]]
    waits = [each.reasons["load"].get("memory", 0) for each in costs]
    assert [number(each) for each in found["load", "waits: memory"]] == [*waits, waits[1] - waits[0]]
    for mark in ("a", "b"):
        assert "selected" in texts(page, f"figure:has(#timeline-{mark}) .legend button")


def test_both_timelines_have_the_same_axes_and_move_together(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    layout = "document.getElementById('timeline-{}')._fullLayout"
    axes = ("xaxis", *(f"yaxis{at}" for at in range(2, 8)))

    def ranges():
        return [page.evaluate(f"{list(axes)}.map((name) => {layout.format(mark)}[name].range)") for mark in "ab"]

    first, second = ranges()
    assert first == second
    assert first[0] == [0, max(each.cycles for each in digits)]
    page.click("figure:has(#timeline-b) button[data-zoom=in]")
    page.wait_for_function(f"{layout.format('a')}.xaxis.range[0] > 0 && {layout.format('b')}.xaxis.range[0] > 0")
    page.evaluate("lathe.pair.then(async (pair) => { await pair.show(3000, 3400); })")
    page.wait_for_function(
        f"{layout.format('a')}.xaxis.range[0] === 3000 && {layout.format('b')}.xaxis.range[0] === 3000"
    )
    first, second = ranges()
    assert first == second
    page.locator("#timeline-a").scroll_into_view_if_needed()
    box = page.locator("#timeline-a .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 5)
    page.mouse.wheel(0, 240)
    page.wait_for_function(f"{layout.format('b')}.xaxis.range[0] < 3000")
    page.wait_for_function(
        f"JSON.stringify({layout.format('a')}.xaxis.range) === JSON.stringify({layout.format('b')}.xaxis.range)"
    )


def test_details_of_an_instruction_of_either_run(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    page.evaluate(
        "lathe.pair.then(({ runs }) =>"
        "  runs[1].select({ kind: 'instruction', instruction: 40, marks: (i) => i === 40 }))"
    )
    page.wait_for_selector(".of-instruction")
    told = dict(zip(texts(page, ".of-instruction th"), texts(page, ".of-instruction td"), strict=True))
    assert texts(page, "#selected h3") == ["B: instruction 40"]
    assert told["assembly"] == instruction_text(digits[1].program.instructions[40])


def test_figures_name_axes_units_and_runs(open_page, digits_page):
    page = drawn(open_page(digits_page))
    assert texts(page, "#cycles .xtitle") == ["cycles of compute"]
    assert [*texts(page, "#roofline .xtitle"), *texts(page, "#roofline .ytitle")] == [
        "multiply-accumulates per byte of DRAM",
        "multiply-accumulates per cycle",
    ]
    assert texts(page, "#roofline-part .legend button") == [
        "roof of A",
        "roof of B",
        "A reached",
        "bound of A",
        "B reached",
        "bound of B",
    ]
    ticks = page.locator("#cycles .ytick text").all_text_contents()
    assert [tick[-1] for tick in ticks] == ["A", "B"] * (len(ticks) // 2)
    page.locator("#roofline").scroll_into_view_if_needed()
    page.locator("#roofline .point").last.click(force=True)
    page.wait_for_selector("#selected h3")
    assert texts(page, "#selected h3")[0] in texts(page, "#layers tbody tr td:first-child")
    for name in ("timeline-a", "timeline-b", "cycles", "roofline"):
        for kind, begins in (("svg", b"<svg"), ("png", b"\x89PNG")):
            with page.expect_download() as found:
                page.click(f"button.save[data-figure={name}][data-format={kind}]")
            assert found.value.path().read_bytes().startswith(begins)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_a_page_of_two_runs_fits_the_screen(open_page, digits_page, size):
    page = drawn(open_page(digits_page, *size, "dark"))
    page.focus("#layers tbody tr:nth-child(2)")
    page.keyboard.press("Enter")
    assert texts(page, "#selected h3") == ["conv2.relu"]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    narrow = "Array.from(document.querySelectorAll('table.pairs th[scope=row]')).map((each) => each.clientWidth)"
    assert min(page.evaluate(narrow)) > 80
    wraps = "Array.from(document.querySelectorAll('#summary td'), (each) => getComputedStyle(each).whiteSpace)"
    assert {*page.evaluate(wraps)} == {"nowrap"}


def test_names_of_runs_and_layers_are_text(open_page, digits, tmp_path):
    labels = (HOSTILE, *digits[0].program.labels[1:])
    results = [lt.simulate(replace(each.program, labels=labels), timing_only=True) for each in digits]
    pair_page(*(run_of_results(f"{HOSTILE}{at}", [each]) for at, each in enumerate(results))).write(tmp_path / "p.html")
    page = drawn(open_page(tmp_path / "p.html"))
    assert page.title() == page.locator("h1").inner_text() == f"{HOSTILE}0 and {HOSTILE}1"
    assert texts(page, "#layers tbody tr td:first-child")[0] == HOSTILE
    page.click("#layers tbody tr:first-child")
    assert texts(page, "#selected h3") == [HOSTILE]
    assert page.locator("main img").count() == 0


def test_networks_on_machines_that_compute_other_layers_are_compared(open_page, digits_onnx, tmp_path):
    for name, config in (("a", "lathe16"), ("b", "vta")):
        lt.from_onnx(digits_onnx).build(lt.load_config(config), cache=False).save(tmp_path / f"{name}.npz")
    words = ["report", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "-o", str(tmp_path / "page.html")]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.output) == (0, "")
    page = drawn(open_page(tmp_path / "page.html"))
    head = texts(page, "#layers thead th")
    rows = {
        texts(row, "td")[0]: dict(zip(head, texts(row, "td"), strict=True))
        for row in page.locator("#layers tbody tr").all()
    }
    assert (rows["conv1"]["where A"], rows["conv1"]["where B"]) == ("npu", "host")
    assert rows["conv1"]["cycles B"] == rows["conv1"]["cycles B − A"] == ""
    assert number(rows["pool"]["cycles B − A"]) == number(rows["pool"]["cycles B"]) - number(rows["pool"]["cycles A"])
    page.click("#layers tr:has(td:text-is('conv1'))")
    assert page.locator("#selected .note").inner_text().startswith("B: on the host CPU: ")


def test_runs_on_the_host_cpu_have_a_table_of_nodes(open_page, tmp_path):
    vta = lt.load_config("vta")
    runs = [
        Run(name, vta, (), tuple(Layer(each, "host", "it is computed in float") for each in names))
        for name, names in (("one", ("first", "second")), ("two", ("second", "third")))
    ]
    pair_page(*runs).write(tmp_path / "p.html")
    page = drawn(open_page(tmp_path / "p.html"))
    rows = [texts(row, "td")[:3] for row in page.locator("#layers tbody tr").all()]
    assert rows == [["first", "host", "–"], ["second", "host", "host"], ["third", "–", "host"]]
    page.click("#layers tbody tr:first-child")
    assert page.get_attribute("#layers tbody tr:first-child", "aria-selected") == "true"
    assert page.locator("#timeline-part").count() == 0


def test_layers_of_only_one_run_are_listed(open_page, digits, tmp_path):
    small = lt.simulate(replace(program_of_script(), labels=("conv1.relu",)), timing_only=True)
    pair_page(run_of_results("one", [small]), run_of_results("two", [digits[0]])).write(tmp_path / "p.html")
    page = drawn(open_page(tmp_path / "p.html"))
    assert texts(page, "#layers tbody tr td:first-child") == ["conv1.relu", "conv2.relu", "pool", "logits"]
    page.click("#layers tbody tr:nth-child(3)")
    assert texts(page, "#selected .note") == ["A: this run has no layer of this name."]
