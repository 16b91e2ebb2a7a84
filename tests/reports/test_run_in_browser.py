"""The page of a run in a browser: no errors, figures with axes and units, and details on a click."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from drawn_runs import DRAWN, LAPTOP, PHONE, program_of_script

import lathe as lt
from lathe.command_line import main
from lathe.isa import Gemm, instruction_text
from lathe.networks.digits.network import digits_network
from lathe.reports.run_model import Layer, Run, run_of_results
from lathe.reports.run_page import run_page

pytestmark = pytest.mark.slow  # a browser starts

HOSTILE = (
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(2)">',
    "<b>bold</b> &amp; 'quotes\"",
    "<!-- %{x} ${x} \\u003c/script>",
)


@pytest.fixture(scope="module")
def digits():
    network = digits_network(60)
    program = lt.build(network.logits, network.tensors, lt.load_config("vta"), constants=network.constants)
    return lt.simulate(program, timing_only=True)


@pytest.fixture(scope="module")
def digits_page(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "digits.html"
    run_page(run_of_results("digits", [digits])).write(path)
    return path


def drawn(page):
    page.wait_for_function(DRAWN)
    page.wait_for_function("document.querySelectorAll('#instructions tbody td.code:not(:empty)').length > 0")
    return page


def texts(page, selector):
    return [each.strip() for each in page.locator(selector).all_text_contents()]


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_makes_no_requests_and_fits_the_screen(open_page, digits_page, size, scheme):
    page = drawn(open_page(digits_page, *size, scheme))
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    for title in ("#timeline .xtitle", "#cycles .xtitle", "#roofline .xtitle", "#roofline .ytitle"):
        inner, outer = (page.locator(each).bounding_box() for each in (title, title.split()[0]))
        assert outer["x"] <= inner["x"]
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
        assert outer["y"] <= inner["y"]
        assert inner["y"] + inner["height"] <= outer["y"] + outer["height"]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")


def test_figures_have_axes_with_units_and_legends(open_page, digits_page):
    page = drawn(open_page(digits_page))
    assert texts(page, "#timeline .xtitle") == ["cycle"]
    rows = ["fetch", "load", "compute", "store", "tokens", "scratchpads% in use", "DRAMbytes/cycle"]
    assert page.locator("#timeline .annotation-text").all_text_contents() == rows
    assert texts(page, "#cycles .xtitle") == ["cycles of compute"]
    assert [each.text_content() for each in page.locator("#roofline .xtitle, #roofline .ytitle").all()] == [
        "multiply-accumulates per byte of DRAM",
        "multiply-accumulates per cycle",
    ]
    named = texts(page, "#timeline-part .legend button")
    assert named[:6] == ["load", "gemm", "alu", "transfer", "store", "fetch"]
    assert {"waits: memory", "tokens load->compute", "acc in use", "DRAM read", "bus bandwidth"} <= {*named}
    assert {"gemm", "alu", "transfer", "waits: load->compute"} <= {*texts(page, "#cycles-part .legend button")}
    assert "roof" in texts(page, "#roofline-part .legend button")
    assert {"conv1.relu", "conv2.relu", "logits"} <= {*texts(page, "#roofline .textpoint")}


def test_a_name_of_a_legend_hides_and_shows_what_it_names(open_page, digits_page):
    page = drawn(open_page(digits_page))
    visible = "document.getElementById('cycles').data.filter((each) => each.visible !== false).map((each) => each.name)"
    before = page.evaluate(visible)
    page.click("#cycles-part .legend button:has-text('gemm')")
    assert page.evaluate(visible) == [name for name in before if name != "gemm"]
    page.click("#cycles-part .legend button:has-text('gemm')")
    assert page.evaluate(visible) == before


def test_zoomed_in_each_box_is_an_instruction_with_details(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    assert page.get_attribute("#timeline", "data-detail") == "shares"
    page.evaluate("lathe.timeline.show(3000, 4000)")
    page.wait_for_function("document.getElementById('timeline').dataset.detail === 'instructions'")
    part = digits.trace.of_unit("compute")
    times = list(zip(part.instruction.tolist(), part.start.tolist(), part.end.tolist(), strict=True))
    number, start = next(  # during which no LOAD of the unit fetches
        (number, start)
        for number, start, end in times
        if start > 3000 and end > start + 40 and isinstance(digits.program.instructions[number], Gemm)
        if sum(begin < start + 40 and stop > start for _, begin, stop in times) == 1
    )
    page.evaluate(f"lathe.timeline.show({start}, {start + 40})")
    page.locator("#timeline").scroll_into_view_if_needed()
    gemm = "document.getElementById('timeline').data.find((each) => each.name === 'gemm' && each.type === 'bar')"
    axis = page.evaluate(f"{gemm}.yaxis ?? 'y'")
    page.locator(f"#timeline .draglayer .x{axis} .nsewdrag").click()
    page.wait_for_selector(".of-instruction")
    told = dict(zip(texts(page, ".of-instruction th"), texts(page, ".of-instruction td"), strict=True))
    assert told["number"] == str(number)
    assert told["assembly"] == instruction_text(digits.program.instructions[number])
    at = part.instruction.tolist().index(number)
    assert told["starts"].replace("\u202f", "") == f"cycle {part.start[at]}"
    assert told["ends"].replace("\u202f", "") == f"cycle {part.end[at]}"


def test_a_row_of_a_layer_leads_to_its_cycles_by_unit_and_reason(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    page.click("#layers tr:has-text('conv2.relu')")
    cost = next(each for each in lt.cycles_by_label(digits) if each.label == "conv2.relu")
    rows = [texts(row, "td") for row in page.locator("[aria-label='Cycles by unit'] tbody tr").all()]
    found = {(unit, what): int(cycles.replace("\u202f", "")) for unit, what, cycles, _ in rows}
    of_unit = {"load": "load", "gemm": "compute", "alu": "compute", "transfer": "compute", "store": "store"}
    wanted = {(of_unit[activity], activity): cycles for activity, cycles in cost.busy.items()}
    wanted |= {
        (unit, f"waits: {cause}"): cycles for unit, causes in cost.reasons.items() for cause, cycles in causes.items()
    }
    assert found == {key: cycles for key, cycles in wanted.items() if cycles}
    assert texts(page, "#selected h3") == ["conv2.relu"]
    told = page.locator("#instructions-told").inner_text().replace("\u202f", "")
    assert told.endswith(f"of {cost.instructions}")
    assert "selected" in texts(page, "#timeline-part .legend button")


def test_a_point_of_the_roofline_leads_to_its_layer(open_page, digits_page):
    page = drawn(open_page(digits_page))
    page.locator("#roofline").scroll_into_view_if_needed()
    page.locator("#roofline .point").first.hover(force=True)
    page.locator("#roofline .point").first.click(force=True)
    page.wait_for_selector("#selected h3")
    assert texts(page, "#selected h3")[0] in ("conv1.relu", "conv2.relu", "logits")


def test_tables_are_sorted_and_filtered(open_page, digits_page):
    page = drawn(open_page(digits_page))
    names = "#layers tbody tr td:first-child"
    assert texts(page, names) == ["conv1.relu", "conv2.relu", "pool", "logits"]
    page.click("#layers th:has-text('cycles') button")
    assert texts(page, names)[0] == "conv2.relu"
    page.click("#layers th:has-text('cycles') button")
    assert texts(page, names)[-1] == "conv2.relu"
    page.fill("#layers input", "pool")
    assert texts(page, names) == ["pool"]
    page.fill("#find-instruction", "finish")
    assert page.locator("#instructions tbody tr").count() == 1


def test_hostile_names_are_text(open_page, digits, tmp_path):
    program = replace(digits.program, labels=HOSTILE)
    page_of_run = run_page(run_of_results(HOSTILE[0], [lt.simulate(program, timing_only=True)]))
    page_of_run.write(tmp_path / "hostile.html")
    page = drawn(open_page(tmp_path / "hostile.html"))
    assert page.title() == page.locator("h1").inner_text() == HOSTILE[0]
    assert texts(page, "#layers tbody tr td:first-child") == [*HOSTILE]
    assert page.locator("main img, main b").count() == 0
    ticks = page.locator("#cycles .ytick text").all_text_contents()
    assert [tick.rstrip("…") for tick in ticks] == [
        name[: len(tick.rstrip("…"))] for name, tick in zip(HOSTILE, ticks, strict=True)
    ]
    page.click("#layers tbody tr:nth-child(2)")
    assert texts(page, "#selected h3") == [HOSTILE[1]]
    for name in ("timeline", "cycles", "roofline"):
        with page.expect_download() as found:
            page.click(f"button.save[data-figure={name}][data-format=svg]")
        elements = {each.tag.rpartition("}")[2] for each in ElementTree.parse(found.value.path()).iter()}
        assert not elements & {"script", "img", "b", "foreignObject"}


def test_nodes_of_a_model_may_be_named_like_the_end_of_a_script(open_page, digits_onnx, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(digits_onnx)
    for node in model.graph.node:
        node.name = f"</script><script>alert('{node.name}')</script>"
    onnx.save(model, tmp_path / "hostile.onnx")
    words = ["report", str(tmp_path / "hostile.onnx"), "-c", "lathe16", "-o", str(tmp_path / "page.html")]
    assert CliRunner().invoke(main, words).exit_code == 0
    page = drawn(open_page(tmp_path / "page.html"))
    names = texts(page, "#layers tbody tr td:first-child")
    assert len(names) == 7
    assert all(name.startswith("</script><script>alert('") for name in names)
    page.click("#layers tbody tr:nth-child(3)")
    assert texts(page, "#selected h3") == [names[2]]


@pytest.mark.parametrize("name", ["timeline", "cycles", "roofline"])
def test_figures_are_saved_as_svg_and_png(open_page, digits_page, tmp_path, name):
    page = drawn(open_page(digits_page))
    begins = {"svg": b"<svg", "png": b"\x89PNG\r\n\x1a\n"}
    for kind, first in begins.items():
        with page.expect_download() as found:
            page.click(f"button.save[data-figure={name}][data-format={kind}]")
        assert found.value.suggested_filename == f"{name}.{kind}"
        found.value.save_as(tmp_path / kind)
        content = (tmp_path / kind).read_bytes()
        assert content.startswith(first)
        if kind == "svg" and name != "roofline":
            assert b"waits: memory" in content  # the legend goes with the figure


def test_colours_follow_the_system(open_page, digits_page):
    page = drawn(open_page(digits_page))
    colour = "document.getElementById('cycles')._fullLayout.font.color"
    before = page.evaluate(colour)
    boxes = "document.getElementById('timeline').data.find((each) => each.name === 'load').fillcolor"
    roof = "document.getElementById('roofline').data[0].line.color"
    assert (page.evaluate(boxes), page.evaluate(roof)) == ("#3b7dd8", "#1b2430")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{colour} !== '{before}'")
    page.wait_for_function(f"{boxes} === '#5c9df0' && {roof} === '#e6eaef'")
    page.locator("#roofline").scroll_into_view_if_needed()
    page.locator("#roofline .point").first.click(force=True)
    assert page.locator("#selected h3").count() == 1


def test_launches_of_one_run_follow_each_other(open_page, digits, tmp_path):
    other = lt.simulate(program_of_script(), timing_only=True)
    run_page(run_of_results("two", [digits, other])).write(tmp_path / "two.html")
    page = drawn(open_page(tmp_path / "two.html"))
    assert texts(page, "#layers tbody tr td:first-child")[-1] == "1: D"
    assert page.evaluate("lathe.timeline.window()") == [0, digits.cycles + other.cycles]
    last = len(digits.program.instructions)
    begin = page.evaluate(f"lathe.run.then((run) => run.start({last}))")
    trace = other.trace
    first = trace.instruction.tolist().index(0)
    assert begin == digits.cycles + trace.start[first]


def test_page_of_a_network_on_the_host_cpu(open_page, tmp_path):
    nodes = tuple(Layer(name, "host", "it is computed in float") for name in ("first", "second"))
    run_page(Run("float", lt.load_config("vta"), (), nodes)).write(tmp_path / "host.html")
    page = open_page(tmp_path / "host.html")
    page.wait_for_selector("#layers tbody tr")
    assert texts(page, "#layers tbody tr td:first-child") == ["first", "second"]
    assert page.locator("#timeline").count() == 0
    assert "0, and 2 nodes on the host" in page.locator("#summary").inner_text()


def test_columns_go_on_to_the_end_and_shares_add_up(open_page, digits, digits_page):
    page = drawn(open_page(digits_page))
    columns = page.evaluate(
        "document.getElementById('timeline').data.filter((each) => each.stackgroup === 'u1')"
        ".map((each) => [Array.from(each.x), Array.from(each.y)])"
    )
    begins = columns[0][0]
    assert (begins[0], begins[-1]) == (0, digits.cycles)
    assert all(x == begins for x, _ in columns)
    sums = [sum(shares) for shares in zip(*(y for _, y in columns), strict=True)]
    assert max(sums) <= 1 + 1e-9
    after = digits.trace.of_unit("compute").end[-1] + 1  # then the unit has nothing left to do
    whole = [share for begin, share in zip(begins[1:], sums, strict=False) if begin < after]
    assert min(whole) >= 1 - 1e-9
