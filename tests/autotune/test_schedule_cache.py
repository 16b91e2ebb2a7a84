"""The schedule cache: entries are read and checked again, and an unusable file is never an obstacle."""

import json
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Barrier

import pytest
from error_checks import raises

import lathe as lt
from lathe.autotune.cache_rows import digest_of
from lathe.autotune.schedule_cache import APPLICATION, VERSION, CachedSchedule, key_of

VTA = lt.load_config("vta")


def product(rows=64):
    data, weights = (lt.placeholder((n, 64), "int8", name=name) for n, name in ((rows, "data"), (96, "weights")))
    return lt.requantise(lt.matmul(data, weights, transpose_b=True, name="product"), 8, name="output")


def test_a_result_is_read_from_the_cache(cache, searches):
    first, second = (lt.autoschedule(product(), VTA, budget=5, cache=cache) for _ in range(2))
    assert len(searches) == 1
    assert (first.steps, first.cycles, first.tried) == (second.steps, second.cycles, second.tried)
    assert first.script == second.script


def test_another_program_machine_or_budget_is_another_search(cache, searches):
    lt.autoschedule(product(), VTA, budget=3, cache=cache)
    lt.autoschedule(product(48), VTA, budget=3, cache=cache)
    lt.autoschedule(product(), VTA.with_(**{"memory.latency": 5}), budget=3, cache=cache)
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert len(searches) == 4
    assert key_of([product()], VTA, 3) == key_of([product()], VTA, 3)


def test_the_default_file_is_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "mine"))
    lt.autoschedule(product(), VTA, budget=2)
    assert (tmp_path / "mine" / "schedules.db").is_file()


def test_nothing_is_written_without_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "mine"))
    lt.autoschedule(product(), VTA, budget=2, cache=False)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "content", [b"no database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "torn"]
)
def test_a_damaged_file_is_renamed_and_replaced(cache, content, searches):
    cache.path.write_bytes(content)
    for _ in range(2):
        lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert len(searches) == 1
    assert (cache.path.parent / "schedules.db.unreadable").read_bytes() == content


def test_a_file_of_another_version_is_replaced(cache):
    with sqlite3.connect(cache.path) as other:
        other.execute("create table schedules (x)")
        other.execute(f"pragma application_id = {APPLICATION}")
        other.execute(f"pragma user_version = {VERSION + 1}")
    other.close()
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert (cache.path.parent / "schedules.db.unreadable").is_file()
    assert cache.read(key_of([product()], VTA, 2)) is not None


def test_the_log_of_a_replaced_file_is_renamed_with_it(cache):
    """If another version still has the file open, its last rows are in its log."""
    other = sqlite3.connect(cache.path)
    other.execute("pragma journal_mode = wal")
    other.execute(f"pragma application_id = {APPLICATION}")
    other.execute(f"pragma user_version = {VERSION + 1}")
    other.execute("create table schedules (x)")
    other.commit()
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert cache.path.with_name("schedules.db.unreadable-wal").is_file()
    other.close()
    assert cache.read(key_of([product()], VTA, 2)) is not None


def test_another_applications_database_is_refused_and_left_unchanged(cache):
    with sqlite3.connect(cache.path) as other:
        other.execute("create table mine (x)")
    other.close()
    before = cache.path.read_bytes()
    mentions = (repr(str(cache.path)), f"version {VERSION}", "application 0x0", "version 0")
    raises(lt.ScheduleCacheError, lt.autoschedule, product(), VTA, budget=2, cache=cache, mentions=mentions)
    assert cache.path.read_bytes() == before
    assert [each.name for each in cache.path.parent.iterdir()] == ["schedules.db"]


