"""Runs users' scripts, which have one of two forms.

With a function: a script for `lathe run` defines ``main(cfg)``, one for `lathe compile` defines ``build(cfg)``, which
returns a Program, one for `lathe explain` defines ``schedule(cfg)``, which returns a Schedule. The function is called
with the machine. To run by itself too, the script ends with::

    if __name__ == "__main__":
        main(lt.load_config("vta"))

Without a function: the script is run as Python would run it, with the machine's name as ``sys.argv[1]``, and its global
variable ``result`` (`lathe run`), ``program`` (`lathe compile`) or ``schedule`` (`lathe explain`) is read.

`lathe explain` also calls ``build(cfg)`` or ``main(cfg)``, and explains what a script without a schedule passes to
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

SCRIPT_NAME = "lathe_script"  # __name__ of a script with a function, so that its `__main__` block is not run

MACHINES = (".yaml", ".yml", ".json")  # suffixes of files that were probably meant as the machine (-c)


class ScriptError(LatheError):
    """A script that cannot be read or run, or whose result is of the wrong type."""


def run_script(path: Path, functions: Sequence[str], variable: str, config_name: str) -> Any:
    """Run a script for the machine of `config_name`; returns what its function returns, or its variable, or None.

    The function is the first of `functions` that it defines. The script can import modules from its own folder. Raises
    :class:`ScriptError` and ConfigError; a LatheError from inside the script gets a note with the script's line; other
    exceptions propagate unchanged.
    """
    machine = load_config(config_name)
    source = read_source(path)
    with script_imports(path), arguments(str(path), config_name), lines_of(path):
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


def check_machine_of(path: Path, requested: HardwareConfig, used: Collection[HardwareConfig], function: str) -> None:
    """Raise :class:`ScriptError` if a script was run for one machine, and built for other machines only.

    ``used`` are the machines that it has built for. Machines are compared by name, so that a script may change
    parameters of the machine that it is given.
    """
    names = dict.fromkeys(each.name for each in used)
    if names and requested.name not in names:
        others = " and ".join(map(repr, names))
        raise ScriptError(
            f"The machine of the script {str(path)!r} must be the one of -c, {requested.name!r}, not {others}, which "
            f"the script names itself. Let it take the name from sys.argv[1], or define {function}(cfg) and build for "
            "cfg; or leave out -c."
        )


def read_source(path: Path) -> bytes:
    """The bytes of a script. Raises :class:`ScriptError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScriptError(f"Cannot read script {str(path)!r}: {error.strerror}. Correct the path.") from None


def functions_of(source: bytes, path: Path) -> dict[str, ast.FunctionDef]:
    """The functions that a script defines at its top level, by name.

    Raises :class:`ScriptError` for text that is not Python.
    """
    try:
        tree = ast.parse(source, filename=str(path))
    except (RecursionError, MemoryError):
        raise ScriptError(
            f"Cannot parse script {str(path)!r}: its expressions are nested too deeply for Python. Simplify them."
        ) from None
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}," if isinstance(error, SyntaxError) and error.lineno else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        remedy = "Name a machine with -c." if path.suffix in MACHINES else "Correct it."
        raise ScriptError(f"Cannot parse script {str(path)!r}{line} as Python: {what}. {remedy}") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@contextmanager
def script_imports(path: Path) -> Iterator[None]:
    """Let the script import modules from its own folder, as it can when Python runs it.

    Loaded modules of the same names from other folders are removed meanwhile, except those of Python's library, of
    installed packages and of Lathe.
    """
    folder = path.resolve().parent
    sys.path.insert(0, str(folder))
    removed = {name: sys.modules.pop(name) for name in shadowing_modules(folder)}
    try:
        yield
    finally:
        sys.modules.update(removed)
        sys.path.remove(str(folder))


def shadowing_modules(folder: Path) -> list[str]:
    """The names of modules loaded from other folders that would be used instead of this folder's modules."""
    own = {module.name for module in pkgutil.iter_modules([str(folder)])} - {"__main__", "lathe"}
    loaded = [name for name in sys.modules if name.partition(".")[0] in own]
    files = {name: file_of(sys.modules[name]) for name in loaded}
    return [name for name, file in files.items() if not file.is_relative_to(folder) and not installed(file)]


def file_of(module: ModuleType) -> Path:
    """The file of a module; for a built-in one, which has none, the folder of Python's library."""
    return Path(getattr(module, "__file__", None) or sysconfig.get_path("stdlib")).resolve()


def installed(file: Path) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    libraries = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(file.is_relative_to(Path(library).resolve()) for library in libraries)


@contextmanager
def arguments(*words: str) -> Iterator[None]:
    """Set ``sys.argv`` to these words for the script."""
    before = sys.argv
    sys.argv = list(words)
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def lines_of(path: Path) -> Iterator[None]:
    """Add a note to every LatheError that names the script's line which led to it."""
    try:
        yield
    except LatheError as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        if lines:
            error.add_note(f"This came from {path}, line {lines[-1]}.")
        raise
