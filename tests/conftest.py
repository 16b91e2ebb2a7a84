"""What all tests share: golden texts, and a registry of rules that no test leaves changed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lathe.scheduler.rules.registry import RULES, SEPARATE_INIT

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the file that bears the test's name, ``golden/ROOM/MODULE/TEST.txt``.

    ``--update-golden`` writes the file. The flag is for texts that have been looked at: the change is in the diff.
    """
    path = GOLDEN / request.path.parent.name / request.path.stem / f"{request.node.name}.txt"

    def compare(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path.name}: run once with --update-golden and look at it"
        assert text == path.read_text()

    return compare


@pytest.fixture(autouse=True)
def registry_as_it_was() -> Iterator[None]:
    """Emission rules that a test registers are gone after it, so that no test depends on those before it."""
    rules, separate = dict(RULES), set(SEPARATE_INIT)
    yield
    RULES.clear()
    RULES.update(rules)
    SEPARATE_INIT.clear()
    SEPARATE_INIT.update(separate)
