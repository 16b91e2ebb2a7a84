"""Stores in read-only folders and files, on disks that fill up, and while another process writes."""

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
from error_checks import check_mentions, raises

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


def row(index=0, **columns):
    return StoredRow(f"point {index}", index, "s", "ok", 0.5, {"cycles": index, **columns})


def indices_of(path):
    with reading_store(path) as store:
        return [each.place for each in store.rows()]


def files(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def left_by_a_kill(path, *, index):
    """A store whose second row is only in its log, with or without the index of the log."""
    with writing_store(path) as store:
        store.write(row(0))
        store.connection.execute("pragma wal_checkpoint(truncate)")
        store.write(row(1))
        saved = {part: Path(f"{path}{part}").read_bytes() for part in ("", "-wal", *(["-shm"] if index else []))}
    for part, content in saved.items():
        Path(f"{path}{part}").write_bytes(content)


# Run as a user without write permission (root without the capability to override permissions).
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
    """The output of a command that runs without permission to write to read-only files."""
    before = []
    if os.geteuid() == 0:
        rights = "-dac_override,-dac_read_search,-fowner"
        before = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
        if shutil.which("setpriv") is None or subprocess.run([*before, "true"], check=False).returncode:
            pytest.skip("root can write everywhere, and there is no setpriv")
    done = subprocess.run([*before, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_store_in_a_read_only_folder_is_read_and_left_unchanged(tmp_path):
    paths = [tmp_path / name / "r.db" for name in ("plain", "log", "log and index")]
    for path, index in zip(paths, (None, False, True), strict=True):
        path.parent.mkdir()
        if index is None:
            with writing_store(path) as store:
                for number in (0, 1):
                    store.write(row(number))
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


@pytest.mark.slow
def test_a_read_only_store_is_not_written_to(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    path.chmod(0o444)
    before = files(tmp_path)
    said = without_rights(sys.executable, "-c", READ, path)
    rows, refused = said
    assert rows == "[0]"
    check_mentions(refused, f"store {str(path)!r}", "not writable")
    assert files(tmp_path) == before


def test_a_store_that_is_written_to_while_it_is_copied_is_copied_again(tmp_path, monkeypatch):
    path = tmp_path / "r.db"
    whole = shutil.copyfile
    with writing_store(path) as store:
        store.write(row(0))
        written = iter(range(1, 4))

        def copied(source, target):
            whole(source, target)
            index = next(written, None)
            if index is not None:  # after the copy, the log is merged into the file and restarted
                for more in range(index * 100, index * 100 + 60):
                    store.write(row(more, text="x" * 3000))
                store.connection.execute("pragma wal_checkpoint(restart)")
                store.write(row(index))

        monkeypatch.setattr(store_module.shutil, "copyfile", copied)
        (tmp_path / "folder").mkdir()
        copy = store_module._copied(path, tmp_path / "folder")
        monkeypatch.undo()
        with sqlite3.connect(copy) as connection:
            assert connection.execute("pragma quick_check").fetchone() == ("ok",)
            assert connection.execute("select count(*) from rows").fetchone() == (4 + 3 * 60,)
        connection.close()
        assert len(indices_of(path)) == 4 + 3 * 60


def test_a_migration_that_was_killed_is_rolled_back(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    # After a killed transaction SQLite leaves pages that were written, and a journal with their old content.
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('pragma journal_mode = delete'); c.execute('pragma cache_size = 1'); c.execute('begin exclusive');"
        "c.execute('delete from rows'); c.execute('create table more (a)');"
        "c.executemany('insert into more values (?)', [('x' * 3000,)] * 50); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    assert Path(f"{path}-journal").stat().st_size > 0
    before = files(tmp_path)
    assert indices_of(path) == [0]
    assert files(tmp_path) == before
    with writing_store(path) as store:
        assert [each.place for each in store.rows()] == [0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["r.db", "r.DB", "r.Sqlite", "r.sqlite3", "r.db3"])
def test_a_store_is_known_by_any_suffix_of_databases(name, tmp_path):
    (tmp_path / "sweep.yaml").write_text("workloads:\n  - relu: {height: [1, 2], width: 4, channels: 16}\n")
    words = ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / name), "--jobs", "1"]
    for _ in range(2):
        assert CliRunner().invoke(main, words).exit_code == 0
    assert indices_of(tmp_path / name) == [0, 1]


@pytest.mark.parametrize("name", ["r.csv", "r.data", "r"])
def test_a_database_is_never_overwritten_with_csv(name, tmp_path):
    (tmp_path / "sweep.yaml").write_text("workloads:\n  - relu: {height: [1, 2], width: 4, channels: 16}\n")
    path = tmp_path / name
    with writing_store(path) as store:
        store.write(row())
    before = files(tmp_path)
    said = CliRunner().invoke(main, ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(path), "--jobs", "1"])
    assert (said.exit_code, said.stdout) == (2, "")
    check_mentions(said.stderr, repr(str(path)), "SQLite database", ".db, .db3, .sqlite, .sqlite3")
    assert files(tmp_path) == before


LIMITED = """
import resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from lathe.command_line import main
main(sys.argv[1:])
"""


def with_room_for(limit, *words):
    """The standard error of `lathe` where no file may be larger than ``limit`` bytes."""
    command = [sys.executable, "-c", LIMITED, str(limit), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_sweep_with_an_error_and_the_store_opens(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    path = tmp_path / "r.db"
    words = ["sweep", str(tmp_path / "sweep.yaml"), "-o", str(path), "--jobs", "1"]
    said = with_room_for(60 * 1024, *words)
    check_mentions(said, "Error", f"store {str(path)!r}", "free some space", "same command")
    stored = json.loads(CliRunner().invoke(main, ["results", str(path), "--json"]).stdout)
    assert 0 < len(stored) < 80
    assert CliRunner().invoke(main, words).exit_code == 0
    rows = json.loads(CliRunner().invoke(main, ["results", str(path), "--json"]).stdout)
    assert len(rows) == 80
    assert all(each in rows for each in stored)


@pytest.mark.slow
def test_a_table_on_a_full_disk_has_the_rows_measured_before(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    path = tmp_path / "r.csv"
    said = with_room_for(8 * 1024, "sweep", tmp_path / "sweep.yaml", "-o", path, "--jobs", "1")
    check_mentions(said, "Error", f"output file {str(path)!r}", "File too large", "(.db)")
    assert 2 < len(path.read_text().splitlines()) < 80


def results_with_room_for(limit, path):
    """`lathe results` where no file may become larger than ``limit`` bytes."""
    command = [sys.executable, "-c", LIMITED, str(limit), "results", str(path), "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_store_is_read_without_space_for_the_index_of_its_log(tmp_path):
    path = tmp_path / "r.db"
    with writing_store(path) as store:
        store.write(row())
    # The files of a writer that had no space to start.
    Path(f"{path}-wal").write_bytes(b"")
    Path(f"{path}-shm").write_bytes(bytes(8192))
    before = files(tmp_path)
    done = results_with_room_for(0, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [each["cycles"] for each in json.loads(done.stdout)] == [0]
    assert {**files(tmp_path), "r.db-shm": None} == {**before, "r.db-shm": None}  # SQLite may recreate the index


def test_a_log_that_cannot_be_copied_is_reported(tmp_path):
    path = tmp_path / "r.db"
    left_by_a_kill(path, index=False)
    before = files(tmp_path)
    done = results_with_room_for(4096, path)
    assert done.returncode == 2
    check_mentions(done.stderr, "Error", f"store {str(path)!r}", "log", "File too large", "TMPDIR")
    assert files(tmp_path) == before


@pytest.mark.slow
def test_a_table_that_cannot_be_sorted_has_all_rows(tmp_path, monkeypatch):
    """There is space for the rows, but not for a second copy of them."""

    def without_room(path, _content):
        raise unwritable(path, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(tables_module, "write_text", without_room)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    path = tmp_path / "r.csv"
    error = raises(lt.FileError, lt.sweep, tmp_path / "sweep.yaml", output=path, jobs=2)
    content = path.read_text()
    assert len(content.splitlines()) == 81
    check_mentions(error, f"output file {str(path)!r}", "second copy", f"{len(content)} bytes", "all rows")
