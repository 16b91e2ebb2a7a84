"""The store of a sweep: rows are written one by one, other files are left unchanged, earlier versions are migrated."""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from error_checks import check_mentions, raises

import lathe.sweeps.store as store_module
from lathe.sweeps.errors import SweepError
from lathe.sweeps.store import APPLICATION, MIGRATIONS, VERSION, StoredRow, reading_store, writing_store


def row(point="p", index=0, sources="s", status="ok", **columns):
    return StoredRow(point, index, sources, status, 0.5, {"cycles": 3, **columns})


def rows_of(path):
    with reading_store(path) as store:
        return store.rows()


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_rows_are_read_in_grid_order(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        for index in (2, 0, 1):
            store.write(row(f"point {index}", index))
    assert [each.place for each in rows_of(path)] == [0, 1, 2]
    assert [each.name for each in tmp_path.iterdir()] == ["r.db"]


def test_a_row_can_be_read_as_soon_as_it_is_written(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        assert rows_of(path) == []
        store.write(row())
        assert rows_of(path) == [row()]


def test_a_row_is_stored_with_its_layers(tmp_path):
    layers = {"layer": ["one", "two"], "cycles": [2, 1], "bytes": [7, 9]}
    with writing_store(tmp_path / "r.db") as store:
        store.write(replace(row(), layers=layers))
    assert [each.layers for each in rows_of(tmp_path / "r.db")] == [layers]


def test_a_point_has_one_row_the_last_one(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row(sources="old"))
        assert store.measured("new") == set()
        store.write(row(sources="new", cycles=4))
        assert store.measured("new") == {"p"}
        assert store.measured("new", but=("ok",)) == set()
    assert rows_of(path) == [row(sources="new", cycles=4)]


def test_the_header_has_the_application_and_the_version(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        head = path.read_bytes()[:100]  # also before the log is merged into the file
        store.write(row())
    assert int.from_bytes(head[68:72], "big") == APPLICATION
    assert int.from_bytes(head[60:64], "big") == VERSION == len(MIGRATIONS)
    with sqlite3.connect(path) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)


def earlier(path, version):
    """A store of an earlier version, with one row."""
    with sqlite3.connect(path) as connection:
        for step in MIGRATIONS[:version]:
            connection.execute(step)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {version}")
        columns = (json.dumps({"cycles": 3}),)
        connection.execute(
            "insert into rows (point, place, sources, status, seconds, content) values ('p', 0, 's', 'ok', 0.5, ?)",
            columns,
        )
    connection.close()


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_earlier_version_is_migrated_with_its_rows(version, tmp_path):
    earlier(tmp_path / "r.db", version)
    with writing_store(tmp_path / "r.db") as store:
        assert store.rows() == [row()]
        store.write(row("q", 1))
    assert rows_of(tmp_path / "r.db") == [row(), row("q", 1)]
    assert (tmp_path / "r.db").read_bytes()[63] == VERSION


@pytest.mark.parametrize("version", range(1, VERSION))
def test_an_earlier_version_is_read_and_not_changed(version, tmp_path):
    earlier(tmp_path / "r.db", version)
    before = files(tmp_path)
    assert rows_of(tmp_path / "r.db") == [row()]
    assert files(tmp_path) == before


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table rows (a)")
        connection.execute("pragma application_id = 7")
    connection.close()


def newer(path):
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute("pragma journal_mode = delete")
        connection.execute("pragma user_version = 99")
    connection.close()


def newer_in_its_log(path):
    """As after a killed writer: the later version is only in the log."""
    with writing_store(path) as store:
        store.write(row())
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('pragma user_version = 99'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True)
    assert path.with_name(f"{path.name}-wal").stat().st_size
    assert path.read_bytes()[63] == VERSION


def large(path):
    with writing_store(path) as store:
        for index in range(200):
            store.write(row(f"point {index}", index, text="x" * 200))


def damaged(path):
    large(path)
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xa5" * 4096 * 3
    path.write_bytes(content)


def cut(path):
    large(path)
    path.write_bytes(path.read_bytes()[: 4096 * 3])


def changed(path, statement):
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute("pragma journal_mode = delete")
        connection.execute(statement)
    connection.close()


def versionless(path):
    changed(path, "pragma user_version = 0")


def older_than_it_is(path):
    changed(path, "pragma user_version = 2")


def without_a_column(path):
    changed(path, "alter table rows drop column layers")


def with_a_damaged_name(path):
    changed(path, "create index a_name_of_an_index on rows (status)")
    path.write_bytes(path.read_bytes().replace(b"a_name_of_an_index", b"a_name\xff\xfe_an_index"))


def text(path):
    path.write_text("cycles\n1\n" * 50)


def short(path):
    path.write_bytes(b"SQLite format 3\0")


WRONG = {
    foreign: ("another application (0x7)",),
    newer: ("version is 99", "later", f"up to {VERSION}"),
    newer_in_its_log: ("version is 99", "later", f"up to {VERSION}"),
    damaged: ("damaged",),
    cut: ("damaged",),
    versionless: ("damaged", "version is 0"),
    older_than_it_is: (
        "damaged",
        "columns are point, place, sources, status, seconds, content, layers, run",
        "not point, place, sources, status, seconds, content.",
    ),
    without_a_column: (
        "damaged",
        "columns are point, place, sources, status, seconds, content, run",
        "not point, place, sources, status, seconds, content, layers, run",
    ),
    with_a_damaged_name: ("damaged",),
    text: ("not an SQLite database",),
    short: ("not an SQLite database",),
}


def check_refused(error, path, *mentions):
    """Check that an error names a store that is refused and left unchanged."""
    check_mentions(error, f"store {str(path)!r}", *mentions, "unchanged", "another file")


@pytest.mark.parametrize("opened", [writing_store, reading_store])
@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_another_file_is_refused_and_left_unchanged(make, opened, tmp_path):
    path = tmp_path / "r.db"
    make(path)
    before = files(tmp_path)
    with pytest.raises(SweepError) as caught, opened(path):
        pass
    check_refused(caught.value, path, *WRONG[make])
    assert files(tmp_path) == before


def test_a_damaged_store_with_a_log_is_left_unchanged(tmp_path):
    damaged(tmp_path / "r.db")
    (tmp_path / "r.db-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(28))
    before = files(tmp_path)
    with pytest.raises(SweepError), writing_store(tmp_path / "r.db"):
        pass
    assert files(tmp_path) == before


@pytest.mark.parametrize("text", ["{", "[1]", None, b"\xff"])
def test_a_row_with_invalid_content_is_damage(text, tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute("update rows set content = ?", ("" if text is None else text,))
    connection.close()
    before = path.read_bytes()
    check_refused(
        raises(SweepError, rows_of, path), path, "damaged", f"row contains {('' if text is None else text)!r}"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("column", ["content", "point", "status"])
def test_invalid_text_is_damage(column, tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute(f"update rows set {column} = cast(x'ff41' as text)")
    connection.close()
    check_refused(raises(SweepError, rows_of, path), path, "damaged", "Could not decode")


@pytest.mark.sample(22)
@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_are_reported_wherever_they_are(seed, tmp_path):
    path = tmp_path / "r.db"
    large(path)
    chance, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 10, 40])):
        content[chance.randrange(60, chance.choice([200, 4096, len(content)]))] = chance.randrange(256)
    path.write_bytes(content)
    before = files(tmp_path)
    with contextlib.suppress(SweepError):
        rows_of(path)
    assert files(tmp_path) == before
    try:
        with writing_store(path) as store:
            store.rows()
    except SweepError as error:
        check_refused(error, path)


@pytest.mark.parametrize(
    ("column", "value"), [("status", b"ok"), ("place", "x"), ("seconds", "late"), ("sources", b"")]
)
def test_a_row_of_other_kinds_of_values_is_damage(column, value, tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute(f"update rows set {column} = ?", (value,))
    connection.close()
    check_refused(raises(SweepError, rows_of, path), path, "damaged", "row contains")


def test_a_missing_and_an_empty_file_are_refused(tmp_path):
    check_refused(raises(SweepError, rows_of, tmp_path / "no.db"), tmp_path / "no.db", "no such file")
    (tmp_path / "empty.db").write_bytes(b"")
    check_refused(raises(SweepError, rows_of, tmp_path / "empty.db"), tmp_path / "empty.db", "empty")
    assert sorted(os.listdir(tmp_path)) == ["empty.db"]


def test_an_empty_file_can_become_a_store(tmp_path):
    (tmp_path / "r.db").write_bytes(b"")
    with writing_store(tmp_path / "r.db") as store:
        store.write(row())
    assert rows_of(tmp_path / "r.db") == [row()]


def filled(store):
    """The number of rows that are written to a store before it is full, and the error then."""
    for index in range(10_000):
        try:
            store.write(row(f"point {index}", index, text="x" * 300))
        except SweepError as error:
            return index, error
    raise AssertionError("it is never full")


def test_a_full_disk_is_an_error_and_the_store_opens(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.connection.execute("pragma max_page_count = 12")  # SQLite answers as for a full disk
        count, error = filled(store)
    check_mentions(error, f"store {str(path)!r}", "database or disk is full", "free some space", "same command")
    assert count > 0
    assert len(rows_of(path)) == count
    with writing_store(path) as store:
        store.write(row("more", count))
    assert len(rows_of(path)) == count + 1


def test_a_store_that_is_locked_for_long_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "SECONDS", 0.1)
    path = tmp_path / "r.db"
    with writing_store(path) as store, writing_store(path) as other:
        other.connection.execute("begin immediate")
        mentions = (f"store {str(path)!r}", "database is locked", "other writer", "same command")
        raises(SweepError, store.write, row(), mentions=mentions)
