"""What a user's script follows from: itself, the files in its folder and below, and the packages that it imports.

A row of a script is known by these. Nobody can say before it runs which files a script reads, so all in its folder
count, unless it says itself which ones do.
"""

import ast
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from lathe.sweeps.errors import SweepError

MOST_FILES = 2000
MOST_BYTES = 1 << 30
"""Of all files that count."""
STORES = (".db", ".db3", ".sqlite", ".sqlite3")
LOGS = ("-wal", "-shm", "-journal")
"""What SQLite writes beside a store."""
SWEEPS = (".yaml", ".yml")
SWEEP_MARK = b"workloads:"
"""Begins a line of every sweep file."""


def script_digest(script: Path, files: Sequence[str] | None = None) -> str:
    """The content of all that a script follows from, as one number.

    ``files``: the files and folders, by paths from the script's folder, that count beside Python's; all in the folder
    and below if None. Hidden ones, ``__pycache__``, stores and sweep files do not count unless they are named.

    Raises SweepError for files that are not there, and for more than 2000 of them or 1 GiB.
    """
    folder = script.resolve().parent
    content, modules, size = hashlib.sha256(), set[str](), 0
    for number, path in enumerate(sorted(_counted(script, files))):
        try:
            state = path.stat()
        except OSError:
            continue  # it has just gone
        size += state.st_size
        if number >= MOST_FILES or size > MOST_BYTES:
            raise SweepError(
                f"The files that count for script {str(script)!r} must be at most {MOST_FILES}, of {MOST_BYTES >> 20} "
                "MiB in all, where rows are kept, and are more. Move the script to a folder of its own, or name those "
                f"that it reads, such as files: '{script.name} weights.npz'; beside them only Python's count then."
            )
        digest, imported = _file(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        content.update(os.path.relpath(path, folder).encode() + b"\0" + digest.encode())
        modules |= imported
    content.update(json.dumps(_versions(frozenset(modules))).encode())
    return content.hexdigest()


def newest_file(script: Path, files: Sequence[str] | None = None) -> str:
    """Which of the files that count has changed last: its path from the script's folder."""
    last = (0, script)
    for path in _counted(script, files):
        with contextlib.suppress(OSError):  # it has just gone
            last = max(last, (path.stat().st_ctime_ns, path))
    return os.path.relpath(last[1], script.resolve().parent)


def _counted(script: Path, files: Sequence[str] | None) -> set[Path]:
    """The files that count."""
    found = {script.resolve(), *named_files(script, files or ())}
    for folder in {script.resolve().parent, script.absolute().parent}:  # a script behind a link has two
        found |= {path for path in _below(folder) if files is None or _is_python(path)}
    return found


def _is_python(path: Path) -> bool:
    return path.suffix == ".py"


def _below(folder: Path) -> Iterator[Path]:
    """All files of a folder and below that count without being named; folders behind links are not entered."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in names:
            path = Path(place, name)
            if not name.startswith(".") and path.is_file() and not _is_of_sweeps(path):
                yield path


def _is_of_sweeps(path: Path) -> bool:
    """Whether a file is a store, or what SQLite writes beside it, or a sweep file: an edited sweep keeps its rows."""
    name = path.name.lower()
    for log in LOGS:
        name = name.removesuffix(log)
    if name.endswith(STORES):
        return True
    if path.suffix.lower() not in SWEEPS:
        return False
    try:
        return any(line.startswith(SWEEP_MARK) for line in path.read_bytes().splitlines())
    except OSError:
        return False


def named_files(script: Path, names: Sequence[str]) -> list[Path]:
    """The files that names stand for, by paths from the script's folder, and those of folders.

    Raises SweepError for one that is not there.
    """
    folder = script.resolve().parent
    return [path for name in names for path in _named(folder, name, script)]


def _named(folder: Path, name: str, script: Path) -> Iterator[Path]:
    path = Path(os.path.normpath(folder / name))
    if path.is_dir():
        yield from _below(path)
    elif path.is_file():
        yield path
    else:
        raise SweepError(
            f"A file of script {str(script)!r} must be a file or folder, by its path from the script, and {name!r} is "
            "none. Correct it."
        )


@lru_cache(maxsize=2 * MOST_FILES)
def _file(path: Path, _size: int, _modified: int, _changed: int) -> tuple[str, frozenset[str]]:
    """The digest of a file as it is now, and the modules that it imports from elsewhere if it is Python's."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SweepError(
            f"File {str(path)!r}, which a script may read, must be readable, and is not: {error.strerror}. Correct its "
            "rights, or name the files that count with files."
        ) from None
    imported = _imported(content) if _is_python(path) else frozenset[str]()
    return hashlib.sha256(content).hexdigest(), imported


def _imported(source: bytes) -> frozenset[str]:
    """The first names of all modules in import statements, wherever they stand."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return frozenset(name.partition(".")[0] for name in names) - {"lathe"}  # which counts by its sources


@lru_cache(maxsize=64)
def _versions(modules: frozenset[str]) -> list[tuple[str, str]]:
    """The distributions that modules are of, with their versions. Python's own count by its version."""
    installed = _distributions()
    found = {name for module in modules for name in installed.get(module, ())}
    versions = [("python", ".".join(map(str, sys.version_info[:2])))]
    for name in sorted(found):
        try:
            versions.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return versions


@lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return {module: list(names) for module, names in packages_distributions().items()}
