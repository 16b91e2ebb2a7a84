"""Examples in the docstrings of primitives: a printed loop nest before and after."""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

from nests import text

from lathe.scheduler import Schedule


def before_and_after(command: object) -> tuple[str, str]:
    """The two indented blocks of a primitive's docstring, as text."""
    documentation = inspect.getdoc(command)
    assert documentation is not None
    blocks: list[list[str]] = []
    for line in documentation.splitlines():
        if line.endswith("::"):
            blocks.append([])
        elif blocks and (line.startswith("    ") or not line) and not (blocks[-1] and blocks[-1][-1] == "END"):
            blocks[-1].append(line)
        elif blocks:
            blocks[-1].append("END")
    texts = []
    for block in blocks:
        lines = [line for line in block if line and line != "END"]
        texts.append(textwrap.dedent("\n".join(lines)) + "\n")
    before, after = texts
    return before, after


@contextmanager
def as_documented(command: object, schedule: Schedule, *stages: str) -> Iterator[None]:
    """Fail unless the ``with`` body changes the nest from the docstring's first block to its second."""
    before = text(schedule, *stages)
    yield
    assert (before, text(schedule, *stages)) == before_and_after(command)
