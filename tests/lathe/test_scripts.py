"""Scripts import modules from their own folders, whatever another script or a test has imported before."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from lathe.scripts import run_script


def script_with_module(folder: Path, answer: int) -> Path:
    """A script that returns a constant of a module in its folder."""
    folder.mkdir()
    (folder / "answer_module.py").write_text(f"ANSWER = {answer}\n", encoding="utf-8")
    script = folder / "script.py"
    script.write_text("import answer_module\n\ndef main(cfg):\n    return answer_module.ANSWER\n", encoding="utf-8")
    return script


def test_each_script_imports_modules_of_its_own_folder(tmp_path: Path) -> None:
    scripts = [script_with_module(tmp_path / str(answer), answer) for answer in (1, 2)]
    assert [run_script(script, ("main",), "result", "tiny") for script in [*scripts, *scripts]] == [1, 2, 1, 2]


def test_a_module_of_the_same_name_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("answer_module")
    other.__file__ = str(tmp_path / "elsewhere" / "answer_module.py")
    monkeypatch.setitem(sys.modules, "answer_module", other)
    assert run_script(script_with_module(tmp_path / "scripts", 3), ("main",), "result", "tiny") == 3
    assert sys.modules["answer_module"] is other


@pytest.mark.parametrize("name", ["numpy", "json", "sys", "lathe"])
def test_installed_packages_are_not_shadowed(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise AssertionError\n", encoding="utf-8")
    (tmp_path / "script.py").write_text(f"import {name}\n\ndef main(cfg):\n    return {name}\n", encoding="utf-8")
    assert run_script(tmp_path / "script.py", ("main",), "result", "tiny") is sys.modules[name]
