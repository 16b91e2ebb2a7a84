"""Pages of the manual that are sessions run as they stand."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
SESSIONS = [path for path in sorted(DOCS.glob("*.md")) if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", SESSIONS, ids=lambda path: path.stem)
def test_a_session_in_the_manual_prints_what_it_shows(page: Path) -> None:
    failures, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.REPORT_NDIFF)
    assert tried
    assert failures == 0
