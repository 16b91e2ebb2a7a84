"""The example that reads text in an image; it needs the extra `models`."""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def read_text() -> ModuleType:
    """The example as a module."""
    for package in ("rapidocr_onnxruntime", "PIL"):
        pytest.importorskip(package, reason="extra models is not installed")
    sys.path.append(str(Path(__file__).parents[2] / "examples"))
    return importlib.import_module("read_text")


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), 1),
        ((0, 0, 10, 10), (5, 0, 15, 10), 1 / 3),
        ((0, 0, 10, 10), (2, 2, 7, 6), 0.2),
        ((0, 0, 10, 10), (10, 0, 20, 10), 0),
        ((0, 0, 10, 10), (20, 20, 30, 30), 0),
    ],
)
def test_overlap(read_text, one, other, share):
    assert read_text.overlap(one, other) == pytest.approx(share)
    assert read_text.overlap(other, one) == pytest.approx(share)


def test_agreement_is_that_of_the_worst_box(read_text):
    here, there, apart = (0, 0, 10, 10), (0, 20, 10, 30), (0, 20, 10, 25)
    assert read_text.agreement([here, there], [there, here]) == 1
    assert read_text.agreement([here, apart], [here, there]) == 0.5
    assert read_text.agreement([here], [here, there]) == 0
    assert read_text.agreement([], []) == 1


@pytest.mark.nightly
def test_the_npu_finds_the_lines_that_onnxruntime_finds(read_text, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["read_text.py", "-o", str(tmp_path / "boxes.png")])
    read_text.main()
    told = capsys.readouterr().out
    assert re.findall(r": (\d+) boxes", told) == ["4", "4", "4"]
    trained, quantised = (float(share) for share in re.findall(r"overlap by at least ([\d.]+)", told))
    assert trained > 0.8
    assert quantised > 0.9
    assert "207,275,904 multiply-accumulates" in told
    assert (tmp_path / "boxes.png").stat().st_size > 0
