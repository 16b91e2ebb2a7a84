"""What the tests of this folder share: the modules beside them can be imported, and nests are shown and executed."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lathe.scheduler import Schedule

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def golden_and_right(golden: Callable[[str], None]) -> Callable[[Schedule], None]:
    """Compare a schedule's order, loops and chunks with the golden file, and what they compute with NumPy."""
    from nests import check, levels

    def compare(schedule: Schedule) -> None:
        golden(levels(schedule))
        check(schedule)

    return compare
