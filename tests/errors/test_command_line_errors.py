"""Invalid input on the command line: one paragraph, no traceback, exit status 2, and nothing written."""

import os

import numpy as np
import pytest
from click.testing import CliRunner
from error_checks import check_mentions

import lathe as lt
from lathe.command_line import main
from lathe.isa import encode

SHIPPED = ", ".join(lt.shipped_configs())


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def program():
    A, B = lt.placeholder((4, 16), "int8", name="A"), lt.placeholder((4, 16), "int8", name="B")
    C = lt.compute(A.shape, lambda i, j: lt.max(A[i, j], B[i, j]), name="C")
    lt.build(C, [A, B, C], lt.load_config("vta")).save("p.npz")
    return "p.npz"


def refused(*words):
    """The message of a command that is refused; nothing may have been written."""
    before = sorted(os.listdir())
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert sorted(os.listdir()) == before
    return result.stderr.removeprefix("Error: ").removesuffix("\n")


def test_an_unknown_configuration():
    assert refused("run", "-c", "vta2") == (
        f"The configuration must be one of {SHIPPED}, or the path of a YAML or JSON file, "
        "not 'vta2'. "
        "Did you mean 'vta'?"
    )


def test_a_configuration_file_that_is_missing():
    assert refused("run", "-c", "mine.yaml") == (
        "The configuration file mine.yaml must exist, and does not. "
        f"Correct the path, or give the name of a shipped machine: {SHIPPED}."
    )


def test_a_configuration_that_is_no_yaml(tmp_path):
    (tmp_path / "mine.yaml").write_text("batch: 1\nblock_in: [16\n")
    assert refused("run", "-c", "mine.yaml") == (
        "The text of mine.yaml, line 3, must be YAML, and is not: expected ',' or ']', but got '<stream end>'. "
        "Correct the line."
    )


def test_a_configuration_with_an_unknown_key(tmp_path):
    (tmp_path / "mine.yaml").write_text("batch: 1\nblock: 16\n")
    assert refused("run", "-c", "mine.yaml").startswith("A key of mine.yaml, line 2, must be one of name, batch, ")
    assert refused("run", "-c", "mine.yaml").endswith(", not 'block'. Did you mean 'block_in'?")


def test_inputs_of_a_wrong_shape(program):
    np.savez("in.npz", A=np.zeros((4, 15), np.int8), B=np.zeros((4, 16), np.int8))
    assert refused("simulate", program, "in.npz", "-o", "out.npz") == (
        "Input 'A' of the program must have shape (4, 16) and dtype int8, not (4, 15) and int8. "
        "Convert the array first."
    )


def test_inputs_of_a_wrong_dtype(program):
    np.savez("in.npz", A=np.zeros((4, 16), np.int8), B=np.zeros((4, 16), np.float32))
    assert refused("simulate", program, "in.npz", "-o", "out.npz") == (
        "Input 'B' of the program must have shape (4, 16) and dtype int8, not (4, 16) and float32. "
        "Convert the array first."
    )


def test_a_missing_input(program):
    np.savez("in.npz", A=np.zeros((4, 16), np.int8))
    assert refused("simulate", program, "in.npz", "-o", "out.npz") == (
        "The inputs of the program must have 'B' of shape (4, 16) and dtype int8, which is missing. Add it."
    )


def test_no_inputs_at_all(program):
    message = refused("simulate", program, "-o", "out.npz")
    check_mentions(message, str(program), "(A, B) are missing", "INPUTS", "--random SEED", "--timing-only")


def test_an_input_too_many(program):
    np.savez("in.npz", **{name: np.zeros((4, 16), np.int8) for name in "ABX"})
    assert refused("simulate", program, "in.npz", "-o", "out.npz") == (
        "The inputs of the program must be A, B, not 'X'. Remove it or correct its name."
    )


def test_inputs_that_are_no_archive(program, tmp_path):
    (tmp_path / "in.npz").write_text("1 2 3")
    check_mentions(refused("simulate", program, "in.npz"), "inputs from 'in.npz'", ".npz archive", "numpy.savez")


