"""A new instruction requires a table row, its semantics and an RTL unit; all else is derived.

The test adds one to a copy of the source tree, as its author would, and uses it there in a separate process.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIVEN = Path(__file__).parent / "new_instruction"

ROW = [
    ("configs/instructions/codes.py", "    RESCALE = 5\n", "    RESCALE = 5\n    CLIP = 6\n"),
    (
        "configs/instructions/__init__.py",
        "from lathe.configs.instructions.codes import Opcode\n",
        "from lathe.configs.instructions.clip import CLIP, Clip\nfrom lathe.configs.instructions.codes import Opcode\n",
    ),
    ("configs/instructions/__init__.py", "Alu | Rescale\n", "Alu | Rescale | Clip\n"),
    ("configs/instructions/__init__.py", "ALU, RESCALE)", "ALU, RESCALE, CLIP)"),
]
"""Besides the row's own file, ``clip.py``: replacements by file."""

SEMANTICS = [
    (
        "isa/uop_semantics.py",
        "Opcode.ALU: MicroOpSemantics(_alu, lanewise=True)",
        "Opcode.ALU: MicroOpSemantics(_alu, lanewise=True), Opcode.CLIP: MicroOpSemantics("
        'lambda clip, of: np.clip(of["dst"], clip.low, clip.high), lanewise=True)',
    ),
]

UNIT = [
    (
        "rtl/functional_units.py",
        "from lathe.rtl.execute_stage import ExecuteStage\n",
        "from lathe.rtl.clip import clip_in\nfrom lathe.rtl.execute_stage import ExecuteStage\n",
    ),
    (
        "rtl/functional_units.py",
        "Opcode.RESCALE: connect_rescale",
        "Opcode.RESCALE: connect_rescale, Opcode.CLIP: clip_in",
    ),
]
"""Besides its hardware, ``rtl/clip.py``."""


@pytest.fixture
def source_tree(tmp_path: Path) -> Path:
    """A copy of the source tree with the new instruction."""
    ignored = shutil.ignore_patterns("__pycache__")
    for package in ("configs", "isa", "frontend", "scheduler", "sim", "rtl", "lathe"):
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=True, ignore=ignored)
    shutil.copy(GIVEN / "clip.py", tmp_path / "configs" / "instructions")
    shutil.copy(GIVEN / "gates.py", tmp_path / "rtl" / "clip.py")
    for name, before, after in (*ROW, *SEMANTICS, *UNIT):
        path = tmp_path / name
        source = path.read_text()
        assert source.count(before) == 1, f"{name} has {before!r} {source.count(before)} times"
        path.write_text(source.replace(before, after))
    return tmp_path


@pytest.mark.slow
def test_an_instruction_is_a_row_semantics_and_a_unit(source_tree: Path) -> None:
    ran = subprocess.run(
        [sys.executable, GIVEN / "uses.py"],
        cwd=source_tree,
        env={**os.environ, "PYTHONPATH": str(source_tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == (GIVEN / "expected.txt").read_text()
