"""Users' scripts, in one of two forms.

With a function: a script for `lathe run` defines ``main(cfg)``, one for `lathe compile` defines ``build(cfg)`` and
returns a Program, one for `lathe explain` defines ``schedule(cfg)`` and returns a Schedule. It is called with the
machine. To run by itself too, it ends with::

    if __name__ == "__main__":
        main(lt.load_config("vta"))

Without it: the script is run as Python would run it, with the machine's name as its first argument, ``sys.argv[1]``.
What it leaves in its variable ``result`` (`lathe run`), ``program`` (`lathe compile`) or ``schedule`` (`lathe
explain`) is taken.

`lathe explain` also calls ``build(cfg)`` or ``main(cfg)``, and takes what a script without a schedule gives to
``lt.build``.
"""

import ast
import inspect
import pkgutil
import runpy
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from lathe.configs import HardwareConfig, LatheError, load_config

SCRIPT_NAME = "lathe_script"  # __name__ of a script with a function, so that its part for running by itself is left out

MACHINES = (".yaml", ".yml", ".json")  # suffixes of what may have been meant for a machine


class ScriptError(LatheError):
    """A script that cannot be read, or that leaves something else than it must."""


def run_script(path: Path, functions: Sequence[str], variable: str, config_name: str) -> Any:
    """Run a script for the machine of `config_name`; returns what its function returns, or its variable, or None.

    The function is the first of `functions` that it defines.

    Modules beside the script can be imported. Raises :class:`ScriptError` and ConfigError; a LatheError from inside the
    script gets a note with the script's line; other exceptions are the script's own and pass as they are.
    """
    machine = load_config(config_name)
    source = read_source(path)
    with beside(path), arguments(str(path), config_name), lines_of(path):
        defined = functions_of(source, path)
        for function in functions:
            if function in defined:
                called = runpy.run_path(str(path), run_name=SCRIPT_NAME)[function]
                check_takes_the_machine(called, function, path)
                return called(machine)
        return runpy.run_path(str(path), run_name="__main__").get(variable)


def check_takes_the_machine(called: Callable[..., Any], function: str, path: Path) -> None:
    """Raise :class:`ScriptError` if a script's function cannot be called with a machine alone."""
    signature = inspect.signature(called)
    try:
        signature.bind(None)
    except TypeError:
        raise ScriptError(
            f"Function {function} of the script {str(path)!r} must take one argument, the machine, not {signature}. "
            f"Define {function}(cfg), or give the function another name."
        ) from None


def check_machine_of(path: Path, wanted: HardwareConfig, named: Collection[HardwareConfig], function: str) -> None:
    """Raise :class:`ScriptError` if a script was asked for one machine, and names only others itself.

    ``named`` are the machines that it has built for; a script that builds nothing names none. Machines are known by
    their names, so that a script may change numbers of the one that it is given.
    """
    names = dict.fromkeys(each.name for each in named)
    if names and wanted.name not in names:
        told = " and ".join(map(repr, names))
        raise ScriptError(
            f"The machine of the script {str(path)!r} must be the one of -c, {wanted.name!r}, not {told}, which it "
            f"names itself. Let it take the name from sys.argv[1], or define {function}(cfg) and build for that; or "
            "leave out -c."
        )


def read_source(path: Path) -> bytes:
    """The text of a script."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScriptError(
            f"The script {str(path)!r} must be a Python file that can be read, and is not: {error.strerror}. "
            "Correct the path."
        ) from None


def functions_of(source: bytes, path: Path) -> dict[str, ast.FunctionDef]:
    """The functions that a script defines at its top level, by name.

    Raises :class:`ScriptError` for text that is not Python.
    """
    try:
        tree = ast.parse(source, filename=str(path))
    except (RecursionError, MemoryError):
        raise ScriptError(
            f"The script {str(path)!r} must be Python, and nests too deeply for it. Correct it."
        ) from None
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}," if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        remedy = "Name a machine behind -c." if path.suffix in MACHINES else "Correct it."
        raise ScriptError(f"The script {str(path)!r}{line} must be Python, and is not: {what}. {remedy}") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@contextmanager
def beside(path: Path) -> Iterator[None]:
    """Let the script import what lies beside it, as it may when Python runs it.

    A module of the same name that lay beside another script, or elsewhere on the path, is set aside meanwhile; one of
    Python, of an installed package or of Lathe is not.
    """
    folder = path.resolve().parent
    sys.path.insert(0, str(folder))
    aside = {name: sys.modules.pop(name) for name in hiding(folder)}
    try:
        yield
    finally:
        sys.modules.update(aside)
        sys.path.remove(str(folder))


def hiding(folder: Path) -> list[str]:
    """The loaded modules, from elsewhere, that would be taken for those which lie in a folder."""
    there = {module.name for module in pkgutil.iter_modules([str(folder)])} - {"__main__", "lathe"}
    loaded = [name for name in sys.modules if name.partition(".")[0] in there]
    places = {name: place_of(sys.modules[name]) for name in loaded}
    return [name for name, place in places.items() if not place.is_relative_to(folder) and not installed(place)]


def place_of(module: ModuleType) -> Path:
    """The file of a module; one that is part of Python itself has none, and lies where Python's library does."""
    return Path(getattr(module, "__file__", None) or sysconfig.get_path("stdlib")).resolve()


def installed(place: Path) -> bool:
    """Whether a file belongs to Python or to a package that is installed."""
    libraries = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(place.is_relative_to(Path(library).resolve()) for library in libraries)


@contextmanager
def arguments(*words: str) -> Iterator[None]:
    """Give the script these words as its command line."""
    before = sys.argv
    sys.argv = list(words)
    try:
        yield
    finally:
        sys.argv = before


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
