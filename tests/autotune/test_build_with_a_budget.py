"""``build`` with a budget: the fastest candidate, cached with its program."""

import sqlite3
from importlib import import_module

import numpy as np
import pytest
from error_checks import raises

import lathe as lt
from lathe.scheduler.isel.rules import RULES

VTA = lt.load_config("vta")


def layer() -> tuple[lt.Tensor, list[lt.Tensor]]:
    data, weights = lt.placeholder((1, 12, 12, 32), "int8", name="data"), lt.placeholder((64, 32), "int8", name="w")
    flat = lt.reshape(data, (144, 32), name="flat")
    output = lt.requantise(lt.dense(flat, weights, name="product"), 7, name="output")
    return output, [data, weights, output]


def same(one: lt.Program, other: lt.Program) -> bool:
    return one.instructions == other.instructions and one.header() == other.header()


def counted(monkeypatch) -> list[object]:
    """A list that gets each program that is autotuned from now on."""
    searched: list[object] = []
    building = import_module("lathe.builder")
    original = building.autoschedule

    def autoschedule(program, *given, **options):
        searched.append(program)
        return original(program, *given, **options)

    monkeypatch.setattr(building, "autoschedule", autoschedule)
    return searched


def test_it_is_the_program_of_the_tuned_schedule(cache):
    output, tensors = layer()
    program = lt.build(output, tensors, VTA, budget=6, cache=cache)
    found = lt.autoschedule(output, VTA, budget=6, cache=False)
    assert same(program, lt.build(found, tensors, VTA))
    assert lt.simulate(program, timing_only=True).cycles == found.cycles


def test_a_cached_program_is_not_built_again(cache, monkeypatch):
    output, tensors = layer()
    first = lt.build(output, tensors, VTA, budget=6, cache=cache)
    searched = counted(monkeypatch)
    monkeypatch.setattr(import_module("lathe.builder"), "build_compiled", None)
    again, tensors_again = layer()
    assert same(lt.build(again, tensors_again, VTA, budget=6, cache=cache), first)
    assert searched == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "change",
    [
        {"config": VTA.with_(**{"memory.latency": 64})},
        {"budget": 5},
        {"constants": {"w": np.ones((64, 32), np.int8)}},
        {"check": True},
        {"cache": False},
    ],
    ids=["machine", "budget", "constants", "check", "cache"],
)
def test_a_cached_program_is_not_used_for_other_arguments(change, cache, monkeypatch):
    output, tensors = layer()
    lt.build(output, tensors, VTA, budget=6, cache=cache)
    searched = counted(monkeypatch)
    options = {"config": VTA, "budget": 6, "cache": cache, **change}
    lt.build(output, tensors, options.pop("config"), **options)
    assert len(searched) == 1


def test_damaged_bytes_are_not_used(cache, monkeypatch):
    output, tensors = layer()
    right = lt.build(output, tensors, VTA, budget=6, cache=cache)
    with sqlite3.connect(cache.path) as connection:
        ((content,),) = connection.execute("select content from programs").fetchall()
        connection.execute("update programs set content = ?", (content[:-100] + bytes(100),))
    searched = counted(monkeypatch)
    assert same(lt.build(output, tensors, VTA, budget=6, cache=cache), right)
    assert len(searched) == 1


def test_intact_bytes_that_are_no_program_are_not_used(cache):
    output, tensors = layer()
    right = lt.build(output, tensors, VTA, budget=6, cache=cache)
    with sqlite3.connect(cache.path) as connection:
        ((key,),) = connection.execute("select key from programs").fetchall()
    cache.write_bytes(key, b"no archive")
    assert cache.read_bytes(key) == b"no archive"
    assert same(lt.build(output, tensors, VTA, budget=6, cache=cache), right)


def test_programs_are_not_cached_while_user_defined_rules_are_registered(cache, monkeypatch):
    """Such a rule may emit other instructions the next time."""
    output, tensors = layer()
    lt.build(output, tensors, VTA, budget=6, cache=cache)
    searched = counted(monkeypatch)
    monkeypatch.setitem(RULES, "own", RULES["gemm"])
    lt.build(output, tensors, VTA, budget=6, cache=cache)
    assert len(searched) == 1


def test_a_partial_schedule_is_completed_and_not_cached(cache):
    output, tensors = layer()
    s = lt.create_schedule(output)
    s[output].split(s[output].axis[0], factor=16)
    program = lt.build(s, tensors, VTA, budget=4, cache=cache)
    assert lt.simulate(program, timing_only=True).cycles > 0
    assert not cache.path.exists()


def test_programs_are_exported_with_their_schedules(cache, tmp_path, monkeypatch):
    output, tensors = layer()
    right = lt.build(output, tensors, VTA, budget=6, cache=cache)
    assert cache.export(tmp_path / "exported.db") == 1
    other = lt.ScheduleCache(tmp_path / "other.db")
    other.include(tmp_path / "exported.db")
    searched = counted(monkeypatch)
    assert same(lt.build(output, tensors, VTA, budget=6, cache=other), right)
    assert searched == []


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("budget", [0, -1, 2.5, "many", None, True, False, np.True_])
def test_a_budget_must_be_a_number_of_candidates(budget, scheduled):
    output, tensors = layer()
    program = lt.create_schedule(output) if scheduled else output  # the cache is not used for a Schedule
    mentions = ("budget of build", "number of candidates", "at least 1", f"not {budget!r}")
    raises(lt.BuildError, lt.build, program, tensors, VTA, budget=budget, kind="argument", mentions=mentions)


def test_the_list_of_tensors_is_checked_before_the_search():
    output, tensors = layer()
    with pytest.raises(lt.BuildError, match="tensors"):
        lt.build(output, tensors[:1], VTA, budget=4)