def test_a_locked_file_is_not_used(cache, monkeypatch):
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    monkeypatch.setattr("lathe.autotune.schedule_cache.SECONDS", 0.01)
    holder = sqlite3.connect(cache.path, isolation_level=None)
    holder.execute("begin exclusive")
    found = lt.autoschedule(product(48), VTA, budget=2, cache=cache)
    holder.execute("rollback")
    holder.close()
    assert found.tried[0].what == "default schedule"
    assert cache.read(key_of([product(48)], VTA, 2)) is None


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "steps",
    [
        [{"command": "compute_at", "about": "output", "host": "product", "loops": [["data", 0, ""]]}],
        [{"command": "split", "about": "nothing", "loops": [["data", 0, ""]], "factor": 2}],
        [{"command": "import os", "about": "output"}],
        [{"command": "split", "about": "output", "factor": 2}],
        [{"command": "cache_read", "about": "data", "scope": "inp"}],
        "no list",
    ],
    ids=["illegal", "no stage", "no command", "no loop", "no reader", "no steps"],
)
def test_primitives_are_checked_when_they_are_read(cache, steps, searches):
    """An entry with illegal or invalid primitives is tuned again, and never gives a wrong schedule."""
    right = lt.autoschedule(product(), VTA, budget=3, cache=cache)
    with sqlite3.connect(cache.path) as connection:
        key, cycles, tried = connection.execute("select key, cycles, tried from schedules").fetchone()
        digest = digest_of(key, json.dumps(steps), cycles, tried)  # so that the primitives are replayed
        connection.execute("update schedules set steps = ?, digest = ?", (json.dumps(steps), digest))
    connection.close()
    searches.clear()
    found = lt.autoschedule(product(), VTA, budget=3, cache=cache)
    assert len(searches) == 1
    assert (found.steps, found.cycles) == (right.steps, right.cycles)
    assert cache.read(key_of([product()], VTA, 3)).steps == right.steps


def _write(path, rows):
    return lt.autoschedule(product(rows), VTA, budget=2, cache=lt.ScheduleCache(path)).cycles


@pytest.mark.slow
def test_several_processes_write_concurrently(cache):
    with ProcessPoolExecutor(4) as pool:
        cycles = list(pool.map(_write, [cache.path] * 8, range(16, 144, 16)))
    cached = [cache.read(key_of([product(rows)], VTA, 2)) for rows in range(16, 144, 16)]
    assert [each.cycles for each in cached] == cycles


def test_a_new_file_is_created_by_the_first_writer(tmp_path):
    """No other writer sees it incomplete, and no row is lost during its creation."""
    for attempt in range(12):
        path, start = tmp_path / f"{attempt}.db", Barrier(6)

        def write(number, path=path, start=start):
            start.wait()
            lt.ScheduleCache(path).write(f"key {number}", CachedSchedule((), 1 + number, ()))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        cached = [lt.ScheduleCache(path).read(f"key {number}") for number in range(6)]
        assert [each and each.cycles for each in cached] == [1, 2, 3, 4, 5, 6], attempt
        assert list(tmp_path.glob("*unreadable*")) == []


def test_export_and_include(cache, tmp_path, searches):
    for rows in (32, 64):
        lt.autoschedule(product(rows), VTA, budget=2, cache=cache)
    assert cache.export(tmp_path / "exported.db") == 2
    other = lt.ScheduleCache(tmp_path / "other.db")
    assert other.include(tmp_path / "exported.db") == 2
    searches.clear()
    lt.autoschedule(product(32), VTA, budget=2, cache=other)
    assert searches == []


def test_other_files_are_refused(cache, tmp_path):
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as other:
        other.execute("create table mine (x)")
    other.close()
    before = foreign.read_bytes()
    mentions = (repr(str(foreign)), f"version {VERSION}", "application 0x0", "version 0")
    for act in (cache.include, cache.export):
        raises(lt.ScheduleCacheError, act, foreign, mentions=mentions)
        assert foreign.read_bytes() == before
    missing, text = tmp_path / "nothing.db", tmp_path / "text.db"
    raises(lt.ScheduleCacheError, cache.include, missing, mentions=(repr(str(missing)), "no such file"))
    text.write_text("no database" * 100)
    mentions = (repr(str(text)), "file is not a database")
    raises(lt.ScheduleCacheError, cache.include, text, mentions=mentions)


def test_arguments():
    mentions = ("Path of a schedule cache", "not 3")
    raises(lt.ScheduleCacheError, lt.ScheduleCache, 3, mentions=mentions)
    raises(lt.ScheduleCacheError, lt.ScheduleCache("schedules.db").include, 3, mentions=mentions)
    mentions = ("cache of autoschedule", "ScheduleCache, True or False", "not 'schedules.db'")
    raises(lt.BuildError, lt.autoschedule, product(), VTA, cache="schedules.db", kind="argument", mentions=mentions)
