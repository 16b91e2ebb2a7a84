"""What scripts may import: what lies beside each of them, whatever another script or a test has imported before."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from lathe.scripts import run_script


def script_beside(folder: Path, answer: int) -> Path:
    """A script whose result is what a module beside it says."""
    folder.mkdir()
    (folder / "told_beside.py").write_text(f"ANSWER = {answer}\n", encoding="utf-8")
    script = folder / "script.py"
    script.write_text("import told_beside\n\ndef main(cfg):\n    return told_beside.ANSWER\n", encoding="utf-8")
    return script


def test_each_script_imports_what_lies_beside_it(tmp_path: Path) -> None:
    scripts = [script_beside(tmp_path / str(answer), answer) for answer in (1, 2)]
    assert [run_script(script, ("main",), "result", "tiny") for script in [*scripts, *scripts]] == [1, 2, 1, 2]


def test_a_module_of_the_same_name_is_there_again_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("told_beside")
    other.__file__ = str(tmp_path / "elsewhere" / "told_beside.py")
    monkeypatch.setitem(sys.modules, "told_beside", other)
    assert run_script(script_beside(tmp_path / "scripts", 3), ("main",), "result", "tiny") == 3
    assert sys.modules["told_beside"] is other


@pytest.mark.parametrize("name", ["numpy", "json", "sys", "lathe"])
def test_what_is_installed_is_not_hidden(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise AssertionError\n", encoding="utf-8")
    (tmp_path / "script.py").write_text(f"import {name}\n\ndef main(cfg):\n    return {name}\n", encoding="utf-8")
    assert run_script(tmp_path / "script.py", ("main",), "result", "tiny") is sys.modules[name]
