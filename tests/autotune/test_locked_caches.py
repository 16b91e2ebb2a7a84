"""A file of schedules that another process holds: each build waits for it once."""

import sqlite3
from contextlib import closing

import pytest

import lathe as lt

VTA = lt.load_config("vta")
SECONDS = 0.02


@pytest.fixture
def waits(monkeypatch):
    """How long each connection waits, in order."""
    found = []
    connect = sqlite3.connect

    def noted(path, **options):
        found.append(options["timeout"])
        return connect(path, **options)

    monkeypatch.setattr("lathe.autotune.cache_lock.sqlite3.connect", noted)
    monkeypatch.setattr("lathe.autotune.schedule_cache.SECONDS", SECONDS)
    return found


def copied():
    data = lt.placeholder((16, 16), "int8", name="data")
    output = lt.requantise(lt.compute((16, 16), lambda y, x: data[y, x].astype("int32") + 1, name="c"), 1, name="o")
    return output, [data, output]


def build(cache):
    output, tensors = copied()
    lt.build(output, tensors, VTA, budget=2, cache=cache)


def search(cache):
    lt.autoschedule(copied()[0], VTA, budget=2, cache=cache)


def explain(cache, monkeypatch):
    monkeypatch.setattr(lt.ScheduleCache, "default", classmethod(lambda _: cache))
    lt.explain(copied()[0], VTA, budget=2)


def held(cache, lock):
    """A connection that holds a lock on a file of schedules."""
    cache.write_bytes("program x", b"something")
    holder = sqlite3.connect(cache.path, timeout=1, isolation_level=None)
    holder.execute(f"begin {lock}")
    return closing(holder)


@pytest.mark.parametrize(("act", "times"), [(build, 4), (search, 2)])
def test_nobody_waits_again_after_a_wait_in_vain(act, times, cache, waits):
    with held(cache, "exclusive"):
        for _ in range(2):  # the next build waits anew
            waits.clear()
            act(cache)
            assert waits == [SECONDS, *[0] * (times - 1)]
    waits.clear()
    act(cache)
    assert set(waits) == {SECONDS}


def test_an_explanation_waits_once(cache, waits, monkeypatch):
    with held(cache, "exclusive"):
        waits.clear()
        explain(cache, monkeypatch)
    assert waits == [SECONDS, 0]


def test_what_can_be_read_while_somebody_writes_is_read_and_not_waited_for(cache, waits):
    """Who holds the file for writing lets others read; the first who would write waits, and nobody behind it."""
    with held(cache, "immediate"):
        waits.clear()
        build(cache)
    first = waits.index(0)
    assert waits[first:] == [0] * (len(waits) - first)
    assert waits[:first] == [SECONDS] * first
    with held(cache, "immediate"):
        assert cache.read_bytes("program x") == b"something"


def test_a_cache_outside_of_builds_waits_each_time(cache, waits):
    with held(cache, "exclusive"):
        waits.clear()
        for _ in range(2):
            assert cache.read_bytes("program x") is None
    assert waits == [SECONDS, SECONDS]
