"""The code blocks and the inline code of a page of the site, and what each says that it is.

| block | what it is |
|---|---|
| lines behind `>>>` | a session: it prints what is shown; all sessions of a page are one |
| `python` | statements of that session |
| `python file=NAME`, `yaml file=NAME` | a file beside the page, for the commands that follow |
| `console` | lines behind `$` are commands that run beside those files, and print what is shown |
| `python from=PATH`, `yaml from=PATH` | an excerpt: its lines stand in that file, in this order, but for `...` |
| `sh` | commands of which only the names and options are checked: they need a network, or minutes |
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
"""Written when the site is built, and not kept in the repository."""

PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts and path != GENERATED)

PARSER = MarkdownIt("commonmark").enable("table")


@dataclass(frozen=True)
class Block:
    """One block of code: its kind, the words behind the kind, its text, and the line of the page where that begins."""

    kind: str
    options: dict[str, str]
    text: str
    line: int


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page in their order; the kind of an indented one that is no session is empty."""
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
    """What stands in code quotes in the text of a page, on one line each."""
    for token in PARSER.parse(text):
        for child in token.children or ():
            if child.type == "code_inline":
                yield " ".join(child.content.split())
