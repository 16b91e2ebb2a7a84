"""What the tests of the scheduler share: nests are shown and executed.

Folders are the rooms of ``scheduler/``, and ``random_tests``. The modules beside this one are for all of them:
``random_*`` make programs, schedules and commands; ``nests``, ``convolutions``, ``queues`` and ``recurrent_programs``
have small programs; ``meanings`` and ``machine`` hold what comes out against NumPy; ``executions``, ``folds``,
``rings``, ``padded`` and ``symbolic_execution`` carry schedules out one instance after the other; ``refusals``,
``limits``, ``stated`` and ``unchecked`` ask whether a refusal is right, and ``shares`` how often there is one.
"""

from collections.abc import Callable

import pytest
from nests import check, levels

from lathe.scheduler import Schedule
from lathe.scheduler.codegen import driver


@pytest.fixture
def loads_as_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first LOADs stay as they are and where they are."""
    monkeypatch.setattr(driver, "schedule_prologue", lambda entries, _: entries)


@pytest.fixture
def golden_and_right(golden: Callable[[str], None]) -> Callable[[Schedule], None]:
    """Compare a schedule's order, loops and chunks with the golden file, and what they compute with NumPy."""

    def compare(schedule: Schedule) -> None:
        golden(levels(schedule))
        check(schedule)

    return compare