@pytest.mark.parametrize("command", ["simulate", "disasm", "verify"])
def test_a_truncated_program(command, program, tmp_path):
    content = (tmp_path / program).read_bytes()
    (tmp_path / program).write_bytes(content[: len(content) // 2])
    assert program in refused(command, program)


@pytest.mark.parametrize("command", ["simulate", "disasm", "verify"])
def test_a_foreign_program(command):
    np.savez("p.npz", header=np.zeros(3, np.uint8), weights=np.zeros(3))
    assert refused(command, "p.npz") == (
        "The file p.npz must be a program saved by Lathe, but is another file or truncated. Compile it again."
    )


def test_a_program_for_another_machine(program):
    assert refused("disasm", program, "-c", "tiny") == (
        "The machine of the program 'p.npz' must be the one that it was compiled for, 'vta', not 'tiny'. "
        "Leave out -c, or compile the program again."
    )


@pytest.mark.parametrize("extent", [0, -4])
def test_a_shape_that_holds_nothing(extent, tmp_path):
    text = f"import lathe as lt\ndef build(cfg):\n    lt.placeholder(({extent}, 16), name='A')\n"
    (tmp_path / "script.py").write_text(text)
    assert refused("compile", "script.py", "-o", "p.npz") == (
        f"extent of dimension 0 of placeholder 'A' must be a positive integer, not {extent}. "
        "A tensor has at least one element. This came from script.py, line 3."
    )


TOO_LARGE = """
import lathe as lt

def build(cfg):
    A = lt.placeholder((1024, 4), "int8", name="A")
    B = lt.compute(A.shape, lambda i, j: lt.max(A[i, j], 0), name="B")
    s = lt.create_schedule(B)
    made = s.cache_write(B, "acc")
    io, ii = s[B].split(s[B].axis[0], factor=512)
    s[made].compute_at(s[B], io)
    return lt.build(s, [A, B], cfg)
"""


def test_a_tile_that_exceeds_a_scratchpad(tmp_path):
    (tmp_path / "script.py").write_text(TOO_LARGE)
    message = refused("compile", "script.py", "-c", "tiny", "-o", "p.npz")
    check_mentions(message, "acc", 256, 512, "A.acc 512", "A.acc 256", "512×4", "script.py, line 11")


def test_an_assembly_text_with_a_mistake(tmp_path):
    (tmp_path / "text.asm").write_text("finish\nload imp sram_base=0\n")
    assert refused("asm", "text.asm", "-o", "s.npz") == (
        "memory_type of LOAD of text.asm, line 2, must be one of uop, wgt, inp, acc, out, acc8, par, lut, not 'imp'. "
        "Did you mean 'inp'?"
    )


def test_an_output_folder_that_does_not_exist():
    check_mentions(
        refused("compile", "-o", "missing/p.npz"), "output file", "missing/p.npz", "No such file or directory"
    )


def test_a_seed_that_is_negative(program):
    assert refused("simulate", program, "--random", "-1") == (
        "The seed of --random must be an integer of at least 0, not -1."
    )


@pytest.mark.parametrize("command", ["simulate", "replay"])
def test_an_unknown_engine(command, program):
    stream = {"insns": np.zeros((0, 16), np.uint8), "insn_addr": 0, "tokens": np.zeros(4, np.int64)}
    np.savez("s.npz", **stream, page_addrs=np.zeros(0, np.uint64), pages=np.zeros((0, 4096), np.uint8))
    path = program if command == "simulate" else "s.npz"
    known = "The engine must be one of sim, pysim, verilator, all, not "
    assert refused(command, path, "--engine", "foo") == f"{known}'foo'. Choose one of these."
    assert refused(command, path, "--engine", "al") == f"{known}'al'. Did you mean 'all'?"
    assert refused(command, path, "--engine", "sim,foo") == f"{known}'foo'. Choose one of these."
    for given, told in (
        ("sim,sim", "sim, sim"),
        ("all,sim", "sim, verilator, sim"),
        ("sim, pysim ,sim", "sim, pysim, sim"),
    ):
        check_mentions(refused(command, path, "--engine", given), "--engine", "distinct", f"not {told}.")


def test_a_fault_with_its_code_and_cycle():
    cfg = lt.load_config("tiny")
    waiting = lt.Load(lt.MemoryType.INP, 0, 0, 1, 1, 1, pop_next=True)
    stream = {"insns": encode(cfg, [waiting, lt.Finish()]), "insn_addr": 0x1000, "tokens": np.zeros(4, np.int64)}
    np.savez("s.npz", **stream, page_addrs=np.zeros(1, np.uint64), pages=np.zeros((1, 4096), np.uint8))
    load = "load inp sram_base=0 dram_base=0x0 y_size=1 x_size=1 x_stride=1 pop_next"
    check_mentions(
        refused("replay", "s.npz", "-c", "tiny"),
        *("deadlocked after cycle 22", f"load waits with instruction 0 ({load})", "compute->load"),
        *("compute has no instruction", "store has no instruction"),
        "(Fault 14, DEADLOCK, in cycle 24, instruction 0.)",
    )
