"""Every page of the site is correct: its sessions, files and commands run, and print what it shows."""

import sys
from pathlib import Path

import pytest
from blocks import DOCS, PAGES, blocks_of
from running import run_page

KINDS = {"session", "python", "yaml", "console", "sh", "text", "directive"}
RUN = {"session", "python", "yaml", "console"}
SHOWING = [path for path in PAGES if {block.kind for block in blocks_of(path.read_text(encoding="utf-8"))} & RUN]
SLOW = ("tutorials/hardware-architect",)
"""Pages that synthesise hardware."""


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).with_suffix("").as_posix()


SHOWN_PAGES = [
    pytest.param(path, id=name_of(path), marks=[pytest.mark.slow] if name_of(path) in SLOW else []) for path in SHOWING
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("page", SHOWN_PAGES)
def test_what_a_page_shows_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert run_page(page, tmp_path, request.config.getoption("--update-golden"))


@pytest.mark.sample(60)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_code_says_what_it_is(page: Path) -> None:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    assert [(block.line, block.kind) for block in blocks if block.kind not in KINDS] == []
    assert [block.line for block in blocks if block.kind == "yaml" and not block.options] == []


SHOWN = {
    "a session": "    >>> 1 + 1\n    3\n",
    "statements": "```python\nassert 1 + 1 == 3\n```\n",
    "a command": "```console\n$ python -c 'print(1)'\n2\n```\n",
    "a command of Lathe": "```console\n$ lathe configs nothing\nError: all is well.\n```\n",
    "more than it prints": "```console\n$ python -c 'print(1)'\n1\n...\n2\n```\n",
    "less than it prints": "```console\n$ python -c 'print(1, 2)'\n1\n```\n",
    "an excerpt": "```python from=docs/gen_file_index.py\nimport nothing\n```\n",
    "an excerpt in another order": "```python from=docs/gen_file_index.py\nimport re\nimport ast\n```\n",
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_a_page_that_is_wrong_fails(shown: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(shown, encoding="utf-8")
    with pytest.raises(AssertionError):
        run_page(tmp_path / "page.md", tmp_path)


def test_blocks_of_a_page_share_names_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 6\n```\n\n    >>> x = x * 7\n\ntext\n\n    >>> x\n    42\n\n"
        "```python file=tell.py\nprint('some', 'words')\n```\n\n```console\n$ python tell.py\nsome ...\n```\n",
        encoding="utf-8",
    )
    assert run_page(page, tmp_path) == 5


def test_numbers_on_a_page_are_brought_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = (
        "text\n\n```console\n$ python -c \"print('cycles     9 145 (70.8 %)'); print('more'); print('a 1')\"\n{}```\n"
    )
    page.write_text(shown.format("cycles  8 000 (1.5 %)\n...\na 22\n"), encoding="utf-8")
    with pytest.raises(AssertionError):
        run_page(page, tmp_path)
    assert run_page(page, tmp_path, update=True)
    assert page.read_text(encoding="utf-8") == shown.format("cycles     9 145 (70.8 %)\n...\na 1\n")


def test_words_on_a_page_are_not_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```console\n$ python -c \"print('a 1')\"\nb 1\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        run_page(tmp_path / "page.md", tmp_path, update=True)
