"""Fixtures of the scheduler tests; folders are the packages of ``scheduler/``, and ``random_tests``.

Helper modules: ``nests``, ``convolutions``, ``queues`` and ``recurrent_programs`` have small programs; ``meanings`` and
``small_machine`` compare results with NumPy; ``executions``, ``folds``, ``rings``, ``padded`` and
``symbolic_execution`` execute schedules one instance after the other; ``refusals``, ``limits``, ``stated`` and
``unchecked`` check that refusals are justified, and ``shares`` how frequent they are.
"""

from collections.abc import Callable

import pytest
from nests import check, levels

from lathe.scheduler import Schedule
from lathe.scheduler.codegen import driver


@pytest.fixture
def loads_as_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable scheduling of the prologue: its LOADs stay as emitted."""
    monkeypatch.setattr(driver, "schedule_prologue", lambda entries, _: entries)


@pytest.fixture
def golden_and_right(golden: Callable[[str], None]) -> Callable[[Schedule], None]:
    """Compare a schedule's order, loops and chunks with the golden file, and its results with NumPy."""

    def compare(schedule: Schedule) -> None:
        golden(levels(schedule))
        check(schedule)

    return compare
