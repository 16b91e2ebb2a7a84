"""Sweep files of tests: written, read, and refused with their line and key."""

import pytest

from lathe.sweeps.errors import SweepError
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.workloads import known_workloads, make


def written(folder, text):
    """A sweep file in a folder."""
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def read(folder, text, **options):
    """The sweep of a text, with all workloads that there are."""
    return read_sweep(written(folder, text), known_workloads(), make, **options)


def check_mistake(folder, text, line, key, message):
    """Hold that a text is refused with this message, if one is given, and this line and key.

    "{file}" and "{folder}" in a message are those of the sweep.
    """
    with pytest.raises(SweepError) as caught:
        read(folder, text)
    if message is not None:
        assert str(caught.value) == message.format(file=folder / "sweep.yaml", folder=folder)
    assert f"{folder / 'sweep.yaml'}, line {line}, must be " in str(caught.value)
    assert (caught.value.line, caught.value.key) == (line, key)
