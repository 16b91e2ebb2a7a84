"""The wheel contains all packages and data files of the repository."""

import tomllib
from pathlib import Path

import lathe

ROOT = Path(lathe.__file__).resolve().parents[1]
PACKAGES = ("configs", "isa", "frontend", "scheduler", "sim", "rtl")


def settings():
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["setuptools"]


def test_every_package_of_the_repository_is_listed_with_its_folder():
    folders = [path.parent for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")]
    found = {"lathe." + ".".join(folder.relative_to(ROOT).parts): str(folder.relative_to(ROOT)) for folder in folders}
    inner = [path.parent for path in (ROOT / "lathe").glob("*/**/__init__.py") if path.is_relative_to(ROOT / "lathe")]
    own = {".".join(folder.relative_to(ROOT).parts) for folder in inner if not in_packages(folder)}
    data_only = {"lathe.configs.sweeps": "configs/sweeps"}
    listed = settings()
    assert set(listed["packages"]) == {"lathe", *found, *own, *data_only}
    assert listed["package-dir"] == {"lathe": "lathe", **found, **data_only}


def in_packages(folder):
    return folder.relative_to(ROOT / "lathe").parts[0] in PACKAGES


def test_every_file_that_is_not_python_is_package_data():
    patterns = settings()["package-data"]
    for package, folder in {**settings()["package-dir"], "lathe.networks.digits": "lathe/networks/digits"}.items():
        if package == "lathe":
            continue
        others = [path for path in (ROOT / folder).iterdir() if path.is_file() and path.suffix not in (".py", ".pyc")]
        for path in others:
            assert any(path.match(pattern) for pattern in patterns.get(package, [])), path


def test_the_version_of_the_metadata_is_that_of_the_package():
    assert settings()["dynamic"]["version"] == {"attr": "lathe.__version__"}
