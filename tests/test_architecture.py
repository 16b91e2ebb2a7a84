"""``docs/architecture.md`` agrees with the source: packages, passes, and all files and folders that it names."""

import ast
import re
import tomllib
from pathlib import Path

import gen_file_index as index
import pytest
from gen_file_index import PACKAGES, files_of, first_sentence

from lathe.scheduler.passes.invariants import LEGAL
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule_ir.memories import SCRATCHPADS

ROOT = Path(__file__).parent.parent
BLOCK_SIZES = {"batch", "block_in", "block_out"}
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NOT_AT_THE_TOP = {"frontend", "scheduler", "sim", "rtl", "isa", "configs"}
"""Packages that are imported as ``lathe.NAME``, whose folders are not in ``lathe/``."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table after a line that begins with ``heading``, without its head."""
    lines = PAGE.split(f"\n{heading}", 1)[1].split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def rank_of_layers(container: str) -> dict[str, int]:
    """The level of each package and file of a container in the contracts of import-linter, lowest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == [container])
    return {name: len(layers) - n for n, layer in enumerate(layers) for name in layer.split(" | ")}


def is_package(name: str) -> bool:
    return (ROOT / "lathe" / name).is_dir() and name not in NOT_AT_THE_TOP


@pytest.mark.parametrize("folder", ["frontend", "scheduler", "lathe"])
def test_packages_are_listed_in_the_order_in_which_they_may_be_imported(folder):
    rank = rank_of_layers("lathe" if folder == "lathe" else f"lathe.{folder}")
    if folder == "lathe":
        rank = {name: level for name, level in rank.items() if is_package(name)}
    listed = [row[0].strip("`/") for row in rows(f"Inside `{folder}/`")]
    assert sorted(listed) == sorted(rank)
    assert [rank[name] for name in listed] == sorted(rank.values())


def test_top_level_packages_are_listed_in_the_order_in_which_they_may_be_imported():
    rank = rank_of_layers("lathe")
    listed = [row[0].strip("`/") for row in rows("## Packages")]
    assert set(listed) == NOT_AT_THE_TOP | {"lathe"}
    assert [rank[name] for name in listed[:-1]] == sorted(rank[name] for name in NOT_AT_THE_TOP)


def test_passes_are_listed_with_the_invariants_that_they_establish_and_require():
    source = {LEGAL: "a legal schedule"} | {given: f"`{each.name}`" for each in PASSES for given in each.establishes}
    expected = [
        [
            f"`{each.name}`",
            "; ".join(given.sentence for given in each.establishes) or "–",
            ", ".join(dict.fromkeys(source[need] for need in each.requires)) or "–",
        ]
        for each in PASSES
    ]
    assert rows("## Passes") == expected


def test_order_constraints_name_passes_in_pipeline_order():
    """'X before Y' and 'X after Y' agree with ``PASSES``."""
    position = {each.name: n for n, each in enumerate(PASSES)}
    for constraint, _ in rows("Order constraints"):
        phrases = re.split(r", (?=before|after)|(?=before|after)", constraint)
        subjects = re.findall(r"`([\w-]+)`", phrases[0])
        assert subjects, constraint
        assert set(subjects) <= set(position), constraint
        for phrase in phrases[1:]:
            for other in re.findall(r"`([\w-]+)`", phrase):
                for subject in subjects:
                    assert (position[subject] < position[other]) == phrase.startswith("before"), constraint


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.(?:py|md|h))?)`", PAGE))))
def test_files_and_folders_that_the_page_names_exist(path):
    inside = (ROOT / folder / path for folder in ("scheduler", "frontend", "lathe"))  # tables have short names
    assert (ROOT / path).exists() or any(each.exists() for each in inside)


def test_at_most_twelve_files_are_at_the_top_of_the_scheduler():
    assert len(list((ROOT / "scheduler").glob("*.py"))) <= 12


@pytest.mark.slow
def test_every_file_has_a_first_sentence():
    silent = [
        path for package in PACKAGES for path in files_of(package) if not first_sentence((ROOT / path).read_text())
    ]
    assert [path for path in silent if path.name != "__init__.py"] == []


@pytest.mark.slow
def test_the_page_of_source_files_lists_every_file(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "PAGE", tmp_path / "files.md")
    index.write_page()
    text = (tmp_path / "files.md").read_text(encoding="utf-8")
    files = [path for package in PACKAGES for path in files_of(package) if path.name != "__init__.py"]
    assert len(files) > 700
    assert text.count("\n- `") == len(files)
    for path in files:
        assert f"\n- `{path.name}`: " in text.split(f"**`{path.parent.as_posix()}/`**", 1)[1], path


@pytest.mark.parametrize("package", PACKAGES)
def test_files_that_docstrings_and_comments_name_exist(package):
    """``folder/file.py`` in inline code of a source file is relative to the root, its package, or its folder."""
    for path in files_of(package):
        named = re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", (ROOT / path).read_text(encoding="utf-8"))
        for each in named:
            bases = (ROOT, ROOT / package, ROOT / path.parent)
            assert any((base / each).exists() for base in bases), f"{path} names {each}"


def test_the_page_on_the_rtl_lists_every_file():
    table = (ROOT / "docs" / "rtl.md").read_text(encoding="utf-8").split("\n| file |", 1)[1].split("\n\n")[0]
    files = [path.name for path in (ROOT / "rtl").glob("*.py") if path.name != "__init__.py"]
    assert [name for name in sorted(files) if f"`{name}`" not in table] == []


def test_no_pass_spells_a_memory_or_a_block_size():
    for path in sorted((ROOT / "scheduler" / "passes").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} & set(SCRATCHPADS)
        sizes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & BLOCK_SIZES
        assert (texts, sizes) == (set(), set()), path
