"""Mutation testing: each fault applies to the source, is removed again, and a few are caught on one small case."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import compiler, hardware, simulator
from mutations.cases import Case
from mutations.fault import Fault, PlantError, functions_of, planted
from overlapping_streams import overlapping_stream

from lathe.configs import load_config
from lathe.rtl.engines import pysim
from lathe.sim import timeline

ROOT = Path(__file__).parents[2]
KINDS = [simulator.SIMULATOR, hardware.HARDWARE]
CAUGHT_SOON = {
    simulator.SIMULATOR: ["the base of a LOAD in its scratchpad is one too far", "a token is there a cycle early"],
    hardware.HARDWARE: ["out takes the second byte of a value", "loads are done a cycle late"],
}


@pytest.fixture(scope="module")
def case():
    cfg = load_config("tiny")
    found = Case("overlap", cfg, [overlapping_stream(random.Random(6), cfg, 5)])
    assert (len(found.right), len(found.ran)) == (1, 1)
    return found


def seen(kind, case):
    """The verdicts of the nets of a kind on the case."""
    if kind is simulator.SIMULATOR:
        return simulator.look(case)
    return hardware.look(pysim.build(case.config), case)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", [*KINDS, compiler.COMPILER], ids=lambda kind: kind.name)
def test_every_fault_fits_the_source(kind):
    for fault in kind.faults:
        with planted(fault):
            pass
    assert len({fault.name for fault in kind.faults}) == len(kind.faults) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nothing_is_caught_where_there_is_no_fault(kind, case):
    assert seen(kind, case) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [pytest.param(kind, name, id=name) for kind, names in CAUGHT_SOON.items() for name in names]
)
def test_a_fault_is_caught_and_removed(kind, name, case):
    (fault,) = (fault for fault in kind.faults if fault.name == name)
    with planted(fault):
        assert seen(kind, case) != {}
    if kind is simulator.SIMULATOR:
        assert seen(kind, case) == {}


def codes():
    """The code of the function in which a fault is planted."""
    return [each.__code__ for each in functions_of(timeline)["Timeline.finish"]]


def failing(fault):
    """Raise an exception while a fault is planted; returns the code at that time."""
    with planted(fault):
        raise ValueError(codes())


def test_a_fault_is_removed_after_an_exception():
    (fault,) = (fault for fault in simulator.FAULTS if fault.name == "a token is there a cycle early")
    before = codes()
    with pytest.raises(ValueError) as raised:
        failing(fault)
    assert raised.value.args != (before,)
    assert codes() == before


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("no such text", "", "must have its text once in lathe.sim.timeline, not 0 times"),
        ("self.", "", "must have its text once in lathe.sim.timeline, not "),
        ("append(end + 1)", "append(\nend)", "must keep the number of lines"),
        ("UNITS = 3", "UNITS = 4", "changes no function of lathe.sim.timeline"),
    ],
)
def test_a_fault_that_does_not_fit_is_refused(before, after, message):
    with pytest.raises(PlantError, match=message), planted(Fault("some", "lathe.sim.timeline", before, after)):
        pass


@pytest.mark.nightly
def test_every_fault_is_caught():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "mutation_testing.py", "--json"], capture_output=True, text=True
    )
    assert [row for row in json.loads(done.stdout) if row["met"] is False] == []
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "net"),
    [
        ("the base of weights is one too far", "validation"),
        ("writers do not wait for readers", "verifier"),
        ("a condition on a factor is dropped", "values"),
    ],
)
def test_a_fault_of_the_compiler_is_caught_and_removed(name, net):
    (fault,) = (fault for fault in compiler.FAULTS if fault.name == name)
    recipes = [*compiler.RECIPES, *compiler.MORE_RECIPES]
    recipe = next(each for each in recipes if each.name == ("triangle" if net == "values" else "product in tiles"))
    assert compiler.look(recipe) == {}
    with planted(fault):
        assert net in compiler.look(recipe)
    assert compiler.look(recipe) == {}
