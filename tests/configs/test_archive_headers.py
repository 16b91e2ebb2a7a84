"""Archive headers: round trip of values, and refusal of missing headers, other formats and other versions."""

from pathlib import Path

import numpy as np
import pytest

from lathe.configs.archive_headers import ArchiveHeader, OtherVersionError, load_from_bytes, save_to_bytes
from lathe.configs.archives import UnreadableArchiveError, read_arrays, write_arrays

FORM = ArchiveHeader("what", "lathe thing", 3)


def test_plain_values_and_arrays_round_trip(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", FORM.with_header({"name": "é", "sizes": [1, 2]}, {"x": np.arange(3)}))
    arrays = read_arrays(tmp_path / "a.npz")
    assert arrays["x"].tolist() == [0, 1, 2]
    assert FORM.header_of(arrays) == {"format": "lathe thing", "version": 3, "name": "é", "sizes": [1, 2]}
    assert FORM.matches(tmp_path / "a.npz")
    assert not ArchiveHeader("other", "lathe thing", 3).matches(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_text("nothing")
    assert not FORM.matches(tmp_path / "b.npz")


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"{}", b"[]", b"3", b"null", b'{"format": "lathe thing"}', b"[" * 100_000],
    ids=["empty", "no text", "no format", "a list", "a number", "null", "no version", "too deep"],
)
def test_an_invalid_header_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableArchiveError, match=r"^it has no header of a lathe thing$"):
        FORM.header_of({"what": np.frombuffer(content, np.uint8)})


def test_a_header_of_another_format_or_version_is_refused() -> None:
    with pytest.raises(UnreadableArchiveError):
        FORM.header_of({})
    with pytest.raises(UnreadableArchiveError):
        FORM.header_of(ArchiveHeader("what", "lathe network", 3).with_header({}, {}))
    with pytest.raises(OtherVersionError) as caught:
        FORM.header_of(ArchiveHeader("what", "lathe thing", 4).with_header({}, {}))
    assert caught.value.version == 4


def test_a_file_is_embedded_as_bytes() -> None:
    content = save_to_bytes(lambda path: path.write_text("content"))
    assert content == b"content"
    assert load_from_bytes(content, lambda path: path.read_text()) == "content"
