"""``docs/api/files.md``: every source file, with the first paragraph of its docstring.

``docs/conf.py`` writes the page when the site is built; it is not kept in the repository. To read it without the site:

    python docs/gen_file_index.py
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "api" / "files.md"
PACKAGES = ("configs", "isa", "frontend", "scheduler", "sim", "rtl", "lathe", "benchmarks")
INTRODUCTION = """\
# Source files

Every file of the source with the first sentence of its docstring, generated when this site is built. The
[architecture](../architecture.md) explains how packages depend on each other.
"""


def first_sentence(source: str) -> str:
    """The first paragraph of a module's docstring in Markdown, on one line."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    line = " ".join(docstring.split("\n\n")[0].split())
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r":mod:`([^`]+)`", r"`\1`", line)).rstrip(":.")


def files_of(package: str) -> list[Path]:
    """The files of a package, without those of the packages that ``lathe`` links to."""
    files = (path for path in (ROOT / package).rglob("*.py") if path.name != "__main__.py")
    links = {path for path in (ROOT / package).iterdir() if path.is_symlink()}
    own = (path.relative_to(ROOT) for path in files if not links & set(path.parents))
    return sorted(own, key=lambda path: (path.parent, path.name))


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION.rstrip()]
    folder = None
    for path in (path for package in PACKAGES for path in files_of(package)):
        if path.name == "__init__.py":
            continue
        if path.parent != folder:
            folder = path.parent
            init = ROOT / folder / "__init__.py"
            about = first_sentence(init.read_text(encoding="utf-8")) if init.exists() else ""
            lines += ["", f"**`{folder.as_posix()}/`**" + (f": {about}" if about else ""), ""]
        lines.append(f"- `{path.name}`: {first_sentence((ROOT / path).read_text(encoding='utf-8'))}")
    return "\n".join(lines) + "\n"


def write_page() -> None:
    """Write the page, unless it is up to date: the site reads changed pages only."""
    text = page()
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_page()
