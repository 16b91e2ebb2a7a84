"""Validates every build, and runs programs on the RTL.

A test that runs programs has two variants: `sim`, and `rtl`, in which every simulation becomes a cosimulation without
a differing bit or cycle. The latter is nightly: that simulator and RTL agree is tested in `tests/cosim`. Of the shipped
machines, whose builds other tests share, a sixteenth is slow (of `lathe16`, which differs from `vta` only in padding,
if the test is about that).

Of a program for many machines, the simulator runs two by default: `vta`, and another that a hash of the program's name
selects, so that all machines are covered. The rest are slow.
"""

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from machines import ALL, ODD

import lathe as lt
from lathe.builder import validate_builds

RUNNERS = {"check_program", "simulate", "run_path"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = set(metafunc.function.__code__.co_names)
    if names & RUNNERS and "raises" not in names:
        metafunc.parametrize("side", ["sim", "rtl"], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    programs: dict[tuple[str, ...], dict[str, pytest.Item]] = {}
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        names = {value for value in params.values() if isinstance(value, str)}
        if params.get("side") == "rtl":
            odd = bool(names & set(ODD)) or ("lathe16" in names and "pad" not in item.name)
            others = odd or crc32(item.nodeid.encode()) % 16
            item.own_markers = [mark for mark in item.own_markers if mark.name != "slow"]
            item.add_marker(pytest.mark.nightly if others else pytest.mark.slow)
        elif params.get("side") == "sim" and len(machine := names & set(ALL)) == 1:
            others = [part for part in item.callspec.id.split("-") if part not in machine]
            programs.setdefault((item.nodeid.partition("[")[0], *others), {})[machine.pop()] = item
    for program, machines in programs.items():
        others = sorted(set(machines) - {"vta"})
        if len(others) > 1:
            del others[crc32(repr(program).encode()) % len(others)]
            for name in others:
                machines[name].add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes `lt.simulate` run the simulator or a cosimulation within the test."""
    if getattr(request, "param", "sim") == "sim":
        with validate_builds():
            yield
        return
    compared = 0

    def cosimulate(program: lt.Program, inputs: Any = None, **options: Any) -> lt.Result:
        nonlocal compared
        ran = lt.cosimulate(program, inputs, tokens=options.get("tokens")).check()
        assert list(ran.results) == ["sim", "verilator"]
        compared += 1
        return ran.first

    monkeypatch.setattr(lt, "simulate", cosimulate)
    yield
    assert compared, "the test has run no program"
