"""Programs: consistency of their fields, and program files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from error_checks import raises

from lathe.configs import load_config
from lathe.isa import Finish, Layout, Load, MemoryType, Program, ProgramError, Segment, Store
from lathe.isa.program_file import FORM, write_archive

TINY = load_config("tiny")


def a_program(**changes: Any) -> Program:
    layout = Layout.row_major((4, 4), "int8")
    parts: dict[str, Any] = {
        "config": TINY,
        "instructions": (
            Load(MemoryType.ACC8, 0, 0x100, 1, 4, 4, push_next=True),
            Store(sram_base=0, dram_base=0x200, y_size=1, x_size=4, x_stride=4, pop_prev=True),
            Finish(),
        ),
        "segments": (
            Segment("code", "instructions", 0x1000, 48),
            Segment("A", "input", 0x400, 16, layout),
            Segment("B", "output", 0x800, 16, layout),
            Segment("weights", "constant", 0x2000, 5),
        ),
        "images": {"weights": np.arange(5, dtype=np.uint8)},
        "labels": ("load", "store"),
        "label_of": np.array([0, 1, 1], np.int32),
        "tokens_in": (0, 0, 0, 1),
        "products": 640,
    }
    return Program(**parts | changes)


def test_program_has_inputs_outputs_and_addresses() -> None:
    program = a_program()
    assert [segment.name for segment in program.inputs] == ["A"]
    assert [segment.name for segment in program.outputs] == ["B"]
    assert program.insn_addr == 0x1000
    assert program.memory_end == 0x2005
    assert program.segment("B").end == 0x810


def test_segment_holds_the_tensor_of_its_name_by_default() -> None:
    program = a_program()
    assert program.segment("A").tensor == "A"
    again = Segment("A.2", "input", 0x500, 16, program.segment("A").layout, tensor="A")
    segments = (*program.segments, again)
    assert [segment.tensor for segment in a_program(segments=segments).inputs] == ["A", "A"]


def test_saved_program_is_loaded_completely(tmp_path: Path) -> None:
    program = a_program()
    program.save(tmp_path / "p.npz")
    loaded = Program.load(tmp_path / "p.npz")
    assert loaded.header() == program.header()
    assert loaded.config == program.config
    assert loaded.instructions == program.instructions
    assert loaded.segments == program.segments
    assert {name: image.tolist() for name, image in loaded.images.items()} == {"weights": [0, 1, 2, 3, 4]}
    assert loaded.label_of.tolist() == [0, 1, 1]
    assert loaded.tokens_in == (0, 0, 0, 1)
    assert loaded.products == 640
    assert [path.name for path in tmp_path.iterdir()] == ["p.npz"]


def test_efficiency_is_the_fraction_of_the_multipliers_peak() -> None:
    assert TINY.multipliers == 16
    assert a_program().efficiency(100) == 640 / 1600
    assert a_program(products=None).efficiency(100) is None


def test_a_file_from_before_products_were_counted_is_read(tmp_path: Path) -> None:
    program = a_program()
    header = {name: value for name, value in program.header().items() if name != "products"}
    arrays = {"insns": program.encoded, "label_of": program.label_of, "image/weights": program.images["weights"]}
    write_archive(tmp_path / "old.npz", header, arrays)
    loaded = Program.load(tmp_path / "old.npz")
    assert (loaded.products, loaded.instructions) == (None, program.instructions)


def test_saving_the_same_program_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        a_program().save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.9, -1])
def test_truncated_program_file_is_refused(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "p.npz"
    a_program().save(path)
    content = path.read_bytes()
    end = int(kept * len(content)) if isinstance(kept, float) else kept
    path.write_bytes(content[:end])
    raises(ProgramError, Program.load, path, mentions=(path, "another file or truncated"))


def test_damaged_program_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    a_program().save(path)
    content = bytearray(path.read_bytes())
    at = content.index(b'"format"')
    content[at + 3] ^= 1
    path.write_bytes(bytes(content))
    raises(ProgramError, Program.load, path, mentions=(path, "another file or truncated"))


def test_a_compression_that_does_not_exist_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    a_program().save(path)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 10] = 77  # the compression method in the archive's directory
    path.write_bytes(bytes(content))
    raises(ProgramError, Program.load, path, mentions=(path, "another file or truncated"))


@pytest.mark.parametrize("foreign", ["text", "npy", "npz", "pickle"])
def test_foreign_file_is_refused(tmp_path: Path, foreign: str) -> None:
    path = tmp_path / "p.npz"
    with path.open("wb") as file:
        if foreign == "text":
            file.write(b"not a program\n")
        elif foreign == "npy":
            np.save(file, np.arange(3))
        elif foreign == "npz":
            np.savez(file, header=np.arange(3))
        else:
            np.save(file, np.array([{}], object), allow_pickle=True)
    raises(ProgramError, Program.load, path, mentions=(path, "another file or truncated"))


def test_missing_file_and_directory_are_refused(tmp_path: Path) -> None:
    raises(
        ProgramError, Program.load, tmp_path / "none.npz", mentions=(tmp_path / "none.npz", "No such file or directory")
    )
    raises(ProgramError, Program.load, tmp_path, mentions=(tmp_path, "Is a directory"))


def test_file_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lathe.isa.program_file.FORM", replace(FORM, version=99))
    a_program().save(tmp_path / "p.npz")
    monkeypatch.undo()
    with pytest.raises(ProgramError) as caught:
        Program.load(tmp_path / "p.npz")
    assert str(caught.value) == (
        f"The version of program file {tmp_path / 'p.npz'} must be 1, not 99. "
        "Compile the program again with this version of Lathe."
    )


def test_program_that_cannot_be_encoded_leaves_no_file(tmp_path: Path) -> None:
    bad = a_program(instructions=(Load(MemoryType.ACC, 1 << 20, 0, 1, 1, 1), Finish(), Finish()))
    with pytest.raises(Exception, match="sram_base of instruction 0"):
        bad.save(tmp_path / "p.npz")
    assert list(tmp_path.iterdir()) == []


CODE = Segment("code", "instructions", 0x1000, 48)


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({"segments": (CODE, Segment("A", "imput", 0, 4))},
            ("role of segment 'A", "instructions, uop, constant, input, output, temporary", "not 'imput")),
        ({"segments": (CODE, Segment("code", "input", 0, 4))}, ("segment", "not 'code' twice")),
        ({"segments": (CODE, Segment("A", "input", 0x1020, 4))},
            ("Segment 'A' must start at or after 0x1030", "segment 'code' ends", "not at 0x1020")),
        ({"segments": (CODE, Segment("A", "input", 0, 3, Layout.row_major((4,), "int8")))},
            ("size of segment 'A", "4 bytes", "not 3")),
        ({"segments": (Segment("code", "instructions", 0, 47),), "images": {}},
            ("one segment", "at least 48 bytes", "not segments of [47]", "16 bytes")),
        ({"images": {}}, ("images", "['weights']", "not []")),
        ({"images": {"weights": np.zeros(4, np.int8)}},
            ("image of segment 'weights", "(5,) and dtype uint8", "not (4,) and int8")),
        ({"label_of": np.array([0, 1], np.int32)}, ("label_of", "3 integers", "not of shape (2,)")),
        ({"label_of": np.array([0, 1, 2], np.int32)}, ("label_of", "from 0 to 1", "not 0 to 2")),
        ({"tokens_in": (0, 0, 0, -1)}, ("tokens_in", "from 0 to 65535", "not (0, 0, 0, -1)")),
        ({"products": -1}, ("products", "at least 0", "not -1")),
        ({"products": 1.5}, ("products", "at least 0", "not 1.5")),
    ],
)  # fmt: skip
def test_inconsistent_program_is_refused(changes: dict[str, Any], mentions: tuple[str, ...]) -> None:
    raises(ProgramError, a_program, mentions=mentions, **changes)


def with_input(address: int, nbytes: int) -> Program:
    segments = (Segment("x", "input", address, nbytes), Segment("i", "instructions", 0, 16))
    return Program(load_config("tiny"), (Finish(),), segments, {}, ("all",), np.zeros(1, np.int32))


@pytest.mark.parametrize(("address", "nbytes"), [(1 << 37, 16), (4096, 1 << 37), (10**30, 16), (4096, 10**30)])
def test_segments_end_where_the_machines_addresses_do(address: int, nbytes: int) -> None:
    with pytest.raises(ProgramError) as caught:
        with_input(address, nbytes)
    assert str(caught.value) == (
        f"Segment 'x' must end below byte 0x2000000000, where the addresses of machine 'tiny' end, not at "
        f"{address + nbytes:#x}. Move or shorten it."
    )
    assert with_input((1 << 37) - 16, 16).memory_end == 1 << 37


def test_addresses_of_segments_are_integers() -> None:
    with pytest.raises(ProgramError) as caught:
        with_input("here", 1.5)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "address and size of segment 'x' must be integers, not 'here' and 1.5. Correct the numbers."
    )
