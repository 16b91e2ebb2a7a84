"""The schedule explorer in a browser: a selected statement is highlighted on every level."""

from collections import Counter

import pytest
from click.testing import CliRunner
from drawn_runs import DRAWN, PHONE, SCRIPT

from lathe.command_line import main

pytestmark = pytest.mark.slow  # a browser starts

LEVELS = ["algorithm", "order", "data", "communication", "loops", "chunks", "instructions"]


@pytest.fixture(scope="module")
def page_of_script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    (folder / "first.py").write_text(SCRIPT)
    done = CliRunner().invoke(main, ["report", str(folder / "first.py"), "-o", str(folder / "page.html")])
    assert (done.exit_code, done.output) == (0, "")
    return folder / "page.html"


def opened(open_page, path, *more):
    page = open_page(path, *more)
    page.wait_for_function(DRAWN)
    page.wait_for_selector(".level[data-level=instructions] .line")
    page.wait_for_function("document.querySelectorAll('#instructions tbody td.code:not(:empty)').length > 0")
    return page


def marked(page, level):
    return page.locator(f".level[data-level={level}] .line.marked").all_text_contents()


def test_all_levels_stand_beside_each_other(open_page, page_of_script):
    page = opened(open_page, page_of_script)
    assert page.eval_on_selector_all(".level", "found => found.map((each) => each.dataset.level)") == LEVELS
    tops = page.eval_on_selector_all(".level", "found => found.map((each) => each.getBoundingClientRect().top)")
    assert len({*tops}) == 1


def test_a_statement_is_marked_on_every_level_and_on_the_timeline(open_page, page_of_script):
    page = opened(open_page, page_of_script)
    page.click(".level[data-level=algorithm] .line:has-text('compute C')")
    assert marked(page, "algorithm")[0] == "compute C: int32[60, 96]"
    assert marked(page, "order")[0].strip() == "C: @rule gemm"
    assert [line.split(":")[0] for line in marked(page, "data")] == ["C"]
    assert any("C[16*io + i, j] += int32(A.inp" in line for line in marked(page, "loops"))
    chunks = [line.strip().split("(")[0] for line in marked(page, "chunks")]
    assert Counter(chunks)["gemm"] == Counter(chunks)["reset"] == 2
    instructions = marked(page, "instructions")
    assert [line.strip() for line in marked(page, "communication")] == [line.strip() for line in instructions]
    assert all(line.endswith(tuple(f"; C at io={n}" for n in range(4))) for line in instructions)
    assert page.locator(".level[data-level=loops] .line.around").all_text_contents()[0] == "for io in 0..4:"
    rows = [row.locator("td").all_inner_texts() for row in page.locator("[aria-label=Statement] tbody tr").all()]
    assert [row[:2] for row in rows] == [["load", "0"], ["compute", str(len(instructions))], ["store", "0"]]
    assert page.locator("#instructions tbody tr").count() == len(instructions)
    strips = "document.getElementById('timeline').data.filter((each) => each.name === 'selected' && each.x.length)"
    page.wait_for_function(f"{strips}.length > 0")


def test_any_level_leads_to_all_others_and_an_instruction_to_its_chunk(open_page, page_of_script):
    page = opened(open_page, page_of_script)
    page.click(".level[data-level=instructions] .line:has-text('A.inp at io=3')")
    assert marked(page, "algorithm") == ["placeholder A: int8[60, 64]"]
    assert page.input_value("#explorer-statement") == "A"
    told = dict(
        zip(
            page.locator(".of-instruction th").all_inner_texts(),
            page.locator(".of-instruction td").all_inner_texts(),
            strict=True,
        )
    )
    assert told["statement"] == "A.inp at io=3"
    assert told["chunk"] == "A.inp.map(i0 in 0..12, i1 in 0..64) at io=3"
    page.select_option("#explorer-statement", "D")
    assert {line.split(":")[0] for line in marked(page, "data")} == {"D", "D.acc"}
    page.select_option("#explorer-statement", "")
    assert sum(len(marked(page, level)) for level in LEVELS) == 0


def test_a_statement_is_picked_with_the_keyboard_and_on_a_phone(open_page, page_of_script):
    page = opened(open_page, page_of_script, *PHONE, "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    page.focus(".level[data-level=algorithm] .line:has-text('compute D')")
    page.keyboard.press("Enter")
    assert page.locator("#selected h3").inner_text() == "Statement D"


def test_lines_of_a_statement_are_found_also_far_down_a_long_level(open_page, tmp_path):
    script = tmp_path / "long.py"
    script.write_text(
        "import lathe as lt\n"
        "def build(cfg):\n"
        "    A = lt.placeholder((64, 4096), 'int8', name='A')\n"
        "    B = lt.compute(A.shape, lambda i, j: A[i, j] + 1, name='B')\n"
        "    C = lt.compute(A.shape, lambda i, j: B[i, j] + 2, name='C')\n"
        "    s = lt.create_schedule(C)\n"
        "    for each in (B, C):\n"
        "        i, j = s[each].axis\n"
        "        io, ii = s[each].split(j, factor=16)\n"
        "    return lt.build(s, [A, C], cfg)\n"
    )
    done = CliRunner().invoke(main, ["report", str(script), "-o", str(tmp_path / "page.html")])
    assert (done.exit_code, done.output) == (0, "")
    page = opened(open_page, tmp_path / "page.html")
    page.click(".level[data-level=algorithm] .line:has-text('compute C')")
    assert marked(page, "instructions")
