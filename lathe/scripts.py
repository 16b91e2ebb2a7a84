"""Users' scripts: Python files whose functions take the machine.

A script for `lathe run` defines ``main(cfg)``, one for `lathe compile` defines ``build(cfg)`` and returns a Program. A
script that also runs by itself ends with::

    if __name__ == "__main__":
        main(lt.load_config("vta"))
"""

import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lathe.configs import HardwareConfig, LatheError

SCRIPT_NAME = "lathe_script"  # its __name__, so that its part for running by itself is left out


class ScriptError(LatheError):
    """A script that cannot be read, lacks its function, or returns something else than it must."""


def call_script(path: Path, function: str, config: HardwareConfig) -> Any:
    """Run the script and call its function with the machine; returns what that returns.

    Modules beside the script can be imported. Raises :class:`ScriptError`; a LatheError from inside the script gets a
    note with the script's line; other exceptions are the script's own and pass as they are.
    """
    if not path.is_file():
        raise ScriptError(f"The script {str(path)!r} must be a file that exists, and is not. Correct the path.")
    with beside(path), lines_of(path):
        found = runpy.run_path(str(path), run_name=SCRIPT_NAME).get(function)
        if not callable(found):
            raise ScriptError(
                f"The script {str(path)!r} must define {function}(cfg), and does not. "
                f"Write a function of this name that takes the machine."
            )
        called: Callable[[HardwareConfig], Any] = found
        return called(config)


@contextmanager
def beside(path: Path) -> Iterator[None]:
    """Let the script import what lies beside it, as it may when Python runs it."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


@contextmanager
def lines_of(path: Path) -> Iterator[None]:
    """Note on every LatheError which line of the script led to it."""
    try:
        yield
    except LatheError as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        if lines:
            error.add_note(f"This came from {path}, line {lines[-1]}.")
        raise
