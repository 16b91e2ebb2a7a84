"""``docs/architecture.md`` against the source: its rooms, its passes, and every file and folder that it names."""

import re
import tomllib
from pathlib import Path

import pytest

from lathe.scheduler.passes.complete import PASSES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table behind a line that begins with ``heading``, without its head."""
    lines = PAGE.split(f"\n{heading}", 1)[1].split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_rooms_stand_in_the_order_in_which_they_may_be_imported():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["lathe.scheduler"])
    rank = {room: len(layers) - n for n, layer in enumerate(layers) for room in layer.split(" | ")}
    named = [row[0].strip("`/") for row in rows("Inside `scheduler/`")]
    assert sorted(named) == sorted(rank)
    assert [rank[room] for room in named] == sorted(rank.values())


def test_passes_are_those_that_there_are_with_what_they_give():
    wanted = [[f"`{each.name}`", "; ".join(given.sentence for given in each.gives) or "–"] for each in PASSES]
    assert rows("## Passes") == wanted


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.(?:py|md))?)`", PAGE))))
def test_what_is_named_is_there(path):
    inside = ROOT / "scheduler" / path  # rooms of the scheduler are named by their own names
    assert (ROOT / path).exists() or inside.exists()


def test_at_most_twelve_files_lie_flat_in_the_scheduler():
    assert len(list((ROOT / "scheduler").glob("*.py"))) <= 12
