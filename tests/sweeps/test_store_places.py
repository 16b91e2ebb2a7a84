"""Stores where little may be written: folders and files that are read-only, disks that fill up, and under a writer."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from error_checks import check_mentions

import lathe as lt
import lathe.sweeps.store as store_module
import lathe.sweeps.tables as tables_module
from lathe.command_line import main
from lathe.configs.atomic import unwritable
from lathe.sweeps.store import StoredRow, reading_store, writing_store

SWEEP = """
machine:
  memory.latency: {from: 0, to: 39}
workloads:
  - relu: {height: [1, 2], width: 4, channels: 16}
"""


def row(place=0, **columns):
    return StoredRow(f"point {place}", place, "s", "ok", 0.5, {"cycles": place, **columns})


def places_of(path):
    with reading_store(path) as store:
        return [each.place for each in store.rows()]


def files(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def left_by_a_kill(path, *, index):
    """A store whose second row stands in its log alone, with the log's index or without it."""
    with writing_store(path) as store:
        store.write(row(0))
        store.connection.execute("pragma wal_checkpoint(truncate)")
        store.write(row(1))
        kept = {part: Path(f"{path}{part}").read_bytes() for part in ("", "-wal", *(["-shm"] if index else []))}
    for part, content in kept.items():
        Path(f"{path}{part}").write_bytes(content)


# What a user without all rights sees, who may be root but for the right to write everywhere.
READ = """
import sys
from pathlib import Path
from lathe.sweeps.store import reading_store, writing_store
for path in sys.argv[1:]:
    with reading_store(Path(path)) as store:
        print([each.place for each in store.rows()])
    try:
        with writing_store(Path(path)) as store:
            print("written to")
    except Exception as error:
        print(error)
"""


