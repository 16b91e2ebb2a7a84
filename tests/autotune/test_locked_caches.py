"""A schedule cache that another process has locked: each build waits for it at most once."""

import sqlite3
from contextlib import closing

import pytest

import lathe as lt

VTA = lt.load_config("vta")
SECONDS = 0.02


@pytest.fixture
def waits(monkeypatch):
    """The timeout of each connection, in order."""
    timeouts = []
    connect = sqlite3.connect

    def recorded(path, **options):
        timeouts.append(options["timeout"])
        return connect(path, **options)

    monkeypatch.setattr("lathe.autotune.cache_lock.sqlite3.connect", recorded)
    monkeypatch.setattr("lathe.autotune.schedule_cache.SECONDS", SECONDS)
    return timeouts


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
    """A connection that holds a lock on a schedule cache."""
    cache.write_bytes("program x", b"something")
    holder = sqlite3.connect(cache.path, timeout=1, isolation_level=None)
    holder.execute(f"begin {lock}")
    return closing(holder)


@pytest.mark.parametrize(("act", "times"), [(build, 4), (search, 2)])
def test_no_connection_waits_after_a_timeout(act, times, cache, waits):
    with held(cache, "exclusive"):
        for _ in range(2):  # the next build waits again
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


def test_reads_do_not_wait_for_a_writer(cache, waits):
    """A lock for writing allows reads; the first write waits for it, and none after that."""
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
