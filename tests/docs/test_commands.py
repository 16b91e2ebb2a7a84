"""Commands in pages and the README exist, with the options that they use."""

import re
from pathlib import Path

import click
import pytest
from blocks import DOCS, PAGES, ROOT, blocks_of, inline_code_of

import lathe as lt
from lathe.command_line import main

TEXTS = [*PAGES, ROOT / "README.md"]
NAME = re.compile(r"\blt\.([a-zA-Z]\w*)")
ROWS = re.findall(
    r"^\| (.*?) \| the same names(?: \(\[cores\].*)?(?:;.*)? \|$",
    (DOCS / "coming-from.md").read_text(encoding="utf-8"),
    re.M,
)


def commands_in(text: str) -> list[str]:
    """Whole commands of a page, from blocks and from inline code."""
    lines = list(inline_code_of(text))
    for block in blocks_of(text):
        if block.kind == "sh":
            lines += block.text.splitlines()
        elif block.kind == "console":
            lines += [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    return [
        line for line in lines if line.startswith(("lathe ", "python benchmarks/", "python docs/", "python -m lathe"))
    ]


def unknown_in(command: str) -> list[str]:
    """The words of a command that do not exist: subcommands, options, and files."""
    words = re.sub(r"\[|\]|…|\s#.*", " ", command).split()
    if words[0] == "python" and words[1] == "-m":
        path = words[2].replace(".", "/")
        return [] if (ROOT / f"{path}.py").exists() or (ROOT / path / "__main__.py").exists() else [words[2]]
    if words[0] == "python":
        return [] if (ROOT / words[1]).exists() else [words[1]]
    command_found: click.Command = main
    known = {"-h", "--help"}
    unknown = []
    for position, word in enumerate(words[1:]):
        known |= {name for each in command_found.params for name in (*each.opts, *each.secondary_opts)}
        if word.startswith("-") and len(word) > 1:
            if word.split("=")[0] not in known:
                unknown.append(word)
        elif isinstance(command_found, click.Group) and word != "COMMAND":
            if word not in command_found.commands:
                return [*unknown, word]
            command_found = command_found.commands[word]
        elif position == 0:
            break
    return unknown


@pytest.mark.sample(90)
@pytest.mark.parametrize("page", TEXTS, ids=lambda path: path.stem)
def test_commands_are_there_with_their_options(page: Path) -> None:
    found = {command: unknown_in(command) for command in commands_in(page.read_text(encoding="utf-8"))}
    assert {command: unknown for command, unknown in found.items() if unknown} == {}


@pytest.mark.parametrize(
    "page", [page for page in TEXTS if page.parent.name != "decisions"], ids=lambda path: path.stem
)
def test_names_of_the_interface_are_there(page: Path) -> None:
    named = {name for code in inline_code_of(page.read_text(encoding="utf-8")) for name in NAME.findall(code)}
    assert [name for name in sorted(named) if not hasattr(lt, name)] == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_counterparts_that_bear_the_same_name_are_there(row: str) -> None:
    commands = re.findall(r"`(?:\w\.|s\[\w\]\.)?(\w+)(?:\([^`]*)?`", row)
    assert commands
    here = {*dir(lt.Stage), *dir(lt.Schedule), *dir(lt)}
    assert [name for name in commands if name not in here] == []


@pytest.mark.parametrize(
    ("command", "unknown"),
    [
        ("lathe run [SCRIPT] -c tiny", []),
        ("lathe walk", ["walk"]),
        ("lathe rtl fit -c tiny --colour", ["--colour"]),
        ("lathe --debug run", []),
        ("python benchmarks/none.py --json", ["benchmarks/none.py"]),
        ("python -m lathe.isa.manual", []),
        ("python -m lathe.nothing", ["lathe.nothing"]),
    ],
)
def test_unknown_words_are_found(command: str, unknown: list[str]) -> None:
    assert unknown_in(command) == unknown
