"""What the tests of the frontend share."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

GOLDEN = Path(__file__).parents[1] / "golden" / "frontend"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the file that bears the test's name; LATHE_UPDATE_GOLDEN=1 writes the file instead."""
    path = GOLDEN / f"{request.node.name}.txt"

    def compare(text: str) -> None:
        if os.environ.get("LATHE_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()

    return compare
