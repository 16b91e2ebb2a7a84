"""Run a page of the documentation: its sessions, files and commands, and compare their output."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from blocks import ROOT, Block, blocks_of
from click.testing import CliRunner

from lathe.command_line import main
from lathe.scripts import script_imports

FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF
COLUMNS = "160"
"""The width of the terminal for which the tables of pages were printed."""


@contextmanager
def own_modules(folder: Path, kept: dict[str, ModuleType]) -> Iterator[None]:
    """Import modules from ``folder``, reusing those in ``kept``, and unload them afterwards.

    Modules of other pages have the same names. The imported modules are added to ``kept``.
    """
    with script_imports(folder / "page"):
        sys.modules.update(kept)
        try:
            yield
        finally:
            files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
            own = [name for name, file in files.items() if Path(file or "/").parent == folder]
            kept.update({name: sys.modules.pop(name) for name in own})


def printed_by(command: str, folder: Path) -> str:
    """The output of a command in ``folder``, with standard error, since a terminal shows both.

    Commands of Lathe run in this process, which has loaded it; others in a subprocess.
    """
    words = shlex.split(command, comments=True)
    if words[0] == "lathe":
        with own_modules(folder, {}):
            return CliRunner(env={"COLUMNS": COLUMNS}).invoke(main, words[1:], catch_exceptions=False).output
    if words[0] == "python":
        words[0] = sys.executable
    environment = os.environ | {"COLUMNS": COLUMNS, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that follows it."""
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], ""))
        else:
            command, output = commands.pop()
            commands.append((command, output + line.rstrip() + "\n"))
    return commands


def lines_of(text: str) -> list[str]:
    """The non-empty lines of an output, with one blank between words, since columns may become wider."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def is_printed(shown: str, printed: str) -> bool:
    """Whether an output matches what a page shows: `...` stands for any lines, or for any words of a line."""
    pattern = ""
    for line in lines_of(shown):
        pattern += r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines_of(printed))) is not None


def renewed(shown: str, printed: str) -> str | None:
    """What a page shows, with the numbers of the output; None if they differ in more than numbers."""
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    pattern = ""
    for line in lines:
        if line == "...":
            pattern += r"(?:.*\n)*?"
        elif line:
            words = re.sub(r"(?:\\? ?[\d.,]+)+", r"[ \\d.,]+", re.escape(line).replace(re.escape("..."), ".*"))
            pattern += rf"({words})\n"
    whole = [line.rstrip() for line in printed.splitlines() if line.strip()]
    match = re.fullmatch(pattern, "".join(" ".join(line.split()) + "\n" for line in whole))
    if match is None:
        return None
    of = {" ".join(line.split()): line for line in whole}
    values = iter(match.groups())
    kept = (
        line if not words or "..." in words else of[next(values)]
        for line, words in zip(shown.splitlines(), lines, strict=True)
    )
    return "".join(line + "\n" for line in kept)


def check_console(block: Block, where: str, folder: Path, page: Path | None) -> None:
    """Run the commands of a console in order; each must print what the page shows, if it shows any output.

    With a ``page``, outputs that differ only in numbers are updated in it instead.
    """
    for command, shown in commands_of(block):
        printed = printed_by(command, folder)
        if not shown or is_printed(shown, printed):
            continue
        new = renewed(shown, printed) if page is not None else None
        if page is None or new is None:
            raise AssertionError(f"{where}: {command}\nprints\n{printed}\nnot\n{shown}")
        page.write_text(page.read_text(encoding="utf-8").replace(shown, new), encoding="utf-8")


def check_excerpt(block: Block, where: str) -> None:
    """The lines of an excerpt are in its file, in this order."""
    left = iter((ROOT / block.options["from"]).read_text(encoding="utf-8").splitlines())
    for line in block.text.splitlines():
        if line.strip() not in ("", "..."):
            assert any(line.strip() == other.strip() for other in left), f"{where}: {line!r} is not there"


def check_session(block: Block, where: str, names: dict[str, object]) -> None:
    """Every line after `>>>` prints what the page shows."""
    example = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line - 1)
    example.globs = names  # names that it defines are available afterwards
    told: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(example, out=told.append, clear_globs=False)
    assert not told, "".join(told)


def run_page(path: Path, folder: Path, update: bool = False) -> int:
    """Run everything that a page shows, in ``folder``, the working directory; returns the number of blocks that ran.

    With ``update``, numbers that commands print are updated in the page.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    modules: dict[str, ModuleType] = {}
    tried = 0
    for block in blocks_of(path.read_text(encoding="utf-8")):
        where = f"{path.name}, line {block.line}"
        if block.kind == "session":
            with own_modules(folder, modules):
                check_session(block, where, names)
        elif block.kind == "console":
            check_console(block, where, folder, path if update else None)
        elif "from" in block.options:
            check_excerpt(block, where)
        elif "file" in block.options:
            (folder / block.options["file"]).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            with own_modules(folder, modules):
                exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), names)
        else:
            continue
        tried += 1
    return tried
