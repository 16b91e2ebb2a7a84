"""``docs/decisions/index.md``: all decisions by area, with number, title and status.

    python docs/gen_decision_index.py

writes it from the heads of the pages: ``# 001. Title``, ``Status: accepted`` or ``Status: superseded by 002``, and
``Area:`` with one of ``AREAS``. A test compares the page with them.
"""

import re
from pathlib import Path
from typing import NamedTuple

DECISIONS = Path(__file__).parent / "decisions"
INDEX = DECISIONS / "index.md"
AREAS = (
    "project", "machine description", "ISA", "front end", "schedule language", "legality", "layouts", "passes",
    "tiling and cost", "code generation", "instruction stream", "simulator", "RTL", "engines", "networks",
    "autotuning", "sweeps", "reports", "validation", "tests", "performance",
)  # fmt: skip
HEAD = re.compile(r"# (\d{3})\. (.+)\s+Status: (accepted|superseded by \d{3})\s+Area: (.+)\n")
TOP = """\
# Decisions

One page per decision: what was decided, why, what was measured, and which alternatives were rejected. Files that a page
names may have been renamed or removed since. `python docs/gen_decision_index.py` writes this list.
"""
CONTENTS = """
```{toctree}
:glob:
:hidden:
:maxdepth: 1

[0-9]*
```
"""


class Decision(NamedTuple):
    """The head of a decision's page."""

    file: str
    number: str
    title: str
    status: str
    area: str


def decision_of(path: Path) -> Decision:
    """The head of a page. Raises ValueError if it lacks number, title, status or area."""
    match = HEAD.match(path.read_text(encoding="utf-8"))
    if match is None or match[1] != path.name[:3] or match[4] not in AREAS:
        raise ValueError(
            f"{path.name} must start with '# {path.name[:3]}. Title', 'Status: accepted' or 'Status: superseded by "
            f"NNN', and 'Area: ' with one of {', '.join(AREAS)}."
        )
    return Decision(path.name, *match.groups())


def page(folder: Path = DECISIONS) -> str:
    """The index of the pages in a folder."""
    decisions = [decision_of(path) for path in sorted(folder.glob("[0-9]*.md"))]
    sections = []
    for area in AREAS:
        listed = [each for each in decisions if each.area == area]
        lines = [f"- [{each.number}. {each.title}]({each.file}): {each.status}" for each in listed]
        if lines:
            sections += ["", f"## {area[0].upper()}{area[1:]}", "", *lines]
    return TOP + "\n".join(sections) + "\n" + CONTENTS


if __name__ == "__main__":
    INDEX.write_text(page(), encoding="utf-8")
