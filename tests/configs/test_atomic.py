"""Output files are written atomically."""

import os
import stat

import pytest
from error_checks import raises

from lathe.configs.atomic import FileError, atomic_write, write_text


def test_a_written_file_replaces_the_old_one_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path):
    (tmp_path / "plain.txt").write_text("x")
    write_text(tmp_path / "atomic.txt", "x")
    assert (tmp_path / "atomic.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


def write_half_and_fail(path):
    with atomic_write(path) as file:
        file.write(b"half")
        raise KeyError("reason")


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_half_and_fail(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_missing_directory_is_named(tmp_path):
    path = tmp_path / "missing" / "out.txt"
    raises(FileError, write_text, path, "x", mentions=("output file", path, "No such file or directory"))


def test_a_directory_is_no_output_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError):
        write_text(tmp_path / "folder", "x")
    assert os.listdir(tmp_path) == ["folder"]


def test_errors_of_other_files_inside_the_block_are_not_blamed_on_the_output(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "out.txt"):
        (tmp_path / "absent").read_text()
    assert os.listdir(tmp_path) == []


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
