"""Dependencies of a user's script: itself, the files in its folder and below, and the packages that it imports.

The key of a script's row includes them. Which files a script reads is unknown before it runs, so all files in its
folder count, unless the sweep file names those that do.
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
"""The maximum total size of the dependencies."""
STORES = (".db", ".db3", ".sqlite", ".sqlite3")
LOGS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite adds to a store."""
SWEEPS = (".yaml", ".yml")
SWEEP_MARK = b"workloads:"
"""The start of a line in every sweep file."""


def script_digest(script: Path, files: Sequence[str] | None = None) -> str:
    """A hash of all dependencies of a script.

    ``files``: the files and folders, relative to the script's folder, that count in addition to Python files; None: all
    in the folder and below. Hidden files, ``__pycache__``, stores and sweep files count only if they are named.

    Raises SweepError for files that do not exist, and for more than 2000 files or 1 GiB.
    """
    folder = script.resolve().parent
    content, modules, size = hashlib.sha256(), set[str](), 0
    for number, path in enumerate(sorted(_counted(script, files))):
        try:
            state = path.stat()
        except OSError:
            continue  # it was just deleted
        size += state.st_size
        if number >= MOST_FILES or size > MOST_BYTES:
            raise SweepError(
                f"Cannot store rows of script {str(script)!r}: it depends on more than {MOST_FILES} files or "
                f"{MOST_BYTES >> 20} MiB. Move it to a folder of its own, or name the files that it reads, such as "
                f"files: '{script.name} weights.npz'; then only these and Python files count."
            )
        digest, imported = _file(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        content.update(os.path.relpath(path, folder).encode() + b"\0" + digest.encode())
        modules |= imported
    content.update(json.dumps(_versions(frozenset(modules))).encode())
    return content.hexdigest()


def newest_file(script: Path, files: Sequence[str] | None = None) -> str:
    """The dependency that has changed last, as a path relative to the script's folder."""
    last = (0, script)
    for path in _counted(script, files):
        with contextlib.suppress(OSError):  # it was just deleted
            last = max(last, (path.stat().st_ctime_ns, path))
    return os.path.relpath(last[1], script.resolve().parent)


def _counted(script: Path, files: Sequence[str] | None) -> set[Path]:
    """The files that a script depends on."""
    counted = {script.resolve(), *named_files(script, files or ())}
    for folder in {script.resolve().parent, script.absolute().parent}:  # two for a symbolic link
        counted |= {path for path in _below(folder) if files is None or _is_python(path)}
    return counted


def _is_python(path: Path) -> bool:
    return path.suffix == ".py"


def _below(folder: Path) -> Iterator[Path]:
    """All files in a folder and below that count without being named; links to folders are not followed."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in names:
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file() and not _is_of_sweeps(path):
                yield path


def _is_of_sweeps(path: Path) -> bool:
    """Whether a file is a store or its log, or a sweep file: editing the sweep must not invalidate its rows."""
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
    """The files with these paths, relative to the script's folder, and all files in the folders among them.

    Raises SweepError for one that does not exist.
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
            f"files of script {str(script)!r} must be files or folders, relative to the script's folder, not {name!r}. "
            "Correct the path."
        )


@lru_cache(maxsize=2 * MOST_FILES)
def _file(path: Path, _size: int, _modified: int, _changed: int) -> tuple[str, frozenset[str]]:
    """The hash of a file's current content and, of a Python file, the modules that it imports."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SweepError(
            f"Cannot read {str(path)!r}, which a script may depend on: {error.strerror}. Correct its permissions, or "
            "name the script's dependencies with files."
        ) from None
    imported = _imported(content) if _is_python(path) else frozenset[str]()
    return hashlib.sha256(content).hexdigest(), imported


def _imported(source: bytes) -> frozenset[str]:
    """The top-level names of all modules that are imported anywhere in a source."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return frozenset(name.partition(".")[0] for name in names) - {"lathe"}  # Lathe's sources are hashed separately


@lru_cache(maxsize=64)
def _versions(modules: frozenset[str]) -> list[tuple[str, str]]:
    """The distributions of modules, with their versions, and Python's version."""
    installed = _distributions()
    names = {name for module in modules for name in installed.get(module, ())}
    versions = [("python", ".".join(map(str, sys.version_info[:2])))]
    for name in sorted(names):
        try:
            versions.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return versions


@lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return {module: list(names) for module, names in packages_distributions().items()}
