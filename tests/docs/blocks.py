"""The code blocks and the inline code of a page of the site, and how each is checked.

| block | check |
|---|---|
| lines after `>>>` | a session: it prints what the page shows; all sessions of a page are one |
| `python` | statements of that session |
| `python file=NAME`, `yaml file=NAME` | a file in the working directory, for the commands that follow |
| `console` | lines after `$` are commands that run in that directory, and print what the page shows |
| `python from=PATH`, `yaml from=PATH` | an excerpt: its lines are in that file, in this order, except `...` |
| `sh` | only names and options of commands are checked: they need a network, or minutes |
| `text` | pictures, formulas, notation, messages: nothing to run |
| `{...}` | a directive of the site |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = DOCS / "api" / "files.md"
"""Generated with the site, and not in the repository."""

PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts and path != GENERATED)

PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """A code block: its kind, the options after the kind, its text, and the line of the page where the text begins."""

    kind: str
    options: dict[str, str]
    text: str
    line: int


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page in order; the kind of an indented one is empty, unless it is a session."""
    found = []
    for token in PARSER.parse(text):
        if token.type not in ("fence", "code_block"):
            continue
        first = token.map[0] + (token.type == "fence") + 1
        words = token.info.split()
        if ">>> " in token.content:
            found.append(Block("session", {}, token.content, first))
        elif words and words[0].startswith("{"):
            found.append(Block("directive", {}, token.content, first))
        else:
            options = dict(word.split("=", 1) for word in words[1:])
            found.append(Block(words[0] if words else "", options, token.content, first))
    return found


def inline_code_of(text: str) -> Iterator[str]:
    """The inline code of a page, each on one line."""
    for token in PARSER.parse(text):
        for child in token.children or ():
            if child.type == "code_inline":
                yield " ".join(child.content.split())
