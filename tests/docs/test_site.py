"""The site: every page is in a table of contents, links have targets, and nothing is loaded from the network."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import flow
import pytest
from blocks import DOCS, PAGES, ROOT
from check_site import problems

import lathe as lt


def listed(page: Path) -> set[Path]:
    """The pages in the tables of contents of a page, recursively."""
    found: set[Path] = set()
    for table in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for entry in re.findall(r"^([\w[].*)$", table, re.MULTILINE):
            for path in page.parent.glob(f"{entry}.md"):
                found |= {path} | listed(path)
    return found


def test_every_page_stands_in_the_contents():
    assert set(PAGES) - listed(DOCS / "index.md") == {DOCS / "index.md"}


def test_every_link_has_words():
    """A link without a text, for which the site inserts a title, is empty when pages are read in the repository."""
    empty = [
        path.name for path in PAGES for block in re.findall(r"[^`]\[\]\(", path.read_text(encoding="utf-8")) if block
    ]
    assert empty == []


def test_every_shipped_machine_has_its_row():
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "machines.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(lt.shipped_configs()) <= set(rows)


def test_every_public_name_has_its_place_in_the_reference():
    told = [
        name
        for path in (DOCS / "api").glob("*.md")
        for name in re.findall(r"^\.\. auto(?:class|exception|function|data):: (\w+)$", path.read_text(), re.MULTILINE)
    ]
    assert sorted(told) == sorted(lt.__all__)


def test_every_public_name_says_what_it_is():
    values = {name: getattr(lt, name) for name in lt.__all__}
    told = {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}
    silent = [name for name, value in told.items() if not (value.__doc__ or "").strip()]
    assert silent == []


def test_the_picture_is_what_is_drawn():
    assert flow.PICTURE.read_text(encoding="utf-8") == flow.picture(), "run `python docs/flow.py`"


def test_the_picture_has_lanes_that_time_fits_in():
    root = ElementTree.parse(flow.PICTURE).getroot()
    bars = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("y") in ("222", "256", "290")]
    ends = [float(each.get("x")) + float(each.get("width")) for each in bars]
    assert {each.get("class") for each in bars} == {"lane", "load", "gemm", "reset", "alu", "store"}
    assert max(ends) <= flow.RIGHT + 0.1


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_addresses_of_the_outside_are_addresses(path):
    for address in re.findall(r"(?<![\w`])https?:[^\s)>`\]]*", path.read_text(encoding="utf-8")):
        assert re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[\w./#%?=&~-]*)?[.,]?", address), address


PAGE = """<html><head><link rel="stylesheet" href="style.css"></head><body><h1 id="top">A</h1>
<a href="other.html#place">there</a><a href="#top">up</a><a href="https://example.org/x">out</a><img src="a.svg">
</body></html>"""

BROKEN = {
    "index.html: nowhere.html is not there": ("other.html#place", "nowhere.html"),
    "index.html: other.html#none has no such place": ("#place", "#none"),
    "index.html: #down has no such place": ("#top", "#down"),
    "index.html: https://nowhere is no address": ("https://example.org/x", "https://nowhere"),
    "index.html: https://example.org/a.svg is loaded from the network": ("a.svg", "https://example.org/a.svg"),
    "index.html: //example.org/s.css is loaded from the network": ("style.css", "//example.org/s.css"),
}


def write_site(folder: Path, page: str, style: str = "p { color: red }") -> None:
    (folder / "index.html").write_text(page)
    (folder / "other.html").write_text("<html><body><p id='place'>B</p></body></html>")
    (folder / "style.css").write_text(style)
    (folder / "a.svg").write_text("<svg/>")


def test_a_site_that_holds_together_has_no_problems(tmp_path):
    write_site(tmp_path, PAGE)
    assert problems(tmp_path) == []


@pytest.mark.parametrize("told", BROKEN)
def test_what_is_wrong_with_a_site_is_told(told, tmp_path):
    write_site(tmp_path, PAGE.replace(*BROKEN[told]))
    assert problems(tmp_path) == [told]


def test_fonts_of_the_network_are_told(tmp_path):
    write_site(tmp_path, PAGE, "@font-face { src: url('https://example.org/f.woff2') }")
    assert problems(tmp_path) == ["style.css: https://example.org/f.woff2 is loaded from the network"]


def build(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    """Build a site of one page with the extension that links source files."""
    (folder / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(DOCS)!r})\n"
        "extensions = ['myst_parser', 'source_pages']\nhtml_theme = 'basic'\n"
    )
    (folder / "index.md").write_text(page)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(folder), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_files_in_code_quotes_lead_to_their_source(tmp_path):
    done = build(
        tmp_path,
        "# Page\n\nSee `scheduler/loop_ir/compute_locations.py`. In **`sim/`**: `trace.py`. Run "
        "`python docs/flow.py`.\n",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert problems(tmp_path / "out") == []
    page = (tmp_path / "out" / "index.html").read_text()
    for path in ("scheduler/loop_ir/compute_locations.py", "sim/trace.py", "docs/flow.py"):
        assert f'href="source/{path}.html"' in page
        assert (tmp_path / "out" / "source" / f"{path}.html").exists()


def test_files_that_are_not_there_are_told(tmp_path):
    done = build(tmp_path, "# Page\n\nSee `scheduler/nest/nowhere.py`.\n")
    assert done.returncode == 1
    assert "file scheduler/nest/nowhere.py must be one of the repository" in done.stderr
