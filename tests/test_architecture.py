"""``docs/architecture.md`` against the source: its rooms, its passes, and every file and folder that it names."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from gen_file_index import ROOMS, files_of, page, sentence_of

from lathe.scheduler.passes.invariants import LEGAL
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule_ir.memories import SCRATCHPADS

ROOT = Path(__file__).parent.parent
BLOCK_SIZES = {"batch", "block_in", "block_out"}
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table behind a line that begins with ``heading``, without its head."""
    lines = PAGE.split(f"\n{heading}", 1)[1].split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_rooms_stand_in_the_order_in_which_they_may_be_imported():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["lathe.scheduler"])
    rank = {room: len(layers) - n for n, layer in enumerate(layers) for room in layer.split(" | ")}
    named = [row[0].strip("`/") for row in rows("Inside `scheduler/`")]
    assert sorted(named) == sorted(rank)
    assert [rank[room] for room in named] == sorted(rank.values())


def test_passes_are_those_that_there_are_with_what_they_give_and_need():
    maker = {LEGAL: "a legal schedule"} | {given: f"`{each.name}`" for each in PASSES for given in each.gives}
    wanted = [
        [
            f"`{each.name}`",
            "; ".join(given.sentence for given in each.gives) or "–",
            ", ".join(dict.fromkeys(maker[need] for need in each.needs)) or "–",
        ]
        for each in PASSES
    ]
    assert rows("## Passes") == wanted


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.(?:py|md))?)`", PAGE))))
def test_what_is_named_is_there(path):
    inside = ROOT / "scheduler" / path  # rooms of the scheduler are named by their own names
    assert (ROOT / path).exists() or inside.exists()


def test_at_most_twelve_files_lie_flat_in_the_scheduler():
    assert len(list((ROOT / "scheduler").glob("*.py"))) <= 12


def test_every_file_is_listed_with_the_first_sentence_of_its_docstring():
    assert page() == PAGE, "run `python docs/gen_file_index.py`"


def test_every_file_says_what_it_is_for():
    silent = [path for room in ROOMS for path in files_of(room) if not sentence_of((ROOT / path).read_text())]
    assert [path for path in silent if path.name != "__init__.py"] == []


@pytest.mark.parametrize("room", ROOMS)
def test_files_that_docstrings_and_comments_name_are_there(room):
    """``folder/file.py`` in a source, in code quotes, is one from the root, from its room, or from its own folder."""
    for path in files_of(room):
        named = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", (ROOT / path).read_text(encoding="utf-8"))
        for each in named:
            bases = (ROOT, ROOT / room, ROOT / path.parent)
            assert any((base / each).exists() for base in bases), f"{path} names {each}"


def test_the_page_on_the_rtl_lists_every_file():
    table = (ROOT / "docs" / "rtl.md").read_text(encoding="utf-8").split("| file | what |\n", 1)[1].split("\n\n")[0]
    files = [path.name for path in (ROOT / "rtl").glob("*.py") if path.name != "__init__.py"]
    assert [name for name in sorted(files) if f"`{name}`" not in table] == []


def test_no_pass_spells_a_memory_or_a_block_size():
    for path in sorted((ROOT / "scheduler" / "passes").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} & set(SCRATCHPADS)
        sizes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & BLOCK_SIZES
        assert (texts, sizes) == (set(), set()), path
