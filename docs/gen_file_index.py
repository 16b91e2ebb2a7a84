"""The last section of ``docs/architecture.md``: every file, with the first sentence of its docstring.

    python docs/gen_file_index.py

writes it anew. A test compares the page with the sources.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
HEADING = "## Every file"
ROOMS = ("configs", "isa", "frontend", "scheduler", "sim", "rtl", "lathe", "benchmarks")
INTRODUCTION = (
    "The first sentence of each file, written by `python docs/gen_file_index.py`. Tests mirror the rooms; random "
    "programs "
    "of the scheduler are in `tests/scheduler/random_tests/`, makers of programs, streams and machines in "
    "`tests/generators/`, proofs of the RTL in `tests/formal/`, simulator against RTL in `tests/cosim/`."
)


def sentence_of(source: str) -> str:
    """The first paragraph of a module's docstring in Markdown, on one line."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    line = " ".join(docstring.split("\n\n")[0].split())
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r":mod:`([^`]+)`", r"`\1`", line)).rstrip(":.")


def files_of(room: str) -> list[Path]:
    """The files of a room, without the rooms that ``lathe`` links to."""
    found = (path for path in (ROOT / room).rglob("*.py") if path.name != "__main__.py")
    links = {path for path in (ROOT / room).iterdir() if path.is_symlink()}
    kept = (path.relative_to(ROOT) for path in found if not links & set(path.parents))
    return sorted(kept, key=lambda path: (path.parent, path.name))


def section() -> str:
    """The section as it should be."""
    lines = [HEADING, "", INTRODUCTION]
    folder = None
    for path in (path for room in ROOMS for path in files_of(room)):
        told = sentence_of((ROOT / path).read_text(encoding="utf-8"))
        if path.name == "__init__.py":
            continue
        if path.parent != folder:
            folder = path.parent
            package = ROOT / folder / "__init__.py"
            about = sentence_of(package.read_text(encoding="utf-8")) if package.exists() else ""
            lines += ["", f"**`{folder.as_posix()}/`**" + (f": {about}" if about else ""), ""]
        lines.append(f"- `{path.name}`: {told}")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with that section at its end."""
    return PAGE.read_text(encoding="utf-8").split(f"{HEADING}\n")[0] + section()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
