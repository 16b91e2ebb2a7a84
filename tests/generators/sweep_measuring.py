"""What processes of a sweep do in tests instead of measuring alone: each changes something of Lathe before.

Points are measured in other processes, which import these functions by their names.
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
"""Names the file of the machines that were looked at."""


def with_flipped_reference(content):
    """NumPy says something else of the least bit of everything."""
    measurable_module.reference = lambda *arguments: {
        name: values ^ 1 for name, values in reference(*arguments).items()
    }
    return measure_content(content)


def with_faulty_build(content):
    """Lathe itself fails."""

    def faulty(*_arguments, **_options):
        raise AssertionError("a chunk without extent")

    measurable_module.build = faulty
    return measure_content(content)


def looked_at():
    """The bus and the device of each machine that the tools would have looked at."""
    path = Path(os.environ[LOOKED_AT])
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def note(config, device=None):
    """Write down that a machine is looked at."""
    with Path(os.environ[LOOKED_AT]).open("a") as file:
        print(json.dumps([config.memory.bus_bits, device]), file=file)


def counted(config):
    """In the place of counting by Yosys."""
    note(config)
    return dict(zip(COUNTS, (10, config.memory.bus_bits, 3, 4), strict=True))


def fitted(config, hardware):
    """In the place of a fit on a device, which has room for narrow buses."""
    note(config, hardware.device)
    if config.memory.bus_bits > 32:
        raise RtlError(f"device of the fit must have what machine {config.name!r} takes, and has not.")
    return dict(zip(FITS, (100, 50, 4, 2, 50.0), strict=True))


def without_tools(content):
    """Nobody waits for the tools that make hardware."""
    hardware_module._counted, hardware_module._fitted = counted, fitted
    return measure_content(content)
