"""Replacements of a sweep's measuring function in tests: each modifies Lathe before it measures.

Points are measured in other processes, which import these functions by name.
"""

import json
import os
from pathlib import Path

import lathe.sweeps.hardware as hardware_module
import lathe.sweeps.workload_types as measurable_module
from lathe.frontend import reference
from lathe.rtl.derived_widths import RtlError
from lathe.sweeps.hardware import COUNTS, FITS
from lathe.sweeps.keys import measure_content

LOOKED_AT = "LATHE_TEST_LOOKED_AT"
"""The environment variable with the path of the log of synthesised machines."""


def with_flipped_reference(content):
    """The NumPy reference has the lowest bit of every value flipped."""
    measurable_module.reference = lambda *arguments: {
        name: values ^ 1 for name, values in reference(*arguments).items()
    }
    return measure_content(content)


def with_faulty_build(content):
    """Building fails with an AssertionError."""

    def faulty(*_arguments, **_options):
        raise AssertionError("a chunk without extent")

    measurable_module.build = faulty
    return measure_content(content)


def looked_at():
    """Bus width and device of each machine that the tools would have synthesised."""
    path = Path(os.environ[LOOKED_AT])
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def note(config, device=None):
    """Append a machine to the log."""
    with Path(os.environ[LOOKED_AT]).open("a") as file:
        print(json.dumps([config.memory.bus_bits, device]), file=file)


def counted(config):
    """A replacement of counting by Yosys."""
    note(config)
    return dict(zip(COUNTS, (10, config.memory.bus_bits, 3, 4), strict=True))


def fitted(config, hardware):
    """A replacement of a fit on a device, which only machines with narrow buses fit."""
    note(config, hardware.device)
    if config.memory.bus_bits > 32:
        raise RtlError(f"device of the fit must have what machine {config.name!r} takes, and has not.")
    return dict(zip(FITS, (100, 50, 4, 2, 50.0), strict=True))


def without_tools(content):
    """Replace synthesis and fitting, so that tests do not wait for these tools."""
    hardware_module._counted, hardware_module._fitted = counted, fitted
    return measure_content(content)
