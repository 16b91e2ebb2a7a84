"""Archives of arrays: damage is detected whatever raises it, and any name can be written."""

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lathe.configs.archives import UnreadableArchiveError, read_arrays, write_arrays

ARRAYS = {"file": np.arange(6, dtype=np.int32).reshape(2, 3), "allow_pickle": np.uint64(7), "image/uop": np.zeros(0)}


def test_arrays_come_back_under_any_name(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_arrays(tmp_path / name, ARRAYS)
    arrays = read_arrays(tmp_path / "a.npz")
    assert {name: (array.tolist(), array.dtype) for name, array in arrays.items()} == {
        name: (np.asarray(array).tolist(), np.asarray(array).dtype) for name, array in ARRAYS.items()
    }
    assert list(read_arrays(tmp_path / "a.npz", ["file", "other"])) == ["file"]
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as file:
        assert file["file"].tolist() == [[0, 1, 2], [3, 4, 5]]


def plain(path: Path) -> None:
    np.savez(path, **{name: array for name, array in ARRAYS.items() if "/" in name or name == "x"}, x=np.arange(20))


def packed(path: Path) -> None:
    write_arrays(path, ARRAYS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("write", [plain, packed])
def test_a_flipped_bit_is_detected_or_changes_no_array_but_its_name(
    write: Callable[[Path], None], seed: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.npz"
    write(path)
    content = path.read_bytes()
    expected = {name: array.tobytes() for name, array in read_arrays(path).items()}
    generator = random.Random(seed)
    for _ in range(300):
        at, bit = generator.randrange(len(content)), generator.randrange(8)
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        try:
            found = {name: array.tobytes() for name, array in read_arrays(path).items()}
        except UnreadableArchiveError:
            continue
        # A flipped bit in the archive's directory may hide an array, which its user will miss.
        assert not set(found.values()) - set(expected.values()), (seed, at, bit)


def test_a_header_that_does_not_fit_its_array_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for header in (
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999,), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), ",
        b"[" * 500,
    ):
        member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", member)
        with pytest.raises(UnreadableArchiveError) as caught:
            read_arrays(path)
        assert str(caught.value) == "its array 'x' holds Python objects, or is damaged", header


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.npz", "No such file or directory"),
        (".", "Is a directory"),
        ("a" * 5000, "File name too long"),
        ("a\0b", "embedded null byte"),
    ],
)
def test_a_missing_file_is_reported_with_the_systems_reason(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableArchiveError) as caught:
        read_arrays(tmp_path / name)
    assert str(caught.value) == reason
    assert caught.value.no_file


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_a_file_that_is_no_archive_is_reported(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(UnreadableArchiveError) as caught:
        read_arrays(path)
    assert str(caught.value) == "it is no .npz archive"
    assert not caught.value.no_file
