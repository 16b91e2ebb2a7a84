"""Found schedules in their file: read again, checked again, and never in the way."""

import json
import sqlite3
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Barrier

import pytest

import lathe as lt
from lathe.autotune.cache_rows import digest_of
from lathe.autotune.schedule_cache import APPLICATION, VERSION, CachedSchedule, key_of

VTA = lt.load_config("vta")


def product(rows=64):
    data, weights = (lt.placeholder((n, 64), "int8", name=name) for n, name in ((rows, "data"), (96, "weights")))
    return lt.requantise(lt.matmul(data, weights, transpose_b=True, name="product"), 8, name="output")


def test_what_was_found_is_read_again(cache, searches):
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


def test_the_default_file_is_in_the_folder_of_caches(tmp_path, monkeypatch):
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
def test_a_damaged_file_is_set_aside_and_begun_anew(cache, content, searches):
    cache.path.write_bytes(content)
    for _ in range(2):
        lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert len(searches) == 1
    assert (cache.path.parent / "schedules.db.unreadable").read_bytes() == content


def test_a_file_of_another_version_is_set_aside(cache):
    with sqlite3.connect(cache.path) as other:
        other.execute("create table schedules (x)")
        other.execute(f"pragma application_id = {APPLICATION}")
        other.execute(f"pragma user_version = {VERSION + 1}")
    other.close()
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert (cache.path.parent / "schedules.db.unreadable").is_file()
    assert cache.read(key_of([product()], VTA, 2)) is not None


def test_the_log_of_a_file_that_is_set_aside_goes_with_it(cache):
    """Of a file that another version still has open, what was written last is in a log beside it."""
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


def test_another_programs_database_is_refused_and_left_as_it_is(cache):
    with sqlite3.connect(cache.path) as other:
        other.execute("create table mine (x)")
    other.close()
    before = cache.path.read_bytes()
    with pytest.raises(lt.ScheduleCacheError, match="not of application 0x0 and version 0"):
        lt.autoschedule(product(), VTA, budget=2, cache=cache)
    assert cache.path.read_bytes() == before
    assert [each.name for each in cache.path.parent.iterdir()] == ["schedules.db"]


def test_a_locked_file_is_left_alone(cache, monkeypatch):
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    monkeypatch.setattr("lathe.autotune.schedule_cache.SECONDS", 0.01)
    holder = sqlite3.connect(cache.path, isolation_level=None)
    holder.execute("begin exclusive")
    found = lt.autoschedule(product(48), VTA, budget=2, cache=cache)
    holder.execute("rollback")
    holder.close()
    assert found.tried[0].what == "default schedule"
    assert cache.read(key_of([product(48)], VTA, 2)) is None


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
def test_commands_are_checked_when_they_are_read(cache, steps, searches):
    """A row that says something illegal or senseless is found anew, never a wrong schedule."""
    right = lt.autoschedule(product(), VTA, budget=3, cache=cache)
    with sqlite3.connect(cache.path) as connection:
        key, cycles, tried = connection.execute("select key, cycles, tried from schedules").fetchone()
        digest = digest_of(key, json.dumps(steps), cycles, tried)  # or else the commands are not looked at
        connection.execute("update schedules set steps = ?, digest = ?", (json.dumps(steps), digest))
    connection.close()
    searches.clear()
    found = lt.autoschedule(product(), VTA, budget=3, cache=cache)
    assert len(searches) == 1
    assert (found.steps, found.cycles) == (right.steps, right.cycles)
    assert cache.read(key_of([product()], VTA, 3)).steps == right.steps


def _write(path, rows):
    return lt.autoschedule(product(rows), VTA, budget=2, cache=lt.ScheduleCache(path)).cycles


def test_several_processes_write_at_a_time(cache):
    with ProcessPoolExecutor(4) as pool:
        made = list(pool.map(_write, [cache.path] * 8, range(16, 144, 16)))
    kept = [cache.read(key_of([product(rows)], VTA, 2)) for rows in range(16, 144, 16)]
    assert [each.cycles for each in kept] == made


def test_a_new_file_is_made_by_whoever_writes_first(tmp_path):
    """Nobody sees it half made, and nobody's row is lost while it is made."""
    for attempt in range(12):
        path, start = tmp_path / f"{attempt}.db", Barrier(6)

        def keep(number, path=path, start=start):
            start.wait()
            lt.ScheduleCache(path).write(f"key {number}", CachedSchedule((), 1 + number, ()))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(keep, range(6)))
        kept = [lt.ScheduleCache(path).read(f"key {number}") for number in range(6)]
        assert [each and each.cycles for each in kept] == [1, 2, 3, 4, 5, 6], attempt
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


def test_files_that_hold_something_else_are_refused(cache, tmp_path):
    lt.autoschedule(product(), VTA, budget=2, cache=cache)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as other:
        other.execute("create table mine (x)")
    other.close()
    before = foreign.read_bytes()
    message = (
        f"File of schedules {str(foreign)!r} must be Lathe's, of version {VERSION}, not of application 0x0 and version "
        "0. Name another file."
    )
    for act in (cache.include, cache.export):
        with pytest.raises(lt.ScheduleCacheError) as refused:
            act(foreign)
        assert str(refused.value) == message
        assert foreign.read_bytes() == before
    with pytest.raises(lt.ScheduleCacheError) as refused:
        cache.include(tmp_path / "nothing.db")
    assert str(refused.value) == f"File of schedules must be one that there is, not {str(tmp_path / 'nothing.db')!r}."
    text = tmp_path / "text.db"
    text.write_text("no database" * 100)
    with pytest.raises(lt.ScheduleCacheError, match="cannot be read: file is not a database"):
        cache.include(text)


def test_arguments():
    with pytest.raises(lt.ScheduleCacheError) as refused:
        lt.ScheduleCache(3)
    assert str(refused.value) == "Path of a schedule cache must be a file's, not 3."
    with pytest.raises(lt.ScheduleCacheError) as refused:
        lt.ScheduleCache("schedules.db").include(3)
    assert str(refused.value) == "Path of a schedule cache must be a file's, not 3."
    with pytest.raises(lt.BuildError) as wrong:
        lt.autoschedule(product(), VTA, cache="schedules.db")
    assert str(wrong.value) == "cache of autoschedule must be a ScheduleCache, True or False, not 'schedules.db'."
