"""The store of a sweep: rows as they come, other files left alone, earlier versions brought to this one."""

import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

import lathe.sweeps.store as store_module
from lathe.sweeps.errors import SweepError
from lathe.sweeps.store import APPLICATION, MIGRATIONS, VERSION, StoredRow, reading_store, writing_store


def row(point="p", place=0, sources="s", status="ok", **columns):
    return StoredRow(point, place, sources, status, 0.5, {"cycles": 3, **columns})


def rows_of(path):
    with reading_store(path) as store:
        return store.rows()


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_rows_are_kept_in_the_order_of_their_places(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        for place in (2, 0, 1):
            store.write(row(f"point {place}", place))
    assert [each.place for each in rows_of(path)] == [0, 1, 2]
    assert [each.name for each in tmp_path.iterdir()] == ["r.db"]


def test_a_row_is_there_for_others_as_soon_as_it_is_written(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        assert rows_of(path) == []
        store.write(row())
        assert rows_of(path) == [row()]


def test_a_row_keeps_what_its_layers_cost(tmp_path):
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


def test_the_file_says_whose_it_is_and_of_which_version(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        head = path.read_bytes()[:100]  # also before the log is brought into the file
        store.write(row())
    assert int.from_bytes(head[68:72], "big") == APPLICATION
    assert int.from_bytes(head[60:64], "big") == VERSION == len(MIGRATIONS)
    with sqlite3.connect(path) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)


def earlier(path, version):
    """A store as an earlier version has made it, with one row."""
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
def test_an_earlier_version_is_brought_to_this_one_with_its_rows(version, tmp_path):
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
    """As a writer leaves it that is killed: the file itself is of this version."""
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
        for place in range(200):
            store.write(row(f"point {place}", place, text="x" * 200))


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
    foreign: "must be a store of a sweep, and is another program's database (application 0x7)",
    newer: f"must be of version {VERSION} or below, and is of version 99, which a later Lathe has written",
    newer_in_its_log: f"must be of version {VERSION} or below, and is of version 99, which a later Lathe has written",
    damaged: "must be whole, and is damaged: ",
    cut: "must be whole, and is damaged: ",
    versionless: "must be whole, and is damaged: it is of version 0, which there has never been",
    older_than_it_is: (
        "must be whole, and is damaged: its columns are point, place, sources, status, seconds, content, layers, run, "
        "not point, place, sources, status, seconds, content"
    ),
    without_a_column: (
        "must be whole, and is damaged: its columns are point, place, sources, status, seconds, content, run, not "
        "point, place, sources, status, seconds, content, layers, run"
    ),
    with_a_damaged_name: "must be whole, and is damaged: ",
    text: "must be a store of a sweep, and is no database of SQLite",
    short: "must be a store of a sweep, and is no database of SQLite",
}


@pytest.mark.parametrize("opened", [writing_store, reading_store])
@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_another_file_is_refused_in_words_and_left_as_it_is(make, opened, tmp_path):
    path = tmp_path / "r.db"
    make(path)
    before = files(tmp_path)
    with pytest.raises(SweepError) as caught, opened(path):
        pass
    assert str(caught.value).startswith(f"The store {str(path)!r} {WRONG[make]}")
    assert str(caught.value).endswith(". It was left as it is; name another file.")
    assert files(tmp_path) == before


def test_a_damaged_store_with_a_log_is_left_as_it_is(tmp_path):
    damaged(tmp_path / "r.db")
    (tmp_path / "r.db-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(28))
    before = files(tmp_path)
    with pytest.raises(SweepError), writing_store(tmp_path / "r.db"):
        pass
    assert files(tmp_path) == before


@pytest.mark.parametrize("text", ["{", "[1]", None, b"\xff"])
def test_a_row_that_says_nothing_is_damage(text, tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute("update rows set content = ?", ("" if text is None else text,))
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SweepError) as caught:
        rows_of(path)
    assert str(caught.value) == (
        f"The store {str(path)!r} must be whole, and is damaged: a row says {('' if text is None else text)!r}. It was "
        "left as it is; name another file."
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("column", ["content", "point", "status"])
def test_text_that_is_none_is_damage(column, tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    with sqlite3.connect(path) as connection:
        connection.execute(f"update rows set {column} = cast(x'ff41' as text)")
    connection.close()
    with pytest.raises(SweepError) as caught:
        rows_of(path)
    assert str(caught.value).startswith(f"The store {str(path)!r} must be whole, and is damaged: Could not decode")
    assert str(caught.value).endswith("It was left as it is; name another file.")


@pytest.mark.parametrize("seed", range(40))
def test_bytes_that_are_damaged_anywhere_are_told_in_words(seed, tmp_path):
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
    said = []
    try:
        with writing_store(path) as store:
            store.rows()
    except SweepError as error:
        said.append(str(error))
    assert all(each.endswith("It was left as it is; name another file.") for each in said)


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
    with pytest.raises(SweepError, match="must be whole, and is damaged: a row says "):
        rows_of(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(SweepError, match="must be one that there is, and is not"), reading_store(tmp_path / "no.db"):
        pass
    (tmp_path / "empty.db").write_bytes(b"")
    with pytest.raises(SweepError, match="and is empty"), reading_store(tmp_path / "empty.db"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["empty.db"]


def test_an_empty_file_is_what_is_left_of_a_store_that_was_never_begun(tmp_path):
    (tmp_path / "r.db").write_bytes(b"")
    with writing_store(tmp_path / "r.db") as store:
        store.write(row())
    assert rows_of(tmp_path / "r.db") == [row()]


def filled(store):
    """How many rows went into a store before it refused one, and how it did."""
    for place in range(10_000):
        try:
            store.write(row(f"point {place}", place, text="x" * 300))
        except SweepError as error:
            return place, error
    raise AssertionError("it is never full")


def test_a_full_disk_is_an_error_and_the_store_opens(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.connection.execute("pragma max_page_count = 12")  # SQLite's answer is that of a full disk
        kept, error = filled(store)
    assert str(error) == (
        f"The store {str(path)!r} must be one that can be read and written, and is not: database or disk is full. What "
        "was measured before is kept in it; make room, and the same command goes on."
    )
    assert kept > 0
    assert len(rows_of(path)) == kept
    with writing_store(path) as store:
        store.write(row("more", kept))
    assert len(rows_of(path)) == kept + 1


def test_a_store_that_is_locked_for_long_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "SECONDS", 0.1)
    path = tmp_path / "r.db"
    with writing_store(path) as store, writing_store(path) as other:
        other.connection.execute("begin immediate")
        with pytest.raises(SweepError) as caught:
            store.write(row())
    assert str(caught.value) == (
        f"The store {str(path)!r} must be one that can be read and written, and is not: database is locked. What was "
        "measured before is kept in it; let the other writer end, and the same command goes on."
    )
