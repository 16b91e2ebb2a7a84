"""What the wheel must hold is what the repository has."""

import tomllib
from pathlib import Path

import lathe

ROOT = Path(lathe.__file__).resolve().parents[1]
ROOMS = ("configs", "isa", "frontend", "scheduler", "sim", "rtl")


def settings():
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["setuptools"]


def test_every_package_of_the_repository_is_listed_with_its_folder():
    folders = [path.parent for room in ROOMS for path in (ROOT / room).rglob("__init__.py")]
    found = {"lathe." + ".".join(folder.relative_to(ROOT).parts): str(folder.relative_to(ROOT)) for folder in folders}
    inner = [path.parent for path in (ROOT / "lathe").glob("*/**/__init__.py") if path.is_relative_to(ROOT / "lathe")]
    own = {".".join(folder.relative_to(ROOT).parts) for folder in inner if not is_room(folder)}
    data_only = {"lathe.configs.sweeps": "configs/sweeps"}
    listed = settings()
    assert set(listed["packages"]) == {"lathe", *found, *own, *data_only}
    assert listed["package-dir"] == {"lathe": "lathe", **found, **data_only}


def is_room(folder):
    return folder.relative_to(ROOT / "lathe").parts[0] in ROOMS


def test_every_file_that_is_no_python_is_package_data():
    patterns = settings()["package-data"]
    for package, folder in {**settings()["package-dir"], "lathe.networks.digits": "lathe/networks/digits"}.items():
        if package == "lathe":
            continue
        others = [path for path in (ROOT / folder).iterdir() if path.is_file() and path.suffix not in (".py", ".pyc")]
        for path in others:
            assert any(path.match(pattern) for pattern in patterns.get(package, [])), path


def test_the_version_is_the_same_in_the_package_and_its_metadata():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == lathe.__version__
