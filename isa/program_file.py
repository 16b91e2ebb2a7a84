"""Program files: an ``.npz`` archive of arrays and a JSON header, without pickle, written whole or not at all."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig, LatheError
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.configs.atomic import writing
from lathe.configs.errors import shown
from lathe.isa.encoding import decode
from lathe.isa.errors import ProgramError
from lathe.isa.layout import Layout
from lathe.isa.program import Program, Segment

FORMAT = "lathe program"
VERSION = 1
_IMAGE = "image/"


def save_program(program: Program, path: str | PathLike[str]) -> None:
    """Write a program. The file appears under its name only when it is complete."""
    header = {"format": FORMAT, "version": VERSION, **program.header()}
    arrays: dict[str, Any] = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8),
        "insns": program.encoded,
        "label_of": np.asarray(program.label_of, np.int32),
    }
    arrays |= {_IMAGE + name: image for name, image in program.images.items()}
    with writing(path) as file:
        np.savez(file, **arrays)


def load_program(path: str | PathLike[str]) -> Program:
    """Read a program. Raises :class:`ProgramError` for a file that is truncated, foreign or of another version."""
    if not isinstance(path, str | PathLike):
        raise ProgramError(f"The program file must be given by its path, not {shown(path)}.")
    source = Path(path)
    try:
        arrays = read_arrays(source)
    except UnreadableArchiveError as error:
        if error.no_file:
            raise ProgramError(
                f"The program file {source} must be readable, and is not: {error}. Correct the path or its rights."
            ) from None
        raise _foreign(source) from None
    if "header" not in arrays and "insn_addr" in arrays:
        raise ProgramError(
            f"The file {source} must be a program that Lathe has saved, not a raw stream. Run it with `lathe replay`, "
            "or with replay in Python."
        )
    try:
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise _foreign(source)
        version = header["version"]
    except (KeyError, ValueError, TypeError, AttributeError):
        raise _foreign(source) from None
    if version != VERSION:
        raise ProgramError(
            f"The version of program file {source} must be {VERSION}, not {version!r}. "
            "Compile the program again with this version of Lathe."
        )
    try:
        return _program(header, arrays)
    except LatheError as error:
        raise ProgramError(f"The program file {source} must hold a consistent program, and does not. {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise _foreign(source) from None


def _program(header: dict[str, Any], arrays: dict[str, Any]) -> Program:
    config = HardwareConfig.from_dict(header["config"])
    segments = tuple(
        Segment(
            each["name"],
            each["role"],
            each["address"],
            each["nbytes"],
            Layout.from_dict(each["layout"]) if each["layout"] is not None else None,
            each.get("tensor", ""),
            each.get("loaded_early", False),
        )
        for each in header["segments"]
    )
    return Program(
        config=config,
        instructions=tuple(decode(config, arrays["insns"])),
        segments=segments,
        images={name.removeprefix(_IMAGE): array for name, array in arrays.items() if name.startswith(_IMAGE)},
        labels=tuple(header["labels"]),
        label_of=arrays["label_of"],
        tokens_in=tuple(header["tokens_in"]),
    )


def _foreign(path: Path) -> ProgramError:
    return ProgramError(
        f"The file {path} must be a program that Lathe has saved, and is not, or it is truncated. Compile it again."
    )
