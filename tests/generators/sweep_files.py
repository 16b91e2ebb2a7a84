"""Sweep files of tests: written, parsed, and refused with their line and key."""

import pytest
from error_checks import check_mentions

from lathe.sweeps.errors import SweepError
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.workloads import known_workloads, make


def written(folder, text):
    """Write a sweep file to a folder."""
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def read(folder, text, **options):
    """Parse a sweep file, with all workloads."""
    return read_sweep(written(folder, text), known_workloads(), make, **options)


def check_mistake(folder, text, line, key, *mentions):
    """Check that a text is refused with this line, key and mentions; "{folder}" in these is the file's folder."""
    with pytest.raises(SweepError) as caught:
        read(folder, text)
    check_mentions(caught.value, f"{folder / 'sweep.yaml'}, line {line}")
    check_mentions(caught.value, *(each.replace("{folder}", str(folder)) for each in mentions))
    assert (caught.value.line, caught.value.key) == (line, key)
