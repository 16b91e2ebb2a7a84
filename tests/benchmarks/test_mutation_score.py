"""Mutation score of the default tests: the drawn faults, the changes, and the report, on a small project."""

import json
from pathlib import Path

import pytest
from mutation_score import Fault, changed, draw, rows

SOURCE = '''
"""Two functions."""


def checked(a: int) -> int:
    """Text that stays: 1 + 1."""
    if a > 3:
        return a + 1
    return 0


def unchecked(a: int) -> bool:
    return a == 2 and not a


def called(a: int) -> int:
    return a + 7
'''


@pytest.fixture
def project(tmp_path):
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "code.py").write_text(SOURCE)
    (tmp_path / "test_code.py").write_text(
        "from sim.code import called, checked\n\n\ndef test_it():\n    called(1)\n    assert checked(4) == 5\n"
    )
    return tmp_path


def changes(root: Path, function: str) -> list[str]:
    found = []
    while True:
        try:
            text, change = changed(root, Fault("sim/code.py", function, len(found), ""))
        except IndexError:
            return found
        assert '"""Text that stays: 1 + 1."""' in text
        found.append(change)


def test_each_site_is_an_operator_a_constant_or_a_condition(project):
    assert changes(project, "checked") == [
        "a > 3 -> not a > 3",
        "a > 3 -> a >= 3",
        "3 -> 4",
        "a + 1 -> a - 1",
        "1 -> 2",
        "0 -> 1",
    ]
    assert changes(project, "unchecked") == [
        "a == 2 and (not a) -> a == 2 or not a",
        "a == 2 -> a != 2",
        "2 -> 3",
        "not a -> a",
    ]


def test_a_seed_draws_the_same_faults_each_time(project):
    assert draw(project, 5, 3) == draw(project, 5, 3)
    assert {fault.function for fault in draw(project, 5, 3)} == {"called", "checked", "unchecked"}


@pytest.mark.slow
def test_faults_that_tests_reach_and_notice_are_killed(project):
    faults = [Fault("sim/code.py", *each) for each in (("checked", 3, ""), ("called", 0, ""), ("unchecked", 2, ""))]
    found = list(rows(project, faults))
    assert [(row["reached"], row["killed"]) for row in found] == [(1, True), (1, False), (0, False)]
    assert found[0]["by"] == "test_code.py::test_it"
    assert json.loads(json.dumps(found)) == found