def without_rights(*words):
    """What a command says that may not write to what is read-only."""
    before = []
    if os.geteuid() == 0:
        rights = "-dac_override,-dac_read_search,-fowner"
        before = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
        if shutil.which("setpriv") is None or subprocess.run([*before, "true"], check=False).returncode:
            pytest.skip("root without setpriv may write everywhere")
    done = subprocess.run([*before, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_store_in_a_read_only_folder_is_read_and_left_as_it_is(tmp_path):
    paths = [tmp_path / name / "r.db" for name in ("plain", "log", "log and index")]
    for path, index in zip(paths, (None, False, True), strict=True):
        path.parent.mkdir()
        if index is None:
            with writing_store(path) as store:
                for place in (0, 1):
                    store.write(row(place))
        else:
            left_by_a_kill(path, index=index)
        for each in path.parent.iterdir():
            each.chmod(0o444)
        path.parent.chmod(0o555)
    before = [files(path.parent) for path in paths]
    try:
        said = without_rights(sys.executable, "-c", READ, *paths)
    finally:
        for path in paths:
            path.parent.chmod(0o755)
    assert [files(path.parent) for path in paths] == before
    assert said[::2] == ["[0, 1]"] * 3
    for path, refused in zip(paths, said[1::2], strict=True):
        check_mentions(refused, "output file", path)


def test_a_read_only_store_is_not_written_to(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    path.chmod(0o444)
    before = files(tmp_path)
    said = without_rights(sys.executable, "-c", READ, path)
    assert said == [
        "[0]",
        f"The store {str(path)!r} must be a file that may be written to, and is not. It was left as it is; name "
        "another file.",
    ]
    assert files(tmp_path) == before


def test_a_store_that_is_written_to_while_it_is_copied_is_copied_again(tmp_path, monkeypatch):
    path = tmp_path / "r.db"
    whole = shutil.copyfile
    with writing_store(path) as store:
        store.write(row(0))
        written = iter(range(1, 4))

        def copied(source, target):
            whole(source, target)
            place = next(written, None)
            if place is not None:  # the log goes into the file behind the copy, and begins anew
                for more in range(place * 100, place * 100 + 60):
                    store.write(row(more, text="x" * 3000))
                store.connection.execute("pragma wal_checkpoint(restart)")
                store.write(row(place))

        monkeypatch.setattr(store_module.shutil, "copyfile", copied)
        (tmp_path / "folder").mkdir()
        copy = store_module._copied(path, tmp_path / "folder")
        monkeypatch.undo()
        with sqlite3.connect(copy) as connection:
            assert connection.execute("pragma quick_check").fetchone() == ("ok",)
            assert connection.execute("select count(*) from rows").fetchone() == (4 + 3 * 60,)
        connection.close()
        assert len(places_of(path)) == 4 + 3 * 60


def test_a_migration_that_was_killed_is_not_read_half(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    # What SQLite leaves of a transaction that is killed: pages that are written, and a journal with those before.
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('pragma journal_mode = delete'); c.execute('pragma cache_size = 1'); c.execute('begin exclusive');"
        "c.execute('delete from rows'); c.execute('create table more (a)');"
        "c.executemany('insert into more values (?)', [('x' * 3000,)] * 50); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert Path(f"{path}-journal").stat().st_size > 0
    before = files(tmp_path)
    assert places_of(path) == [0]
    assert files(tmp_path) == before
    with writing_store(path) as store:
        assert [each.place for each in store.rows()] == [0]


@pytest.mark.parametrize("name", ["r.db", "r.DB", "r.Sqlite", "r.sqlite3", "r.db3"])
def test_a_store_is_known_by_any_suffix_of_databases(name, tmp_path):
    (tmp_path / "sweep.yaml").write_text("workloads:\n  - relu: {height: [1, 2], width: 4, channels: 16}\n")
    words = ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / name), "--jobs", "1"]
    for _ in range(2):
        assert CliRunner().invoke(main, words).exit_code == 0
    assert places_of(tmp_path / name) == [0, 1]


@pytest.mark.parametrize("name", ["r.csv", "r.data", "r"])
def test_a_database_is_never_begun_anew_as_a_table(name, tmp_path):
    (tmp_path / "sweep.yaml").write_text("workloads:\n  - relu: {height: [1, 2], width: 4, channels: 16}\n")
    path = tmp_path / name
    with writing_store(path) as store:
        store.write(row())
    before = files(tmp_path)
    said = CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(path), "--jobs", "1"])
    assert (said.exit_code, said.stdout, said.stderr) == (
        2,
        "",
        f"Error: The output file {str(path)!r} must be a table that may be begun anew, not a database of SQLite. It "
        "was left as it is; name another file, or a store, with one of the suffixes .db, .db3, .sqlite, .sqlite3.\n",
    )
    assert files(tmp_path) == before


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from lathe.command_line import main
main(sys.argv[1:])
"""


def with_room_for(limit, *words):
    """`lathe` where no file may be larger than so many bytes."""
    command = [sys.executable, "-c", LIMITED, str(limit), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_a_disk_that_fills_up_ends_the_sweep_with_an_error_and_the_store_opens(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    path = tmp_path / "r.db"
    words = ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(path), "--jobs", "1"]
    said = with_room_for(60 * 1024, *words)
    assert said.startswith(f"Error: The store {str(path)!r} must be one that can be read and written, and is not: ")
    assert said.endswith(". What was measured before is kept in it; make room, and the same command goes on.\n")
    kept = json.loads(CliRunner().invoke(main, ["results", str(path), "--json"]).stdout)
    assert 0 < len(kept) < 80
    assert CliRunner().invoke(main, words).exit_code == 0
    rows = json.loads(CliRunner().invoke(main, ["results", str(path), "--json"]).stdout)
    assert len(rows) == 80
    assert all(each in rows for each in kept)


def test_a_table_that_the_disk_has_no_room_for_says_what_stands_in_it(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    path = tmp_path / "r.csv"
    said = with_room_for(8 * 1024, "sweep", tmp_path / "sweep.yaml", "-o", path, "--jobs", "1")
    assert said == (
        f"Error: The output file {str(path)!r} must have room for all rows, and answers 'File too large'. What was "
        "measured before stands in it, perhaps with a part of the next row; make room, and begin anew, or name a store "
        "(.db), with which the same command goes on.\n"
    )
    assert 2 < len(path.read_text().splitlines()) < 80


def results_with_room_for(limit, path):
    """`lathe results` where no file may become larger than so many bytes."""
    command = [sys.executable, "-c", LIMITED, str(limit), "results", str(path), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_store_is_read_where_there_is_no_room_for_its_logs_index(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    # What a writer leaves that found no room to begin.
    Path(f"{path}-wal").write_bytes(b"")
    Path(f"{path}-shm").write_bytes(bytes(8192))
    before = files(tmp_path)
    done = results_with_room_for(0, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["cycles"] for each in json.loads(done.stdout)] == [0]
    assert {**files(tmp_path), "r.db-shm": None} == {**before, "r.db-shm": None}  # the index is SQLite's to make anew


def test_a_log_that_there_is_no_room_to_copy_is_told(tmp_path):
    path = tmp_path / "r.db"
    left_by_a_kill(path, index=False)
    before = files(tmp_path)
    done = results_with_room_for(4096, path)
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: The store {str(path)!r} must be copied to a temporary folder to be read with what is in its log, and "
        "cannot be: File too large. It was left as it is; make room, or name a folder with room in TMPDIR.\n"
    )
    assert files(tmp_path) == before


def test_a_table_that_cannot_be_put_in_order_has_all_rows(tmp_path, monkeypatch):
    """There is room for the rows, and none for a second copy of them."""

    def without_room(path, _content):
        raise unwritable(path, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(tables_module, "write_text", without_room)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    path = tmp_path / "r.csv"
    with pytest.raises(lt.FileError) as caught:
        lt.sweep(tmp_path / "sweep.yaml", output=path, jobs=2)
    content = path.read_text()
    assert len(content.splitlines()) == 81
    assert str(caught.value) == (
        f"The folder of output file {str(path)!r} must have room for a second copy while its rows are put in order, of "
        f"{len(content)} bytes, and has not. All rows stand in the file, in the order in which they came."
    )
