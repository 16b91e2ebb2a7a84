"""The command line marks errors of kind "limit" as unsupported by Lathe."""

import pytest
from click.testing import CliRunner

from lathe.command_line import main

SCRIPT = """
import lathe as lt

def build(cfg):
    A, k = lt.placeholder((8, 8), "int32", name="A"), lt.reduce_axis((0, 8), name="k")
    C = lt.compute((8,), lambda i: lt.sum(A[i, k], axis=k), name="C")
    s = lt.create_schedule(C)
    s[C].{command}
    return lt.build(s, [A, C], cfg)
"""
NOTE = "(Lathe does not support this; neither the machine nor the program forbids it.)"


@pytest.mark.parametrize(("command", "is_limit"), [('fuse("i", "k")', True), ('split("q", 2)', False)])
def test_errors_of_kind_limit_are_marked_as_unsupported(tmp_path, command, is_limit):
    script, program = tmp_path / "script.py", tmp_path / "P.npz"
    script.write_text(SCRIPT.format(command=command))
    result = CliRunner().invoke(main, ["compile", str(script), "-o", str(program)])
    assert result.exit_code == 2
    assert (NOTE in result.output) is is_limit
    assert result.output.count("\n") == 1
    assert not program.exists()
