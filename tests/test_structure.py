"""Imports between files of a package are at the top and acyclic; shared names are unique.

Import-linter checks that packages, and layers within them, import only lower ones (``pyproject.toml``).
"""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PACKAGES = ["configs", "isa", "frontend", "scheduler", "sim", "rtl", "lathe"]
"""All packages are checked."""

HEAVY = "amaranth"
"""The simulator does not need it: packages other than ``rtl`` may import modules that load it inside functions."""


def modules_of(package: str) -> dict[str, Path]:
    """The files of a package by their module names."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = ["lathe", *path.relative_to(ROOT / "lathe" if package == "lathe" else ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, bool]]:
    """The modules of Lathe that a file imports, also for types only, each with whether a function imports it."""

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((each.name, inside) for each in child.names if each.name.startswith("lathe"))
            elif isinstance(child, ast.ImportFrom) and child.module and child.module.startswith("lathe"):
                for each in child.names:
                    full = f"{child.module}.{each.name}"
                    yield (full if full in modules else child.module), inside
            else:
                yield from visit(
                    child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                )

    yield from visit(ast.parse(path.read_text()), False)


def knots(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one file."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    needs = {module: reached(module) for module in graph}
    groups = {frozenset({module} | {other for other in needs[module] if module in needs[other]}) for module in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def test_knots_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g", "a"}, "g": {"f"}}
    assert knots(graph) == [["a", "b", "c"], ["f", "g"]]


@lru_cache
def heavy_modules() -> frozenset[str]:
    """The modules of ``rtl`` that load Amaranth: they import it, or a module that does, at the top.

    Loading a module loads the packages that contain it.
    """
    modules = modules_of("rtl")
    names = {name: imported_at_top(path, modules) for name, path in modules.items()}
    heavy = {name for name, wanted in names.items() if any(each.split(".")[0] == HEAVY for each in wanted)}
    while True:
        packages = {name: {part for part in modules if name.startswith(f"{part}.")} for name in modules}
        more = {name for name in modules if (names[name] | packages[name]) & heavy} - heavy
        if not more:
            return frozenset(heavy)
        heavy |= more


def imported_at_top(path: Path, modules: dict[str, Path]) -> set[str]:
    """All modules that a file imports when it is loaded."""
    found = {wanted for wanted, inside in imports_of(path, modules) if not inside}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.slow
def test_what_loads_amaranth_is_known() -> None:
    """According to the files, and when they run: cheap modules do not load it, heavy ones do."""
    cheap = ["lathe.rtl_engine", *sorted(modules_of("rtl").keys() - heavy_modules())]
    told = f"print({HEAVY!r} in sys.modules)"
    lines = ["import sys", *(f"import {name}" for name in cheap), told, f"import {min(heavy_modules())}", told]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("package", PACKAGES)
def test_files_import_at_their_top(package: str) -> None:
    modules = modules_of(package)
    late = {
        f"{name} -> {wanted}"
        for name, path in modules.items()
        for wanted, inside in imports_of(path, modules_of("rtl") | modules)
        if inside and (package == "rtl" or wanted not in heavy_modules())
    }
    assert not late


@pytest.mark.sample(1)
@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_needs_what_needs_it(package: str) -> None:
    modules = modules_of(package)
    graph = {
        name: {wanted for wanted, _ in imports_of(path, modules) if wanted in modules and wanted != name}
        for name, path in modules.items()
    }
    assert knots(graph) == []


def test_modules_that_tests_share_have_names_of_their_own() -> None:
    """If two modules have the same name, a worker uses the one that it imports first in all tests."""
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["pythonpath"]
    found = [path for folder in folders for path in (ROOT / folder).iterdir() if not path.stem.startswith("test_")]
    modules = [path for path in found if path.suffix == ".py" or (path / "__init__.py").exists()]
    names = Counter(path.stem for path in modules if path.stem != "conftest")
    assert len(names) > 50
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if name in sys.stdlib_module_names] == []


ACROSS = {"benchmarks", "cosim", "docs", "end_to_end", "errors", "formal", "scheduler/random_tests"}
"""Folders of tests that belong to no package: benchmarks and documents, and tests of several packages."""


def test_tests_stand_in_folders_of_the_rooms_that_they_are_of() -> None:
    folders = {path.parent.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    strange = folders - ACROSS - {"."}
    assert [
        each for each in sorted(strange) if not any((base / each).is_dir() for base in (ROOT, ROOT / "lathe"))
    ] == []


def named(package: str) -> Iterator[tuple[str, str, str]]:
    """Public classes, functions and types that files of a package define, each with its file and definition."""
    for path in sorted((ROOT / package).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                yield node.name, file, file
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
                    yield target.id, file, ast.unparse(node.value).replace("list[", "Sequence[")


def test_a_name_of_the_scheduler_stands_for_one_thing() -> None:
    """Classes and functions have one file; types that several files define are the same type (decision 175)."""
    found: dict[str, dict[str, str]] = {}
    for name, file, what in named("scheduler"):
        found.setdefault(name, {})[what] = file
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
