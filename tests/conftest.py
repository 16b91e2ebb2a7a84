"""Shared by all tests: golden texts, blocks of seeds, recorded streams, and restoring of the registry of rules."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent

# Tests start hundreds of processes. If Python may not write bytecode next to the sources, each of them would compile
# all of Lathe again, for seconds: bytecode is then written to the folder of pytest's cache.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(TESTS.parent / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from lathe.scheduler.isel.rules import RULES  # noqa: E402 - after bytecode has its folder

GOLDEN = TESTS / "golden"
VTA_STREAMS = Path(__file__).parents[2] / "shared" / "vta_streams"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")
    parser.addoption("--first-seed", type=int, metavar="N", help="the seed that nightly tests begin with, for new ones")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vta_stream" in metafunc.fixturenames:
        metafunc.parametrize("vta_stream", recorded_streams())
    if (mark := metafunc.definition.get_closest_marker("seeds")) is not None:
        options, first = dict(mark.kwargs), metafunc.config.getoption("--first-seed")
        if first is not None and metafunc.definition.get_closest_marker("nightly"):
            options["first"] = first
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", blocks_of_seeds(*mark.args, **options, block=0))
        else:
            metafunc.parametrize("seeds", blocks_of_seeds(*mark.args, **options))


def blocks_of_seeds(count: int, *, slow: int = 0, first: int = 0, block: int = 20) -> list[Any]:
    """The seeds of ``@pytest.mark.seeds``, in blocks that workers run in parallel; single seeds for block 0.

    Of the ``slow`` seeds beyond ``count``, a twelfth is marked slow, and the others nightly.
    """
    found: list[Any] = []
    for seeds, slower in ((range(first, first + count), False), (range(first + count, first + count + slow), True)):
        blocks = seeds if block == 0 else [seeds[start : start + block] for start in range(0, len(seeds), block)]
        for number, each in enumerate(blocks):
            marks = [pytest.mark.nightly if number % 12 else pytest.mark.slow] if slower else []
            found.append(pytest.param(each, id=str(each) if block == 0 else f"{each[0]}-{each[-1]}", marks=marks))
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Apply ``@pytest.mark.sample(n)``: n of a test's parameter sets run by default (of a slow test: if slow ones run).

    They are evenly spread. Of the others every eighth is slow (of a slow test: none), and the rest are nightly.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("nightly"):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "slow"]
        elif item.get_closest_marker("sample"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in tests.values():
        (count,) = (mark.args[0] for mark in [each[0].get_closest_marker("sample")] if mark is not None)
        chosen = {n * len(each) // count for n in range(min(count, len(each)))}
        others = [item for position, item in enumerate(each) if position not in chosen]
        for position, item in enumerate(others):
            is_slow = item.get_closest_marker("slow") is not None
            item.own_markers = [mark for mark in item.own_markers if mark.name != "slow"]
            item.add_marker(pytest.mark.nightly if is_slow or position % 8 else pytest.mark.slow)


def recorded_streams() -> list[Any]:
    """The recorded streams of VTA's compiler, in a folder next to the repository; a skipped test if there are none."""
    if not (paths := sorted(VTA_STREAMS.glob("*.npz"))):
        return [pytest.param(None, marks=pytest.mark.skip(f"no recorded streams in {VTA_STREAMS}"), id="none")]
    return [pytest.param(path, id=path.stem) for path in paths]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with the test's golden file, ``golden/PACKAGE/…/MODULE/TEST.txt``.

    ``--update-golden`` writes the file instead; the diff then has to be reviewed.
    """
    path = GOLDEN / request.path.relative_to(TESTS).with_suffix("") / f"{request.node.name}.txt"

    def compare(text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path.name}: run once with --update-golden and look at it"
        assert text == path.read_text()

    return compare


@pytest.fixture(autouse=True)
def registry_as_it_was() -> Iterator[None]:
    """Remove the emission rules that a test registers after it, so that tests do not depend on each other."""
    rules = dict(RULES)
    yield
    RULES.clear()
    RULES.update(rules)
