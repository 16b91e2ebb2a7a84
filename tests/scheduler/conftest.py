"""What the tests of this folder share: nests are shown and executed."""

from collections.abc import Callable

import pytest
from nests import check, levels

from lathe.scheduler import Schedule


@pytest.fixture
def golden_and_right(golden: Callable[[str], None]) -> Callable[[Schedule], None]:
    """Compare a schedule's order, loops and chunks with the golden file, and what they compute with NumPy."""

    def compare(schedule: Schedule) -> None:
        golden(levels(schedule))
        check(schedule)

    return compare
